// Package golist reads the packages of a module with go list and imports them from what the go command has compiled.
package golist

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

// Package is a package in the output of go list. Only the requested fields are set.
type Package struct {
	ImportPath, Dir                 string
	Export                          string // file with the export data
	GoFiles, CgoFiles, XTestGoFiles []string
	XTestImports                    []string
}

// Run returns the packages that go list prints in dir for patterns, by import path. Fields are names of fields of
// Package, separated by commas; flags are flags of go list, such as -deps.
func Run(dir string, patterns []string, fields string, flags ...string) (map[string]*Package, error) {
	cmd := exec.Command("go", slices.Concat([]string{"list", "-json=ImportPath," + fields}, flags, patterns)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("golist: %w\n%s", err, &stderr)
	}
	packages := map[string]*Package{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(Package)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("golist: %w", err)
		}
		packages[p.ImportPath] = p
	}
}

// Exports returns a lookup of the export data of packages, which were listed with the field Export and the flags
// -export and -deps, for an importer of package go/importer.
func Exports(packages map[string]*Package) importer.Lookup {
	return func(path string) (io.ReadCloser, error) {
		if p := packages[path]; p != nil && p.Export != "" {
			return os.Open(p.Export)
		}
		return nil, fmt.Errorf("golist: no export data of %s", path)
	}
}
