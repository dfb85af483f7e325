package ucx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// LibraryInfo describes the libucp that this process uses.
type LibraryInfo struct {
	Path       string   // absolute path of libucp
	Version    string   // "1.21.0"
	Major      int      // API version
	Minor      int      //
	CUDA       bool     // CUDA transports lie beside it
	RDMA       bool     // InfiniBand transports lie beside it
	PassedOver []string // other libraries that were found, and why each was not taken
}

// AtLeast reports whether the library is version major.minor or newer.
func (l *LibraryInfo) AtLeast(major, minor int) bool {
	return l.Major > major || l.Major == major && l.Minor >= minor
}

var library struct {
	sync.Mutex
	info *LibraryInfo
	err  error
}

// Available loads libucp if that was not done yet and says why it cannot be used,
// or nil. UCX is loaded at the first use, never when the program starts.
func Available() error {
	_, err := Library()
	return err
}

// Library loads libucp, once per process, and describes it. The search order is:
// MILLSTREAM_UCX_LIBRARY, a libucp that is in the process already, then the
// system's and Python environments' libraries. With a GPU in the machine one with
// CUDA support is preferred. A path given in [Config].Library comes before all.
func Library() (*LibraryInfo, error) { return loadLibrary("") }

func loadLibrary(explicit string) (*LibraryInfo, error) {
	library.Lock()
	defer library.Unlock()
	if library.info != nil {
		if explicit != "" && !samePath(explicit, library.info.Path) {
			return nil, fmt.Errorf("ucx: %s was asked for, but this process already uses %s; one libucp serves a whole process", explicit, library.info.Path)
		}
		return library.info, nil
	}
	if !ucp.Cgo {
		return nil, ucp.ErrNoCgo
	}
	guardSignals()
	info, err := openFirst(explicit)
	if err != nil {
		return nil, err // not kept: the user may install the library and try again
	}
	ucp.MarkCloseOnExec()
	installDeviceHooks()
	library.info = info
	return info, nil
}

// guardSignals keeps UCX 1.13 from taking SIGSEGV away from Go, which would turn
// every nil dereference into a crash. It must be in C's environment before dlopen.
func guardSignals() {
	if v, set := os.LookupEnv("UCX_ERROR_SIGNALS"); set && v != "" {
		logf("overriding UCX_ERROR_SIGNALS=%q with an empty value: UCX's handlers would replace Go's, and a nil dereference would end the process instead of panicking", v)
	}
	ucp.Setenv("UCX_ERROR_SIGNALS", "")
}

func installDeviceHooks() {
	if h, ok := mem.Hooks(); ok {
		ucp.DeviceHooks(h.SetCurrent, h.EventQuery)
	}
}

func openFirst(explicit string) (*LibraryInfo, error) {
	if explicit == "" {
		explicit = os.Getenv("MILLSTREAM_UCX_LIBRARY")
	}
	if explicit != "" {
		if err := ucp.Load(explicit, false); err != nil {
			return nil, fmt.Errorf("ucx: cannot load libucp: %w (from MILLSTREAM_UCX_LIBRARY or Config.Library: give the path of a libucp.so.0)", err)
		}
		return describeLibrary(nil)
	}
	if ucp.Load(bareName, true) == nil {
		return describeLibrary(nil)
	}
	var errs []error
	var passed []string
	cands := candidates()
	for i, c := range cands {
		err := ucp.Load(c, false)
		if err == nil {
			return describeLibrary(append(passed, laterOnes(c, cands[i+1:])...))
		}
		errs = append(errs, err)
		if c != bareName {
			passed = append(passed, err.Error())
		}
	}
	return nil, fmt.Errorf("ucx: no usable libucp found; install it with `apt-get install libucx0` or `pip install libucx-cu12`, or set MILLSTREAM_UCX_LIBRARY to a libucp.so.0 (%w)", errors.Join(errs...))
}

// bareName is tried last: ld.so may know places that are not listed here.
const bareName = "libucp.so.0"

// laterOnes says of each library behind the chosen one why it was not taken.
func laterOnes(chosen string, rest []string) []string {
	var out []string
	for _, r := range rest {
		switch {
		case r == bareName:
		case haveGPU() && hasModule(chosen, "cuda") && !hasModule(r, "cuda"):
			out = append(out, r+": no CUDA support, and there is a GPU")
		default:
			out = append(out, r+": later in the search order")
		}
	}
	return out
}

// candidates lists the libraries to try, best first. With a GPU, those with CUDA
// transports come before the system's.
func candidates() []string {
	var found []string
	for _, pattern := range searchPatterns() {
		m, _ := filepath.Glob(pattern)
		for _, p := range m {
			if real, err := filepath.EvalSymlinks(p); err == nil && !slices.ContainsFunc(found, func(f string) bool { return samePath(f, real) }) {
				found = append(found, p)
			}
		}
	}
	if haveGPU() {
		slices.SortStableFunc(found, func(a, b string) int { return boolOrder(hasModule(a, "cuda"), hasModule(b, "cuda")) })
	}
	return append(found, bareName)
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
	for _, dir := range []string{"/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/opt/ucx/lib", "/opt/hpcx/ucx/lib"} {
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

func describeLibrary(passed []string) (*LibraryInfo, error) {
	major, minor, release := ucp.Version()
	path := ucp.LoadedPath()
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return &LibraryInfo{
		Path: path, Version: fmt.Sprintf("%d.%d.%d", major, minor, release), Major: major, Minor: minor,
		CUDA: hasModule(path, "cuda"), RDMA: hasModule(path, "ib"), PassedOver: passed,
	}, nil
}

// hasModule looks for UCX's transport module beside the library.
func hasModule(libucp, name string) bool {
	if real, err := filepath.EvalSymlinks(libucp); err == nil {
		libucp = real
	}
	m, _ := filepath.Glob(filepath.Join(filepath.Dir(libucp), "ucx", "libuct_"+name+".so*"))
	return len(m) > 0
}

func samePath(a, b string) bool {
	ra, err1 := filepath.EvalSymlinks(a)
	rb, err2 := filepath.EvalSymlinks(b)
	return err1 == nil && err2 == nil && ra == rb || strings.TrimSpace(a) == b
}
