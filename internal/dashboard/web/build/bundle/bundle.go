// Package bundle makes the files of the dashboard's page from TypeScript, with esbuild.
package bundle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// MaxBytes is the limit of the size of the whole page.
const MaxBytes = 150 << 10

// Build returns the contents of the files of dist by name, from the sources in dir/src.
func Build(dir string) (map[string][]byte, error) {
	src, err := filepath.Abs(filepath.Join(dir, "src"))
	if err != nil {
		return nil, err
	}
	script, err := compile(src, "main.ts", api.BuildOptions{Format: api.FormatIIFE})
	if err != nil {
		return nil, err
	}
	style, err := compile(src, "style.css", api.BuildOptions{})
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(src, "index.html"))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"index.html": page, "app.js": script, "app.css": style}
	if n := size(files); n > MaxBytes {
		return nil, fmt.Errorf("the page has %d bytes, more than %d", n, MaxBytes)
	}
	return files, nil
}

// Script returns the bundle of one source file, for Node.js.
func Script(dir, name string) ([]byte, error) {
	src, err := filepath.Abs(filepath.Join(dir, "src"))
	if err != nil {
		return nil, err
	}
	return compile(src, name, api.BuildOptions{Platform: api.PlatformNode, Format: api.FormatESModule})
}

func compile(src, name string, o api.BuildOptions) ([]byte, error) {
	o.AbsWorkingDir = src
	o.EntryPoints = []string{filepath.Join(src, name)}
	o.Bundle = true
	o.Target = api.ES2022
	o.Charset = api.CharsetUTF8
	o.LegalComments = api.LegalCommentsNone
	o.MinifyWhitespace, o.MinifyIdentifiers, o.MinifySyntax = true, true, true
	o.LogLevel = api.LogLevelSilent
	r := api.Build(o)
	var errs []error
	for _, m := range append(r.Errors, r.Warnings...) {
		text := m.Text
		if m.Location != nil {
			text = fmt.Sprintf("%s:%d: %s", m.Location.File, m.Location.Line, text)
		}
		errs = append(errs, errors.New(text))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if n := len(r.OutputFiles); n != 1 {
		return nil, fmt.Errorf("%s: %d files, want 1", name, n)
	}
	return r.OutputFiles[0].Contents, nil
}

func size(files map[string][]byte) int {
	n := 0
	for _, b := range files {
		n += len(b)
	}
	return n
}

// Write replaces the files in dir/dist and returns their size in bytes.
func Write(dir string, files map[string][]byte) (int, error) {
	dist := filepath.Join(dir, "dist")
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return 0, err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dist, name), b, 0o644); err != nil {
			return 0, err
		}
	}
	return size(files), nil
}

// Stale returns the names of the files in dir/dist that differ from files, in order.
func Stale(dir string, files map[string][]byte) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "dist"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var stale []string
	for _, e := range entries {
		if _, ok := files[e.Name()]; !ok {
			stale = append(stale, e.Name())
		}
	}
	for _, name := range []string{"app.css", "app.js", "index.html"} {
		b, err := os.ReadFile(filepath.Join(dir, "dist", name))
		if err != nil || strings.Compare(string(b), string(files[name])) != 0 {
			stale = append(stale, name)
		}
	}
	return stale, nil
}
