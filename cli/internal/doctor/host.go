package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Unlimited is the value of an unlimited resource.
const Unlimited = ^uint64(0)

// Host describes one machine from the perspective of this process. Missing files are normal.
type Host struct {
	// FS is the root of the file system; names have no leading slash. It must be an [fs.ReadLinkFS] for the checks of
	// namespaces.
	FS fs.FS
	// Env is the environment as "NAME=value".
	Env []string
	// Limit returns the soft and hard value of a resource limit (unix.RLIMIT_…).
	Limit func(resource int) (soft, hard uint64, err error)
	// Space returns the total and free bytes of the file system at an absolute path.
	Space func(path string) (total, free uint64, err error)
	// CPUs is the number of processors that this process may use.
	CPUs int
	// Root reports whether the process runs as root.
	Root bool
	// Arch is the platform in the multiarch form of Debian, such as "x86_64-linux-gnu".
	Arch string
	// Connections is the expected number of peers of this process.
	Connections int
	// NoCgo reports whether this binary was built with CGO_ENABLED=0.
	NoCgo bool
	// UCX is the library that was loaded, nil without one.
	UCX *Library
	// UCXError is the reason if UCX is nil.
	UCXError error
	// CUDA is the report of the driver, nil if it was not queried or failed with CUDAError.
	CUDA      *CUDA
	CUDAError error
	// PoolSize is the configured size of the GPU memory pool in bytes, 0 without one; PoolFrom is the source of the
	// setting.
	PoolSize int64
	PoolFrom string
	// NCCL and NVRTC describe these libraries; nil if they were not searched for.
	NCCL, NVRTC *Optional
	// Python describes the interpreter of a scheduler; nil if it was not searched for.
	Python *Python
	// LintEnv reports suspicious UCX_* variables; nil skips the check.
	LintEnv func(env []string) []EnvProblem
}

// Library is a loaded UCX library.
type Library struct {
	// Path is the absolute path of libucp.so.
	Path string
	// Version is the release, such as "1.21.0".
	Version string
	// CUDA and RDMA report whether it was built with support for them.
	CUDA, RDMA bool
	// Transports are those available on this machine: "self", "tcp", "posix", "rc_mlx5", …
	Transports []string
	// PassedOver are other libraries of the search, with the reason.
	PassedOver []string
}

// EnvProblem is a problem of a UCX_* variable.
type EnvProblem struct {
	// Severity is the severity of the problem.
	Severity Severity
	// Name is the variable, such as "UCX_TSL".
	Name string
	// Message describes the problem and what UCX does.
	Message string
	// Fix says what to do; it may be empty.
	Fix string
}

// ThisHost returns the machine of this process. The caller sets UCX, UCXError, LintEnv and Connections.
func ThisHost() *Host {
	return &Host{
		FS:    os.DirFS("/"),
		Env:   os.Environ(),
		Limit: readLimit,
		Space: readSpace,
		CPUs:  runtime.NumCPU(),
		Root:  os.Geteuid() == 0,
		Arch:  multiarch(runtime.GOARCH),
	}
}

func multiarch(goarch string) string {
	switch goarch {
	case "amd64":
		return "x86_64-linux-gnu"
	case "arm64":
		return "aarch64-linux-gnu"
	case "ppc64le":
		return "powerpc64le-linux-gnu"
	case "riscv64":
		return "riscv64-linux-gnu"
	default:
		return goarch + "-linux-gnu"
	}
}

func readLimit(resource int) (soft, hard uint64, err error) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(resource, &lim); err != nil {
		return 0, 0, fmt.Errorf("getrlimit %d: %w", resource, err)
	}
	return lim.Cur, lim.Max, nil
}

func readSpace(name string) (total, free uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(name, &st); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return st.Blocks * uint64(st.Bsize), st.Bavail * uint64(st.Bsize), nil
}

// env returns the value of a variable, "" if it is not set.
func (h *Host) env(name string) string {
	for _, kv := range slices.Backward(h.Env) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// read returns a file as trimmed text, "" if it cannot be read.
func (h *Host) read(name string) string {
	b, err := fs.ReadFile(h.FS, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// exists reports whether a file exists. It follows links. A file without permission exists.
func (h *Host) exists(name string) bool {
	_, err := fs.Stat(h.FS, name)
	return err == nil || errors.Is(err, fs.ErrPermission)
}

// list returns the names in a directory, nil if there is none.
func (h *Host) list(dir string) []string {
	entries, err := fs.ReadDir(h.FS, dir)
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// glob is fs.Glob with a valid pattern.
func (h *Host) glob(pattern string) []string {
	names, err := fs.Glob(h.FS, pattern)
	if err != nil {
		return nil
	}
	return names
}

// link returns the target of a symbolic link, "" if it cannot be read.
func (h *Host) link(name string) string {
	target, err := fs.ReadLink(h.FS, name)
	if err != nil {
		return ""
	}
	return target
}

// rel converts an absolute path to a name in FS.
func rel(p string) string {
	return strings.TrimPrefix(path.Clean("/"+p), "/")
}
