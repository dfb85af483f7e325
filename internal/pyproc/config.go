package pyproc

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"go.millstream.dev/wire/msgpack"
)

// Config describes a child. Module is needed.
type Config struct {
	// Python is the interpreter's path (default what Find finds).
	Python string
	// Module to run: "millstream.materialiser". It has setup(peer), see _child.py.
	Module string
	// Settings are handed to the module as peer.settings; JSON.
	Settings map[string]any
	// Env is the environment (nil: this process's own; with Isolate: none but what Python
	// needs to find its modules).
	Env []string
	// Dir is the working directory ("": this process's own; with Isolate: /).
	Dir string
	// Isolate shuts the child in: another user id when we are root, namespaces of its own
	// where allowed, no_new_privs, an empty environment, no descriptors, Limits. What was
	// not possible is logged and in Process.Isolation.
	Isolate bool
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
	// Memory is the address space in bytes (default none: Python's libraries reserve far
	// more than they use).
	Memory int64
	// CPU time of the process (default none).
	CPU time.Duration
	// Files is the number of open descriptors (default 256).
	Files int64
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

// Isolation is what keeps a child in.
type Isolation struct {
	// UID is its user id; OtherUser tells that it is not ours.
	UID       int
	OtherUser bool
	// Namespaces are those of its own: user, pid, net, ipc.
	Namespaces []string
	// NoNewPrivs: it cannot gain rights by running programs.
	NoNewPrivs bool
	// Missing says in words what could not be had, and why; empty when all is in force.
	Missing []string
}

// Exception is an exception of Python in answer to a call.
type Exception struct {
	// Type is the class's name, Message its text, Traceback that of format_exception.
	Type, Message, Traceback string
	// Pickled is the exception itself; nil when it cannot be pickled.
	Pickled []byte
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
	c.Limits.Files = cmp.Or(c.Limits.Files, 256)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
