package nccl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"go.millstream.dev/cuda"
	"go.millstream.dev/nccl/internal/ncclapi"
)

// ErrUnavailable is returned if NCCL cannot be used in this process; the error that wraps it has the reason.
var ErrUnavailable = errors.New("nccl: NCCL is not available")

// LibraryInfo describes the libnccl that this process uses.
type LibraryInfo struct {
	Path    string
	Version Version
}

// Version is an NCCL version: 10000*major + 100*minor + patch.
type Version int

// String returns "2.28.3" for 22803.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

var library struct {
	sync.Mutex
	info *LibraryInfo
}

// Available returns nil if NCCL and a GPU can be used, otherwise an error with the reason and a fix.
func Available() error {
	if _, err := Library(); err != nil {
		return err
	}
	if err := cuda.Available(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// Library loads libnccl, once per process, and describes it. It uses MILLSTREAM_NCCL_LIBRARY if set; otherwise it
// searches for one already loaded in the process (such as PyTorch's), in LD_LIBRARY_PATH and the system's directories,
// and in Python environments.
func Library() (*LibraryInfo, error) {
	library.Lock()
	defer library.Unlock()
	if library.info != nil {
		return library.info, nil
	}
	if !ncclapi.Cgo {
		return nil, fmt.Errorf("%w: this binary was built without cgo: build with CGO_ENABLED=1 and a C compiler",
			ErrUnavailable)
	}
	if err := open(); err != nil {
		return nil, err // not cached: the user may install the library and try again
	}
	path := ncclapi.Path()
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	library.info = &LibraryInfo{Path: path, Version: Version(ncclapi.Version())}
	return library.info, nil
}

const soname = "libnccl.so.2"

func open() error {
	if chosen := os.Getenv("MILLSTREAM_NCCL_LIBRARY"); chosen != "" {
		if err := ncclapi.Load(chosen, false); err != nil {
			return fmt.Errorf("%w: MILLSTREAM_NCCL_LIBRARY: %w: give the path of a %s", ErrUnavailable, err, soname)
		}
		return nil
	}
	if ncclapi.Load(soname, true) == nil || ncclapi.Load(soname, false) == nil {
		return nil
	}
	var errs []error
	for _, pattern := range places() {
		found, _ := filepath.Glob(pattern)
		for _, path := range found {
			err := ncclapi.Load(path, false)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
	}
	return fmt.Errorf("%w: no usable %s: install it with `apt-get install libnccl2` or `pip install "+
		"nvidia-nccl-cu13`, or set MILLSTREAM_NCCL_LIBRARY to its path (%w)", ErrUnavailable, soname,
		errors.Join(errs...))
}

// places returns directories that the dynamic linker does not search.
func places() []string {
	list := []string{"/usr/lib/*-linux-gnu/" + soname, "/usr/lib64/" + soname, "/usr/local/lib/" + soname,
		"/usr/local/cuda*/lib64/" + soname, "/opt/nccl/lib/" + soname}
	if d := os.Getenv("CONDA_PREFIX"); d != "" {
		list = append(list, filepath.Join(d, "lib", soname))
	}
	site := filepath.Join("lib/python3*/site-packages/nvidia/nccl/lib", soname)
	for _, d := range []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX")} {
		if d != "" {
			list = append(list, filepath.Join(d, site))
		}
	}
	if d, err := os.UserHomeDir(); err == nil {
		list = append(list, filepath.Join(d, ".local", site))
	}
	return append(list, "/usr/local/"+site, "/usr/local/lib/python3*/dist-packages/nvidia/nccl/lib/"+soname)
}
