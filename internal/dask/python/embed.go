// Package python embeds the Python package millstream in Go programs, so that the Python children of a scheduler or
// worker always run the code of their own release, whatever else is installed.
package python

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"sync"
)

//go:embed millstream/*.py
var files embed.FS

// Boot returns the program with which a child starts: python -c Boot. It reads Bundle from its standard input.
var Boot = sync.OnceValue(func() string {
	text, err := files.ReadFile("millstream/_boot.py")
	if err != nil {
		panic(fmt.Sprintf("python: %v", err)) // the build fails without the embedded files
	}
	return string(text)
})

// Bundle returns the source files of the package as JSON: an object of module names and their text. The text of a
// package has the name of the package.
var Bundle = sync.OnceValue(func() []byte {
	modules := map[string]string{}
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := files.ReadFile(path)
		name := strings.ReplaceAll(strings.TrimSuffix(path, ".py"), "/", ".")
		modules[strings.TrimSuffix(name, ".__init__")] = string(text)
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("python: %v", err))
	}
	b, err := json.Marshal(modules)
	if err != nil {
		panic(fmt.Sprintf("python: %v", err))
	}
	return b
})

// Files returns the source files: a folder millstream, for programs that add it to PYTHONPATH.
func Files() fs.FS { return files }

// Text returns the source of a module of the package, for workers that do not have it.
func Text(module string) (string, error) {
	b, err := files.ReadFile("millstream/" + module + ".py")
	if err != nil {
		return "", fmt.Errorf("python: no module %s: %w", module, err)
	}
	return string(b), nil
}
