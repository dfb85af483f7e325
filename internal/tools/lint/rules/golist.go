package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"io"
	"os"
	"os/exec"
	"slices"
)

// listed is a package in the output of go list.
type listed struct {
	ImportPath, Dir                 string
	Export                          string // file with the export data
	GoFiles, CgoFiles, XTestGoFiles []string
	XTestImports                    []string
}

// goList returns the packages in dirs, the imports of their external tests, and all indirect imports, by import path.
// It compiles them without tests, as go vet does.
func goList(root string, dirs []string) (map[string]*listed, error) {
	patterns := make([]string, len(dirs))
	for i, d := range dirs {
		patterns[i] = "./" + d
	}
	packages, err := runList(root, patterns, "XTestImports")
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		patterns = append(patterns, p.XTestImports...)
	}
	slices.Sort(patterns)
	return runList(root, slices.Compact(patterns), "Dir,Export,GoFiles,CgoFiles,XTestGoFiles", "-export",
		"-deps")
}

func runList(root string, patterns []string, fields string, flags ...string) (map[string]*listed, error) {
	cmd := exec.Command("go", slices.Concat([]string{"list", "-json=ImportPath," + fields}, flags, patterns)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("rules: go list: %w\n%s", err, &stderr)
	}
	packages := map[string]*listed{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("rules: go list: %w", err)
		}
		packages[p.ImportPath] = p
	}
}

// exports returns a lookup of the export data of packages for an importer.
func exports(packages map[string]*listed) importer.Lookup {
	return func(path string) (io.ReadCloser, error) {
		if p := packages[path]; p != nil && p.Export != "" {
			return os.Open(p.Export)
		}
		return nil, fmt.Errorf("rules: no export data of %s", path)
	}
}
