package gpurecord

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"go.millstream.dev/internal/tools/testfuncs"
)

// listed is a package in the output of `go list -json`.
type listed struct {
	ImportPath string
	Dir        string
	Deps       []string
	EmbedFiles []string
	TestEmbed  []string `json:"TestEmbedFiles"`
	XTestEmbed []string `json:"XTestEmbedFiles"`
	Module     *struct{ Main bool }
}

// sourceExtensions are the extensions of the hashed files of a package, besides embedded ones.
var sourceExtensions = []string{".go", ".c", ".h", ".s", ".S", ".cu", ".cuh", ".ptx"}

// Sources returns a hash of the sources that the tests of each package cover: the files of the package with its tests
// and testdata, and those of all packages of the module that it or its tests import, directly or not. Files that build
// tags exclude are included, so that the hash is the same on every machine. Comments and layout of Go files do not
// count.
func Sources(ctx context.Context, root string, packages []string) (map[string]string, error) {
	if len(packages) == 0 {
		return map[string]string{}, nil
	}
	all, err := list(ctx, root, packages)
	if err != nil {
		return nil, err
	}
	hashes := make(map[string]string, len(packages))
	for _, pkg := range packages {
		files := map[string]bool{}
		for _, dep := range append(all[pkg+".test"].Deps, pkg) {
			// A package that is compiled again for a test is named "PATH [TEST.test]".
			name, _, _ := strings.Cut(dep, " ")
			p := all[name]
			if p == nil || p.Module == nil || !p.Module.Main {
				continue
			}
			if err := p.files(files, name == pkg); err != nil {
				return nil, err
			}
		}
		if hashes[pkg], err = hash(root, files); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// list returns packages, their tests and all their imports from the go command, by import path.
func list(ctx context.Context, root string, packages []string) (map[string]*listed, error) {
	const fields = "ImportPath,Dir,Deps,EmbedFiles,TestEmbedFiles,XTestEmbedFiles,Module"
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-e", "-deps", "-test", "-json=" + fields},
		packages...)...)
	cmd.Dir = root
	// Imports may depend on these variables.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=", "PWD="+root)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	all := map[string]*listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all[p.ImportPath] = p
	}
}

// files adds the files of a package to a set, with its tests if tests is set.
func (p *listed) files(set map[string]bool, tests bool) error {
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		isTest := strings.HasSuffix(e.Name(), "_test.go")
		if e.Type().IsRegular() && slices.Contains(sourceExtensions, filepath.Ext(e.Name())) && (tests || !isTest) {
			set[filepath.Join(p.Dir, e.Name())] = true
		}
	}
	embedded := p.EmbedFiles
	if tests {
		embedded = slices.Concat(embedded, p.TestEmbed, p.XTestEmbed)
	}
	for _, name := range embedded {
		set[filepath.Join(p.Dir, name)] = true
	}
	if !tests {
		return nil
	}
	err = filepath.WalkDir(filepath.Join(p.Dir, "testdata"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			set[name] = true
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// hash hashes the names, relative to root, and the contents of files.
func hash(root string, files map[string]bool) (string, error) {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	h := sha256.New()
	for _, name := range names {
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return "", err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		if filepath.Ext(name) == ".go" {
			data = significant(data)
		}
		fmt.Fprintf(h, "%s %x\n", filepath.ToSlash(rel), sha256.Sum256(data))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Stale returns the tests that passed with other sources than those of the hashes, or whose sources are not recorded.
func (r *Record) Stale(tests []testfuncs.Func, hashes map[string]string) []testfuncs.Func {
	if r == nil {
		return tests
	}
	return slices.DeleteFunc(slices.Clone(tests), func(t testfuncs.Func) bool {
		return r.Sources[t.Package] != "" && r.Sources[t.Package] == hashes[t.Package]
	})
}

// Lines formats tests, one line per package.
func Lines(tests []testfuncs.Func) []string {
	var lines []string
	for _, pkg := range testfuncs.Packages(tests) {
		var names []string
		for _, t := range tests {
			if t.Package == pkg {
				names = append(names, t.Name)
			}
		}
		lines = append(lines, pkg+": "+strings.Join(names, " "))
	}
	return lines
}
