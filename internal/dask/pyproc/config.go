package pyproc

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"go.millstream.dev/internal/proc/sysmem"
	"go.millstream.dev/internal/wire/msgpack"
)

// Config configures a child process. Module is required.
type Config struct {
	// Python is the path of the interpreter (default: the result of Find).
	Python string
	// Module is the module to run, such as "millstream.materializer". It defines setup(peer), see _child.py.
	Module string
	// Settings are passed to the module as peer.settings, encoded as JSON.
	Settings map[string]any
	// Env is the environment (nil: that of this process). With Isolate it is added to a minimal one, see bareEnv.
	Env []string
	// Dir is the working directory ("": that of this process; with Isolate: /).
	Dir string
	// Isolate runs the child in a sandbox: another user id when this process is root, namespaces, a read-only file
	// system without Hide, Landlock and a seccomp filter where the system has them, a private home, a bare
	// environment, no descriptors, Limits. Process.Isolation reports what is in force.
	Isolate bool
	// Network gives an isolated child the network of the host.
	Network bool
	// Hide are files and folders that an isolated child must not see, such as keys and the journal. A child that could
	// access them is not started.
	Hide []string
	// AllowUnsafe starts an isolated child even as root, and even if it can access Hide.
	AllowUnsafe bool
	// Limits are the limits of an isolated child.
	Limits Limits
	// Handlers handle the calls of the child, each in its own goroutine.
	Handlers map[string]Handler
	// Threads is the number of threads for the handlers of the child (default 8).
	Threads int
	// MaxMessage bounds one message of the child in bytes (default 4 GiB), MaxCalls its calls in flight (default 4096).
	// A child that exceeds one of them is killed.
	MaxMessage int64
	MaxCalls   int
	// StartTimeout is the timeout for the import of the module (default 1 min).
	StartTimeout time.Duration
	// Name is the name of the child in the log (default Module).
	Name string
	// Logger receives the output of the child (default slog.Default).
	Logger *slog.Logger
}

// Limits are resource limits of an isolated child; 0 means the default, negative no limit.
type Limits struct {
	// Memory is the private writable memory in bytes (default half of the memory of the machine or of its cgroup, at
	// least 1 GiB). Address space that is only reserved does not count.
	Memory int64
	// CPU is the CPU time of the process (default unlimited).
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
	if l.Disk <= 0 { // a file system in memory needs a limit
		l.Disk = 512 << 20
	}
	if l.Memory == 0 {
		l.Memory = max(sysmem.Total()/2, 1<<30)
	}
	return l
}

// Handler handles one call of a child. The returned body is encoded with msgpack.Append; msgpack.Raw is sent unchanged.
// The context ends with the child.
type Handler func(ctx context.Context, m *Message) (body any, frames [][]byte, err error)

// Message is a call or a reply.
type Message struct {
	// Op is the operation of a call.
	Op string
	// Body is one msgpack value; nil if there is none.
	Body msgpack.Raw
	// Frames belong to the receiver.
	Frames [][]byte
}

// Isolation describes the sandbox of a child.
type Isolation struct {
	// UID is the user ID of the child; OtherUser reports whether it differs from that of this process.
	UID       int
	OtherUser bool
	// Namespaces are the namespaces that the child does not share with the host: user, mnt, pid, net, ipc.
	Namespaces []string
	// Mounts reports whether its file system is read-only and without Config.Hide.
	Mounts bool
	// Landlock is the version of Landlock in force; 0 for none.
	Landlock int
	// HostNetwork reports whether the child has the network of the host.
	HostNetwork bool
	// NoNewPrivs reports whether the child cannot gain privileges by running programs.
	NoNewPrivs bool
	// InForce lists the measures in force, Missing those that are not available with the reason.
	InForce, Missing []string
}

// Network returns "host" or "none".
func (i Isolation) Network() string {
	if i.HostNetwork {
		return "host"
	}
	return "none"
}

// Exception is a Python exception in reply to a call.
type Exception struct {
	// Type is the name of the class, Message the text, Traceback the output of format_exception.
	Type, Message, Traceback string
	// Pickled is the pickled exception; nil if it cannot be pickled.
	Pickled []byte
	// Sandbox reports whether the sandbox could not be set up.
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
