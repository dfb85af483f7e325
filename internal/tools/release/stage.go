package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.millstream.dev/cli"
	"go.millstream.dev/internal/tools/release/archive"
	"go.millstream.dev/internal/tools/release/linuxpkg"
	"go.millstream.dev/internal/tools/release/manual"
	"go.millstream.dev/internal/tools/release/sbom"
)

const (
	homepage = "https://go.millstream.dev"
	license  = "Apache-2.0"
)

// extras returns the files next to the programs, for a prefix such as /usr: manual pages, completions, documents.
func (s *source) extras() ([]archive.File, error) {
	files := archive.Under("share/man/man1", manual.Pages(cli.Command(), s.version, s.time))
	completions, err := manual.Completions(cli.Command())
	if err != nil {
		return nil, err
	}
	files = append(files, completions...)
	for from, to := range map[string]string{"LICENSE": "share/doc/millstream/LICENSE",
		"CHANGELOG.md": "share/doc/millstream/CHANGELOG.md", "README.md": "share/doc/millstream/README.md",
		"deploy/systemd/millstream-scheduler.service": "lib/systemd/system/millstream-scheduler.service",
		"deploy/systemd/millstream-worker.service":    "lib/systemd/system/millstream-worker.service",
		"deploy/systemd/sysusers.conf":                "lib/sysusers.d/millstream.conf"} {
		f, err := s.file(from, to)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// tree returns all files for a prefix, with the bills of materials of the programs.
func (s *source) tree(programs, extras []archive.File) ([]archive.File, error) {
	files := append(archive.Under("bin", programs), extras...)
	for _, p := range programs {
		text, err := sbom.Of(sbom.Program{Name: p.Name, Version: s.number(), License: license, Homepage: homepage,
			Time: s.time}, p.Data)
		if err != nil {
			return nil, err
		}
		name := "share/doc/millstream/" + p.Name + ".spdx.json"
		files = append(files, archive.File{Name: name, Mode: 0o644, Data: text})
	}
	return files, nil
}

// tarball returns the archive of a target, one folder that can be unpacked over a prefix such as /usr/local.
func (s *source) tarball(t target, files []archive.File) (archive.File, error) {
	title := s.title(t.name())
	data, err := archive.TarGz("", archive.Under(title, files), s.time)
	return archive.File{Name: title + ".tar.gz", Data: data}, err
}

// afterInstall creates the user of the units. Distributions without systemd have useradd.
const afterInstall = `if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers millstream.conf
elif ! id millstream >/dev/null 2>&1; then
	useradd --system --home-dir /var/lib/millstream --shell /usr/sbin/nologin millstream
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
`

const afterRemove = "if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi\n"

// describe returns the package of a target without its files.
func (s *source) describe(t target) *linuxpkg.Package {
	return &linuxpkg.Package{Name: "millstream", Version: s.number(), Arch: t.arch, License: license,
		Homepage: homepage, Maintainer: "The Millstream authors <authors@millstream.dev>", Time: s.time,
		Summary: "RAPIDS communications stack for Go, with a scheduler for Dask",
		Description: `UCX for moving host and GPU memory between processes and machines, and a cluster
of scheduler, workers and clients that speaks the protocol of Dask. UCX, CUDA and
NCCL are loaded at run time if they are installed.`}
}

// packages returns the packages of distributions for a target: deb and rpm with cgo, else the apk, as Alpine's C
// library is not glibc.
func (s *source) packages(t target, files []archive.File) ([]archive.File, error) {
	p := s.describe(t)
	if !t.cgo {
		return s.alpine(p, files)
	}
	p.Recommends, p.Config = []string{"libucx0"}, []string{"etc/default/millstream"}
	p.AfterInstall, p.AfterRemove = afterInstall, afterRemove
	settings, err := s.file("deploy/systemd/default", "etc/default/millstream")
	if err != nil {
		return nil, err
	}
	p.Files = append(archive.Under("usr", files), settings)
	deb, err := p.Deb()
	if err != nil {
		return nil, err
	}
	rpm, err := p.RPM()
	return []archive.File{{Name: p.DebName(), Data: deb}, {Name: p.RPMName(), Data: rpm}}, err
}

// alpine returns the package of Alpine. It has no units of systemd.
func (s *source) alpine(p *linuxpkg.Package, files []archive.File) ([]archive.File, error) {
	p.Files = slices.DeleteFunc(archive.Under("usr", files), func(f archive.File) bool {
		return strings.HasPrefix(f.Name, "usr/lib/")
	})
	apk, err := p.APK()
	return []archive.File{{Name: p.APKName(), Data: apk}}, err
}

// artifacts builds all files of a target.
func (s *source) artifacts(ctx context.Context, t target, extras []archive.File) ([]archive.File, error) {
	programs, err := s.build(ctx, t, programs...)
	if err != nil {
		return nil, err
	}
	files, err := s.tree(programs, extras)
	if err != nil {
		return nil, err
	}
	tarball, err := s.tarball(t, files)
	if err != nil {
		return nil, err
	}
	wheel, err := s.wheel(programs[0])
	if err != nil {
		return nil, err
	}
	packages, err := s.packages(t, files)
	if err != nil {
		return nil, err
	}
	made := append([]archive.File{tarball}, archive.Under("python", []archive.File{wheel})...)
	return append(made, packages...), nil
}

// write writes files into the folder of the release and prints their names.
func write(out string, log io.Writer, files ...archive.File) error {
	for _, f := range files {
		name := filepath.Join(out, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(log, "  %8.1f MB  %s\n", float64(len(f.Data))/1e6, path.Clean(f.Name))
	}
	return nil
}
