// Package kernels holds the device code of this module: CUDA C++ sources and the PTX text that NVRTC compiled from
// them, which is embedded in the binary, so that a machine with a GPU needs neither a CUDA toolkit nor NVRTC. The
// driver compiles the PTX for its GPU at the first Load, and caches the result for the user.
//
// After a change of a source `make kernels` compiles its PTX again; a test fails if the two do not match. See docs/adr
// for why PTX is shipped.
package kernels

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"go.millstream.dev/cuda"
)

//go:embed *.cu *.cuh ptx/*.ptx
var files embed.FS

// Toolkit is the release of NVRTC that compiles the PTX. Its PTX has version 8.0, which drivers from 525 on can load; a
// newer one would exclude older drivers without benefit.
const Toolkit = "12.0"

// Arch is the architecture of the PTX, and so the oldest that runs it: Volta.
const Arch = "compute_70"

// Spec is one image: a source compiled with flags. The image is in ptx/Name.ptx, a generated file.
type Spec struct {
	Name, Source string
	// Head is a file that is put before the source, "" for none.
	Head  string
	Flags []string
}

// Specs returns all images.
func Specs() []Spec {
	// No contraction of multiplications and additions: results are identical to those of the host.
	strict := []string{"--std=c++17", "--fmad=false"}
	var list []Spec
	for _, kind := range []string{"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
		"bfloat16", "float32", "float64"} {
		list = append(list, Spec{Name: "fold_" + kind, Source: "fold.cu",
			Flags: append([]string{"-DKIND_" + kind}, strict...)})
	}
	for _, name := range []string{"table_rows", "table_group", "table_join", "table_sort"} {
		list = append(list, Spec{Name: name, Source: name + ".cu", Head: "table.cuh",
			Flags: []string{"--std=c++17", "--diag-suppress=177"}}) // not every kernel uses all of the head
	}
	return append(list,
		Spec{Name: "kmeans_f32", Source: "kmeans.cu", Flags: []string{"--std=c++17", "-DFLOAT32"}},
		Spec{Name: "kmeans_f64", Source: "kmeans.cu", Flags: []string{"--std=c++17"}},
		Spec{Name: "tsqr", Source: "tsqr.cu", Flags: []string{"--std=c++17"}})
}

// Text returns the source of an image, with its head.
func (s Spec) Text() (string, error) {
	var text string
	for _, name := range []string{s.Head, s.Source} {
		if name == "" {
			continue
		}
		b, err := files.ReadFile(name)
		if err != nil {
			return "", err
		}
		text += string(b)
	}
	return text, nil
}

// Stamp returns the first line of an image's file, which identifies its inputs. It changes with the source, the flags,
// the architecture and the toolkit.
func (s Spec) Stamp() (string, error) {
	text, err := s.Text()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, part := range append([]string{Toolkit, Arch, text}, s.Flags...) {
		fmt.Fprintf(h, "%d\n%s\n", len(part), part)
	}
	return fmt.Sprintf("// %s %s by NVRTC %s for %s, sha256 %s\n", s.Source, strings.Join(s.Flags, " "), Toolkit, Arch,
		hex.EncodeToString(h.Sum(nil))), nil
}

// PTX returns an image by its name.
func PTX(name string) ([]byte, error) {
	b, err := files.ReadFile("ptx/" + name + ".ptx")
	if err != nil {
		return nil, fmt.Errorf("kernels: unknown image %q", name)
	}
	return b, nil
}

type key struct {
	device int
	name   string
}

// modules are loaded at first use and kept until the process ends, like the device's context.
var modules struct {
	sync.Mutex
	m map[key]*loading
}

// loading is a module that one goroutine loads and others wait for.
type loading struct {
	once   sync.Once
	module *cuda.Module
	err    error
}

// Load returns an image loaded on a device. The first call for both may take some hundred milliseconds; failures are
// not cached.
func Load(device int, name string) (*cuda.Module, error) {
	k := key{device, name}
	modules.Lock()
	if modules.m == nil {
		modules.m = map[key]*loading{}
	}
	l := modules.m[k]
	if l == nil {
		l = new(loading)
		modules.m[k] = l
	}
	modules.Unlock()
	l.once.Do(func() {
		var image []byte
		if image, l.err = PTX(name); l.err == nil {
			l.module, l.err = cuda.LoadModule(device, image)
		}
		if l.err != nil {
			modules.Lock()
			delete(modules.m, k)
			modules.Unlock()
		}
	})
	if l.err != nil {
		return nil, fmt.Errorf("kernels: %s: %w", name, l.err)
	}
	return l.module, nil
}

// Function returns a kernel of an image, loaded on a device.
func Function(device int, image, name string) (*cuda.Function, error) {
	m, err := Load(device, image)
	if err != nil {
		return nil, err
	}
	return m.Function(name)
}
