// Package python carries the Python package millstream inside Go programs, so that the
// Python children of a scheduler or worker always run the code of their own release,
// whatever is installed beside it.
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

// Boot is the program that a child starts with: python -c Boot. It reads Bundle from its
// standard input.
var Boot = sync.OnceValue(func() string {
	text, err := files.ReadFile("millstream/_boot.py")
	if err != nil {
		panic(fmt.Sprintf("python: %v", err)) // the embedded files are there or the program does not build
	}
	return string(text)
})

// Bundle is the package's source files as JSON: an object of module names and their text.
// A package's own text goes by the package's name.
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

// Files returns the source files: a folder millstream, for programs that want it on their PYTHONPATH.
func Files() fs.FS { return files }

// Text is the source of a module of the package, for workers that do not have it.
func Text(module string) (string, error) {
	b, err := files.ReadFile("millstream/" + module + ".py")
	if err != nil {
		return "", fmt.Errorf("python: there is no module %s: %w", module, err)
	}
	return string(b), nil
}
