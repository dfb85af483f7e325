// Package linuxpkg writes packages of Linux distributions: deb, rpm and apk. Their bytes depend on their contents
// alone.
package linuxpkg

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/tools/release/archive"
)

// Package describes a package of a distribution.
type Package struct {
	Name        string
	Version     string // without a leading "v"
	Arch        string // GOARCH
	Summary     string // one line
	Description string // lines of at most 80 columns
	Maintainer  string // NAME <ADDRESS>
	Homepage    string
	License     string // SPDX
	Recommends  []string
	Time        time.Time // of every file and of the build
	Files       []archive.File
	Config      []string // names of files that an upgrade leaves as the user changed them
	AfterInstall,
	AfterRemove string // programs for /bin/sh
}

// arches has the names of architectures by GOARCH.
var arches = map[string]struct {
	deb, rpm string
	number   uint16 // in the lead of an rpm
}{"amd64": {"amd64", "x86_64", 1}, "arm64": {"arm64", "aarch64", 19}}

func (p *Package) check() error {
	if _, ok := arches[p.Arch]; !ok {
		return fmt.Errorf("linuxpkg: architecture %q has no name in packages; add it to arches", p.Arch)
	}
	for _, field := range []string{p.Name, p.Version, p.Summary, p.Maintainer, p.License} {
		if field == "" || strings.ContainsAny(field, "\n\r\x00") {
			return fmt.Errorf("linuxpkg: %q in the description of the package; use one line of text", field)
		}
	}
	for _, name := range p.Config {
		if !slices.ContainsFunc(p.Files, func(f archive.File) bool { return f.Name == name }) {
			return fmt.Errorf("linuxpkg: configuration file %s is not in the package; add it to Files", name)
		}
	}
	return nil
}

// size returns the size of the files in bytes.
func (p *Package) size() (n int64) {
	for _, f := range p.Files {
		n += int64(len(f.Data))
	}
	return n
}

// shared reports whether a folder belongs to the system, not to this package.
func (p *Package) shared(folder string) bool { return !strings.Contains(path.Base(folder), p.Name) }
