package pyproc

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"go.millstream.dev/internal/proc/sysmem"
	"go.millstream.dev/internal/wire/msgpack"
)

// Config describes a child. Module is needed.
type Config struct {
	// Python is the interpreter's path (default what Find finds).
	Python string
	// Module to run: "millstream.materialiser". It has setup(peer), see _child.py.
	Module string
	// Settings are handed to the module as peer.settings; JSON.
	Settings map[string]any
	// Env is the environment (nil: this process's own). With Isolate it is added to a bare one, see bareEnv.
	Env []string
	// Dir is the working directory ("": this process's own; with Isolate: /).
	Dir string
	// Isolate runs the child in a sandbox: another user id when this process is root, namespaces, a read-only file
	// system without Hide, Landlock and a seccomp filter where the system has them, a private home, a bare
	// environment, no descriptors, Limits. Process.Isolation reports what is in force.
	Isolate bool
	// Network leaves an isolated child the network of the host.
	Network bool
	// Hide are files and folders that an isolated child must not see: keys, the journal. A child that could reach them
	// is not started.
	Hide []string
	// AllowUnsafe starts an isolated child even as root, and where Hide is within its reach.
	AllowUnsafe bool
	// Limits of an isolated child.
	Limits Limits
	// Handlers answer the child's calls, each in a goroutine of its own.
	Handlers map[string]Handler
	// Threads that run the child's handlers (default 8).
	Threads int
	// MaxMessage bounds one message of the child in bytes (default 4 GiB), MaxCalls how
	// many of its calls may wait for an answer (default 4096). A child that goes beyond is
	// killed.
	MaxMessage int64
	MaxCalls   int
	// StartTimeout bounds the time until the module has been imported (default 1 min).
	StartTimeout time.Duration
	// Name is for the log (default Module).
	Name string
	// Logger gets what the child prints (default slog.Default).
	Logger *slog.Logger
}

// Limits are resource limits of an isolated child; 0 is the default, negative none.
type Limits struct {
	// Memory is the private writable memory in bytes (default half of the memory of the machine or of its cgroup, at
	// least 1 GiB). Address space that is only reserved does not count.
	Memory int64
	// CPU time of the process (default none).
	CPU time.Duration
	// Files is the number of open descriptors (default 1024).
	Files int64
	// Processes is the number of processes and threads (default 256).
	Processes int64
	// Disk bounds the private folders and each file, in bytes (default 512 MiB).
	Disk int64
}

func (l Limits) withDefaults() Limits {
	l.Files = cmp.Or(l.Files, 1024)
	l.Processes = cmp.Or(l.Processes, 256)
	if l.Disk <= 0 { // a file system in memory needs one
		l.Disk = 512 << 20
	}
	if l.Memory == 0 {
		l.Memory = max(sysmem.Total()/2, 1<<30)
	}
	return l
}

// Handler answers one call of a child. What it returns as body goes through
// msgpack.Append; msgpack.Raw is taken as it is. The context ends with the child.
type Handler func(ctx context.Context, m *Message) (body any, frames [][]byte, err error)

// Message is a call or an answer.
type Message struct {
	// Op of a call.
	Op string
	// Body is one msgpack value; nil where there is none.
	Body msgpack.Raw
	// Frames belong to the receiver.
	Frames [][]byte
}

// Isolation describes the sandbox of a child.
type Isolation struct {
	// UID is the child's user id; OtherUser reports whether it differs from this process's.
	UID       int
	OtherUser bool
	// Namespaces are those of its own: user, mnt, pid, net, ipc.
	Namespaces []string
	// Mounts reports whether its file system is read-only and without Config.Hide.
	Mounts bool
	// Landlock is the version in force; 0 for none.
	Landlock int
	// HostNetwork reports whether the child has the network of the host.
	HostNetwork bool
	// NoNewPrivs reports whether it cannot gain rights by running programs.
	NoNewPrivs bool
	// InForce lists what is in force, Missing what is not available and why.
	InForce, Missing []string
}

// Network returns "host" or "none".
func (i Isolation) Network() string {
	if i.HostNetwork {
		return "host"
	}
	return "none"
}

// Exception is an exception of Python in answer to a call.
type Exception struct {
	// Type is the class's name, Message its text, Traceback that of format_exception.
	Type, Message, Traceback string
	// Pickled is the exception itself; nil when it cannot be pickled.
	Pickled []byte
	// Sandbox reports that the sandbox could not be set up.
	Sandbox bool
}

// Error returns type and message.
func (e *Exception) Error() string {
	if e.Message == "" {
		return e.Type
	}
	return e.Type + ": " + e.Message
}

func (c Config) withDefaults() Config {
	c.Threads = cmp.Or(c.Threads, 8)
	c.MaxMessage = cmp.Or(c.MaxMessage, 4<<30)
	c.MaxCalls = cmp.Or(c.MaxCalls, 4096)
	c.StartTimeout = cmp.Or(c.StartTimeout, time.Minute)
	c.Name = cmp.Or(c.Name, c.Module)
	c.Limits = c.Limits.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
