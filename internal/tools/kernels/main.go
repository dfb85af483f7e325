// Command kernels compiles the PTX of internal/device/kernels from its sources, with the NVRTC that is pinned there:
// `make kernels`. It needs no GPU.
//
//	kernels [-o FOLDER] [IMAGE...]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/kernels"
)

func main() {
	folder := flag.String("o", "internal/device/kernels/ptx", "folder of the .ptx files")
	flag.Parse()
	if err := run(*folder, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

func run(folder string, only []string) error {
	path, version, err := cuda.CompilerLibrary()
	if err != nil {
		return err
	}
	if version != kernels.Toolkit {
		return fmt.Errorf("%s has release %v, want %s; run `make kernels`, which fetches it", path,
			version, kernels.Toolkit)
	}
	done := 0
	for _, s := range kernels.Specs() {
		if len(only) > 0 && !slices.Contains(only, s.Name) {
			continue
		}
		if err := compile(folder, s); err != nil {
			return err
		}
		done++
	}
	if done < len(only) || done == 0 {
		return fmt.Errorf("found %d images for %s", done, strings.Join(only, " or "))
	}
	fmt.Printf("compiled %d images with NVRTC %s\n", done, version)
	return nil
}

// compile writes one image. With `go run` the binary embeds the current sources.
func compile(folder string, s kernels.Spec) error {
	source, err := s.Text()
	if err != nil {
		return err
	}
	stamp, err := s.Stamp()
	if err != nil {
		return err
	}
	code, err := cuda.Compile(context.Background(), source, cuda.CompileOptions{Name: s.Source, Arch: kernels.Arch,
		Flags: s.Flags})
	if err != nil {
		return err
	}
	if code.Log != "" {
		return fmt.Errorf("%s: compiler warnings:\n%s", s.Source, code.Log)
	}
	return os.WriteFile(filepath.Join(folder, s.Name+".ptx"), append([]byte(stamp), code.Image...), 0o644)
}
