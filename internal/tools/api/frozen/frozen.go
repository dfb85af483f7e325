// Package frozen compares the listing of the API with that of the last release, api/VERSION/*.txt.
package frozen

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.millstream.dev/internal/tools/api/surface"
)

var versionForm = regexp.MustCompile(`^v(\d+)\.(\d+)\.(\d+)$`)

// number returns the parts of a version, and reports whether it is one of a release.
func number(version string) (parts [3]int, ok bool) {
	m := versionForm.FindStringSubmatch(version)
	if m == nil {
		return parts, false
	}
	for i := range parts {
		n, err := strconv.Atoi(m[i+1])
		if err != nil {
			return parts, false
		}
		parts[i] = n
	}
	return parts, true
}

// Latest returns the newest version with a listing in root, or "" if there is none.
func Latest(root string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(root, surface.Folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	latest, best := "", [3]int{}
	for _, e := range entries {
		if n, ok := number(e.Name()); ok && e.IsDir() && (latest == "" || slices.Compare(n[:], best[:]) > 0) {
			latest, best = e.Name(), n
		}
	}
	return latest, nil
}

// Freeze copies the listing in root for a release. A listing that was frozen before is not changed.
func Freeze(root, version string) error {
	if _, ok := number(version); !ok {
		return fmt.Errorf("frozen: version %q is not of the form v1.2.3; freeze releases only", version)
	}
	to := filepath.Join(root, surface.Folder, version)
	if err := os.Mkdir(to, 0o755); err != nil {
		return fmt.Errorf("frozen: listing of %s: %w; remove its folder to freeze it again before the tag", version,
			err)
	}
	files, err := listing(filepath.Join(root, surface.Folder))
	if err != nil {
		return err
	}
	for name, lines := range files {
		text := strings.Join(lines, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(to, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// listing returns the lines of the files of a folder by name.
func listing(dir string) (map[string][]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	files := map[string][]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[filepath.Base(name)] = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
	return files, nil
}

// Break is a change that can keep a program from compiling.
type Break struct {
	File string // of the frozen listing, relative to the root
	Line string // of the frozen listing, or of the current one if Added
	Name string // last identifier of the changed name
	// Added indicates a method that an interface of the release has not.
	Added bool
}

func (b Break) String() string {
	what := "removed or changed"
	if b.Added {
		what = "added to an interface"
	}
	return fmt.Sprintf("%s: %s: %s", b.File, what, b.Line)
}

// Breaks returns the changes since the last release that are not in the list of changes, CHANGELOG.md, by name.
func Breaks(root string) ([]Break, error) {
	version, err := Latest(root)
	if err != nil || version == "" {
		return nil, err
	}
	old, err := listing(filepath.Join(root, surface.Folder, version))
	if err != nil {
		return nil, err
	}
	now, err := listing(filepath.Join(root, surface.Folder))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	said := announced(string(text), version)
	var breaks []Break
	for _, name := range slices.Sorted(maps.Keys(old)) {
		for _, b := range compare(old[name], now[name]) {
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(b.Name) + `\b`).MatchString(said) {
				b.File = path.Join(surface.Folder, version, name)
				breaks = append(breaks, b)
			}
		}
	}
	return breaks, nil
}

// compare returns the breaks between two listings of a package.
func compare(old, now []string) []Break {
	was, is := declarations(old), declarations(now)
	var breaks []Break
	gone := map[string]bool{}
	for key, d := range was {
		if is[key].line == "" {
			gone[d.name()] = true
			breaks = append(breaks, Break{Line: d.line, Name: d.last()})
		}
	}
	for key, d := range is {
		if d.kind == "interface" && was[key].line == "" && hasInterface(was, d.owner) {
			breaks = append(breaks, Break{Line: d.line, Name: d.last(), Added: true})
		}
	}
	// The members of a type that is gone are not reported.
	breaks = slices.DeleteFunc(breaks, func(b Break) bool {
		d := parse(b.Line)
		return d.owner != "" && gone[d.owner]
	})
	slices.SortFunc(breaks, func(a, b Break) int { return cmp.Compare(a.Line, b.Line) })
	return breaks
}

func hasInterface(list map[string]declaration, name string) bool {
	for _, d := range list {
		if d.kind == "type" && d.member == name && strings.HasSuffix(d.line, " interface") {
			return true
		}
	}
	return false
}

// announced returns the sections Changed and Removed of the versions after the given one.
func announced(changes, version string) string {
	var b strings.Builder
	wanted := false
	for line := range strings.Lines(changes) {
		switch {
		case strings.HasPrefix(line, "## "):
			words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune("#[] ,()\n", r) })
			if len(words) > 0 && strings.TrimPrefix(words[0], "v") == strings.TrimPrefix(version, "v") {
				return b.String()
			}
			wanted = false
		case strings.HasPrefix(line, "### "):
			section := strings.TrimSpace(line[len("### "):])
			wanted = section == "Changed" || section == "Removed"
		case wanted:
			b.WriteString(line)
		}
	}
	return b.String()
}
