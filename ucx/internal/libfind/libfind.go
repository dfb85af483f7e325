// Package libfind searches for the libucp of this machine.
package libfind

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// BareName is tried last: ld.so may search directories that are not listed here.
const BareName = "libucp.so.0"

// Later returns for each library after the chosen one why it was not used.
func Later(chosen string, rest []string) []string {
	var out []string
	for _, r := range rest {
		switch {
		case r == BareName:
		case haveGPU() && HasModule(chosen, "cuda") && !HasModule(r, "cuda"):
			out = append(out, r+": no CUDA support, and there is a GPU")
		default:
			out = append(out, r+": later in the search order")
		}
	}
	return out
}

// Candidates returns the libraries to try, best first. With a GPU, those with CUDA transports come before the system's.
func Candidates() []string {
	var found []string
	for _, pattern := range searchPatterns() {
		m, _ := filepath.Glob(pattern)
		for _, p := range m {
			if real, err := filepath.EvalSymlinks(p); err == nil && !slices.ContainsFunc(found,
				func(f string) bool { return SamePath(f, real) }) {
				found = append(found, p)
			}
		}
	}
	if haveGPU() {
		slices.SortStableFunc(found, func(a, b string) int {
			return boolOrder(HasModule(a, "cuda"),
				HasModule(b, "cuda"))
		})
	}
	return append(found, BareName)
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func searchPatterns() []string {
	var p []string
	for _, dir := range filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")) {
		if dir != "" {
			p = append(p, filepath.Join(dir, "libucp.so.0"))
		}
	}
	for _, dir := range []string{"/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/opt/ucx/lib",
		"/opt/hpcx/ucx/lib"} {
		p = append(p, filepath.Join(dir, "libucp.so.0"))
	}
	if d := os.Getenv("CONDA_PREFIX"); d != "" {
		p = append(p, filepath.Join(d, "lib/libucp.so.0"))
	}
	site := "lib/python3*/site-packages/libucx/lib/libucp.so.0"
	if d := os.Getenv("VIRTUAL_ENV"); d != "" {
		p = append(p, filepath.Join(d, site))
	}
	if d, err := os.UserHomeDir(); err == nil {
		p = append(p, filepath.Join(d, ".local", site))
	}
	return append(p, "/usr/local/"+site, "/usr/local/lib/python3*/dist-packages/libucx/lib/libucp.so.0")
}

func haveGPU() bool {
	_, err := os.Stat("/dev/nvidiactl")
	return err == nil
}

// HasModule reports whether UCX's transport module is next to the library.
func HasModule(libucp, name string) bool {
	if real, err := filepath.EvalSymlinks(libucp); err == nil {
		libucp = real
	}
	m, _ := filepath.Glob(filepath.Join(filepath.Dir(libucp), "ucx", "libuct_"+name+".so*"))
	return len(m) > 0
}

// SamePath reports whether two paths name the same file.
func SamePath(a, b string) bool {
	ra, err1 := filepath.EvalSymlinks(a)
	rb, err2 := filepath.EvalSymlinks(b)
	return err1 == nil && err2 == nil && ra == rb || strings.TrimSpace(a) == b
}
