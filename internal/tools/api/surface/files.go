package surface

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Folder is the folder of the listing, relative to the root.
const Folder = "api"

// file returns the name of the listing of a package.
func (p *Package) file() string {
	if p.Dir == "." {
		return "millstream.txt"
	}
	return strings.ReplaceAll(p.Dir, "/", "-") + ".txt"
}

// text returns the content of the listing of a package.
func (p *Package) text() []byte {
	return []byte(strings.Join(p.Lines, "\n") + "\n")
}

// Write updates the listing in root.
func (a *API) Write(root string) error {
	stale, err := a.Stale(root)
	if err != nil || len(stale) == 0 {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, Folder), 0o755); err != nil {
		return err
	}
	for _, name := range stale {
		full := filepath.Join(root, filepath.FromSlash(name))
		i := slices.IndexFunc(a.Packages, func(p Package) bool { return p.file() == filepath.Base(full) })
		if i < 0 {
			err = errors.Join(err, os.Remove(full))
		} else {
			err = errors.Join(err, os.WriteFile(full, a.Packages[i].text(), 0o644))
		}
	}
	return err
}

// Stale returns the files of the listing in root that are missing, superfluous or outdated, relative to root.
func (a *API) Stale(root string) ([]string, error) {
	var stale []string
	want := map[string]bool{}
	for _, p := range a.Packages {
		want[p.file()] = true
		got, err := os.ReadFile(filepath.Join(root, Folder, p.file()))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if err != nil || string(got) != string(p.text()) {
			stale = append(stale, Folder+"/"+p.file())
		}
	}
	entries, err := os.ReadDir(filepath.Join(root, Folder))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".txt") && !want[e.Name()] {
			stale = append(stale, Folder+"/"+e.Name())
		}
	}
	slices.Sort(stale)
	return stale, nil
}
