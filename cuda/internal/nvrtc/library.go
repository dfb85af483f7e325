package nvrtc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"go.millstream.dev/cuda/internal/nvrtcapi"
)

// ErrUnavailable is returned if NVRTC cannot be used in this process; the error that wraps it has the reason.
var ErrUnavailable = errors.New("nvrtc: NVRTC is not available")

// LibraryInfo describes the libnvrtc that this process uses.
type LibraryInfo struct {
	Path    string
	Version Version
}

// Version is the version of NVRTC: that of the CUDA toolkit it is part of.
type Version struct{ Major, Minor int }

// String returns "12.4".
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// library is loaded once, by the holder of the lock.
var library struct {
	sync.Mutex
	info *LibraryInfo
}

// Available returns nil if NVRTC can be used, otherwise an error with the reason and a fix.
func Available() error {
	_, err := Library()
	return err
}

// Library loads libnvrtc, once per process, and describes it. It uses MILLSTREAM_NVRTC_LIBRARY if set; otherwise it
// searches for one already loaded in the process, in LD_LIBRARY_PATH and the system's directories, in CUDA_HOME and
// CUDA_PATH, and in Python environments.
func Library() (*LibraryInfo, error) {
	library.Lock()
	defer library.Unlock()
	if library.info != nil {
		return library.info, nil
	}
	if !nvrtcapi.Cgo {
		return nil, fmt.Errorf("%w: this binary was built without cgo: build with CGO_ENABLED=1 and a C compiler",
			ErrUnavailable)
	}
	if err := open(); err != nil {
		return nil, err // not cached: the user may install the library and try again
	}
	path := nvrtcapi.Path()
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	major, minor := nvrtcapi.Version()
	library.info = &LibraryInfo{Path: path, Version: Version{major, minor}}
	return library.info, nil
}

// sonames are those of the supported releases, newest first.
var sonames = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}

func open() error {
	if chosen := os.Getenv("MILLSTREAM_NVRTC_LIBRARY"); chosen != "" {
		if err := nvrtcapi.Load(chosen, false); err != nil {
			return fmt.Errorf("%w: MILLSTREAM_NVRTC_LIBRARY: %w: give the path of a libnvrtc.so.12 or .13",
				ErrUnavailable, err)
		}
		return nil
	}
	for _, only := range []bool{true, false} {
		for _, name := range sonames {
			if nvrtcapi.Load(name, only) == nil {
				return nil
			}
		}
	}
	var errs []error
	for _, dir := range places() {
		for _, name := range sonames {
			found, _ := filepath.Glob(filepath.Join(dir, name))
			for _, path := range found {
				err := nvrtcapi.Load(path, false)
				if err == nil {
					return nil
				}
				errs = append(errs, err)
			}
		}
	}
	if len(errs) == 0 {
		errs = append(errs, errors.New("not found"))
	}
	return fmt.Errorf("%w: no usable libnvrtc.so: install it with `pip install nvidia-cuda-nvrtc-cu12`, or set "+
		"MILLSTREAM_NVRTC_LIBRARY to its path (%w)", ErrUnavailable, errors.Join(errs...))
}

// places returns directories that the dynamic linker does not search, as patterns.
func places() []string {
	var list []string
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if d := os.Getenv(v); d != "" {
			list = append(list, filepath.Join(d, "lib64"), filepath.Join(d, "targets/*/lib"))
		}
	}
	list = append(list, "/usr/local/cuda*/lib64", "/opt/cuda/lib64", "/usr/lib/*-linux-gnu", "/usr/lib64")
	const site = "lib/python3*/site-packages/nvidia/*/lib" // cuda_nvrtc, or cu13
	for _, d := range []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX")} {
		if d != "" {
			list = append(list, filepath.Join(d, "lib"), filepath.Join(d, site))
		}
	}
	if d, err := os.UserHomeDir(); err == nil {
		list = append(list, filepath.Join(d, ".local", site))
	}
	return append(list, "/usr/local/"+site, "/usr/local/lib/python3*/dist-packages/nvidia/*/lib",
		"/usr/lib/python3/dist-packages/nvidia/*/lib")
}
