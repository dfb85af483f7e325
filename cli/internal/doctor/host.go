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

// Unlimited is the value of a limit that is not set.
const Unlimited = ^uint64(0)

// Host is a picture of one machine as seen by this process. Missing files are
// normal: a check treats them as "not there".
type Host struct {
	// FS is the root of the file system; names have no leading slash. It must
	// be an [fs.ReadLinkFS] for namespaces to be seen.
	FS fs.FS
	// Env is the environment as "NAME=value".
	Env []string
	// Limit returns the soft and hard value of a resource limit
	// (unix.RLIMIT_…).
	Limit func(resource int) (soft, hard uint64, err error)
	// Space returns the total and free bytes of the file system at an
	// absolute path.
	Space func(path string) (total, free uint64, err error)
	// CPUs is the number of processors this process may run on.
	CPUs int
	// Root says whether the process runs as the superuser.
	Root bool
	// Arch is the platform in Debian's multiarch form: "x86_64-linux-gnu".
	Arch string
	// Connections is how many peers this process is expected to talk to.
	Connections int
	// NoCgo says that this binary was built with CGO_ENABLED=0.
	NoCgo bool
	// UCX is the library that was found and loaded; nil when none was.
	UCX *Library
	// UCXError is why none was.
	UCXError error
	// CUDA is what the driver says; nil when it was not asked, or why it does not answer is
	// in CUDAError.
	CUDA      *CUDA
	CUDAError error
	// PoolSize is the size in bytes of the pool of GPU memory that the environment asks for, 0
	// for none; PoolFrom is where it stands.
	PoolSize int64
	PoolFrom string
	// NCCL and NVRTC are those libraries; nil when nobody has looked.
	NCCL, NVRTC *Optional
	// Python is the interpreter beside a scheduler; nil when nobody has looked.
	Python *Python
	// LintEnv reports suspicious UCX_* variables; nil skips the check.
	LintEnv func(env []string) []EnvProblem
}

// Library is a loaded UCX library.
type Library struct {
	// Path is the absolute path of libucp.so.
	Path string
	// Version is "1.21.0".
	Version string
	// CUDA and RDMA say whether it was built with support for them.
	CUDA, RDMA bool
	// Transports it offers on this machine: "self", "tcp", "posix", "rc_mlx5" …
	Transports []string
	// PassedOver are other libraries of the search, with the reason.
	PassedOver []string
}

// EnvProblem is something wrong with a UCX_* variable.
type EnvProblem struct {
	// Severity of it.
	Severity Severity
	// Name is the variable, e.g. "UCX_TSL".
	Name string
	// Message says what is wrong with it and what UCX does.
	Message string
	// Fix is what to do; empty when none is known.
	Fix string
}

// ThisHost is the machine this process runs on. UCX, UCXError, LintEnv and
// Connections are left to the caller.
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

// env is the value of a variable, "" when unset.
func (h *Host) env(name string) string {
	for _, kv := range slices.Backward(h.Env) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// read returns a file as trimmed text, "" when it cannot be read.
func (h *Host) read(name string) string {
	b, err := fs.ReadFile(h.FS, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// exists follows links. A file that may not be examined exists: permission is
// another matter.
func (h *Host) exists(name string) bool {
	_, err := fs.Stat(h.FS, name)
	return err == nil || errors.Is(err, fs.ErrPermission)
}

// list returns the names in a directory, nil when there is none.
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

// glob is fs.Glob with a pattern known to be well-formed.
func (h *Host) glob(pattern string) []string {
	names, err := fs.Glob(h.FS, pattern)
	if err != nil {
		return nil
	}
	return names
}

// link is the target of a symbolic link, "" when it cannot be read.
func (h *Host) link(name string) string {
	target, err := fs.ReadLink(h.FS, name)
	if err != nil {
		return ""
	}
	return target
}

// rel turns an absolute path into a name of FS.
func rel(p string) string {
	return strings.TrimPrefix(path.Clean("/"+p), "/")
}
