package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.millstream.dev/internal/tools/release/archive"
)

// target is a form of the programs.
type target struct {
	arch string // GOARCH; the system is Linux
	cgo  bool   // with UCX, CUDA and NCCL; without it the programs are static
	cc   string // C compiler, for cgo
}

// name returns the name in files, such as linux-amd64 or linux-amd64-static.
func (t target) name() string {
	form := ""
	if !t.cgo {
		form = "static"
	}
	return archive.Name("linux", t.arch, form)
}

// crossCompilers are the names of C compilers for other architectures, by GOARCH, as in Debian.
var crossCompilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// targets returns the targets that a machine of architecture host can build, and a line for each one that it has no
// C compiler for.
func targets(host string, find func(string) (string, error)) (all []target, missing []string) {
	for _, arch := range []string{"amd64", "arm64"} {
		cc := crossCompilers[arch]
		if arch == host {
			cc = "gcc"
		}
		if _, err := find(cc); err == nil {
			all = append(all, target{arch, true, cc})
		} else {
			missing = append(missing,
				fmt.Sprintf("linux-%s with UCX is left out: no %s; scripts/setup release", arch, cc))
		}
		all = append(all, target{arch: arch})
	}
	return all, missing
}

// programs are the packages of the programs, relative to the root of the repository.
var programs = []string{"./cmd/millstream", "./bench/cmd/millstream-bench"}

// build compiles packages of the checkout for a target and returns the executables, named after their packages. The
// result depends on the commit, the version of Go and, with cgo, the C compiler, but not on the folder.
func (s *source) build(ctx context.Context, t target, packages ...string) ([]archive.File, error) {
	out, err := os.MkdirTemp("", "millstream-build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(out)
	env := []string{"GOOS=linux", "GOARCH=" + t.arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0", "PWD=" + s.dir}
	if t.cgo {
		env = append(env, "CGO_ENABLED=1", "CC="+t.cc)
	}
	flags := []string{"build", "-trimpath", "-buildvcs=true", "-mod=readonly",
		"-ldflags=-s -w -X go.millstream.dev/cli.release=" + s.version, "-o", out + "/"}
	if _, err := output(ctx, s.dir, env, "go", append(flags, packages...)...); err != nil {
		return nil, fmt.Errorf("%s: %w", t.name(), err)
	}
	var files []archive.File
	for _, pkg := range packages {
		name := filepath.Base(pkg)
		data, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			return nil, err
		}
		files = append(files, archive.File{Name: name, Mode: 0o755, Data: data})
	}
	return files, nil
}

// title returns the name of a file of the release: millstream-0.1.0-REST.
func (s *source) title(rest string) string {
	return archive.Name("millstream", s.number(), strings.TrimPrefix(rest, "-"))
}
