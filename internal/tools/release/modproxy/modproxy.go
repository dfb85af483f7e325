// Package modproxy writes versions of modules in the layout of a Go module proxy, which GOPROXY=file://FOLDER reads.
package modproxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.millstream.dev/internal/tools/release/archive"
)

// maxModule is the largest size of the files of a module that the go command accepts, in bytes.
const maxModule = 500 << 20

// Module is a version of a module.
type Module struct {
	Path, Version string
	Commit        string
	Time          time.Time
	Files         []archive.File // relative to the folder of the module, with go.mod
}

// Select returns the files of the module in folder of a repository ("" for its root): without those of modules in
// folders below it and of vendor folders. A nested module without a license gets that of the repository.
func Select(all []archive.File, folder string) []archive.File {
	var nested []string
	prefix := ""
	if folder != "" {
		prefix = folder + "/"
	}
	for _, f := range all {
		if dir, ok := strings.CutSuffix(f.Name, "/go.mod"); ok && dir != folder && strings.HasPrefix(dir+"/", prefix) {
			nested = append(nested, dir+"/")
		}
	}
	var files []archive.File
	licensed := false
	for _, f := range all {
		name, ok := strings.CutPrefix(f.Name, prefix)
		if !ok || slices.ContainsFunc(nested, func(dir string) bool { return strings.HasPrefix(f.Name, dir) }) ||
			strings.HasPrefix(name, "vendor/") || strings.Contains(name, "/vendor/") {
			continue
		}
		licensed = licensed || name == "LICENSE"
		files = append(files, archive.File{Name: name, Mode: 0o644, Data: f.Data})
	}
	for _, f := range all {
		if !licensed && f.Name == "LICENSE" {
			files = append(files, archive.File{Name: "LICENSE", Mode: 0o644, Data: f.Data})
		}
	}
	return files
}

// Write returns the files of the proxy for the module.
func (m *Module) Write() ([]archive.File, error) {
	size := 0
	var mod []byte
	lower := map[string]string{}
	for _, f := range m.Files {
		if err := checkName(f.Name); err != nil {
			return nil, fmt.Errorf("modproxy: %s: %w", m.Path, err)
		}
		if other, ok := lower[strings.ToLower(f.Name)]; ok {
			return nil, fmt.Errorf("modproxy: %s: %s and %s differ only in case; rename one", m.Path, other, f.Name)
		}
		lower[strings.ToLower(f.Name)] = f.Name
		if size += len(f.Data); f.Name == "go.mod" {
			mod = f.Data
		}
	}
	if mod == nil || size > maxModule {
		return nil, fmt.Errorf("modproxy: %s has no go.mod, or %d bytes, more than %d; check its files", m.Path, size,
			maxModule)
	}
	zip, err := archive.Zip(archive.Under(m.Path+"@"+m.Version, m.Files), m.Time)
	if err != nil {
		return nil, err
	}
	info, err := json.Marshal(map[string]any{"Version": m.Version, "Time": m.Time.UTC().Format(time.RFC3339),
		"Origin": map[string]string{"VCS": "git", "Hash": m.Commit}})
	if err != nil {
		return nil, err
	}
	return archive.Under(path.Join(escape(m.Path), "@v"), []archive.File{
		{Name: "list", Data: []byte(m.Version + "\n")},
		{Name: m.Version + ".info", Data: append(info, '\n')},
		{Name: m.Version + ".mod", Data: mod},
		{Name: m.Version + ".zip", Data: zip},
	}), nil
}

// checkName rejects names that the go command does not accept in a module.
func checkName(name string) error {
	if !utf8.ValidString(name) || strings.ContainsAny(name, "\"'*<>?`|\\:\x00\n\r\t") {
		return fmt.Errorf("name %q cannot be in a module; rename the file", name)
	}
	return nil
}

// escape returns a path as proxies write it: "!a" for "A".
func escape(modulePath string) string {
	var b strings.Builder
	for _, r := range modulePath {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('!')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Sums returns the two lines of go.sum for the module.
func (m *Module) Sums() string {
	var mod []archive.File
	for _, f := range m.Files {
		if f.Name == "go.mod" {
			mod = []archive.File{f}
		}
	}
	return fmt.Sprintf("%s %s %s\n%[1]s %[2]s/go.mod %[4]s\n", m.Path, m.Version,
		hash(archive.Under(m.Path+"@"+m.Version, m.Files)), hash(mod))
}

// hash returns the hash "h1:" of files: that of a list of their hashes, in the order of their names.
func hash(files []archive.File) string {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b archive.File) int { return strings.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%x  %s\n", sha256.Sum256(f.Data), f.Name)
	}
	return "h1:" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// Require changes the go.mod and go.sum of a nested module: the requirement of root gets its version, and the
// replacement by a folder is removed, so that the module can be used outside of the repository.
func Require(files []archive.File, root *Module) []archive.File {
	files = slices.Clone(files)
	for i, f := range files {
		switch f.Name {
		case "go.mod":
			var b bytes.Buffer
			for line := range strings.Lines(string(f.Data)) {
				fields := strings.Fields(line)
				if len(fields) > 1 && fields[0] == "replace" && fields[1] == root.Path {
					continue
				}
				if len(fields) > 1 && fields[len(fields)-2] == root.Path {
					line = strings.Replace(line, " "+fields[len(fields)-1], " "+root.Version, 1)
				}
				b.WriteString(line)
			}
			files[i].Data = append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
		case "go.sum":
			files[i].Data = addSums(f.Data, root.Sums())
		}
	}
	return files
}

// addSums adds lines to a go.sum, in its order.
func addSums(sum []byte, lines string) []byte {
	all := slices.Collect(strings.Lines(string(sum) + lines))
	slices.Sort(all)
	return []byte(strings.Join(slices.Compact(all), ""))
}
