package rules

import (
	"slices"

	"go.millstream.dev/internal/tools/golist"
)

// goList returns the packages in dirs, the imports of their external tests, and all indirect imports, by import path.
// It compiles them without tests, as go vet does.
func goList(root string, dirs []string) (map[string]*golist.Package, error) {
	patterns := make([]string, len(dirs))
	for i, d := range dirs {
		patterns[i] = "./" + d
	}
	packages, err := golist.Run(root, patterns, "XTestImports")
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		patterns = append(patterns, p.XTestImports...)
	}
	slices.Sort(patterns)
	return golist.Run(root, slices.Compact(patterns), "Dir,Export,GoFiles,CgoFiles,XTestGoFiles", "-export", "-deps")
}
