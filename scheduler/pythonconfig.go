package scheduler

import (
	"time"
)

// PythonConfig says how the scheduler uses Python. It needs one for graphs that are more
// than calls of functions; the graphs of submit and map do without.
type PythonConfig struct {
	// Interpreter is the program ("": MILLSTREAM_PYTHON, that of VIRTUAL_ENV, or the first
	// on PATH that imports distributed; --python).
	Interpreter string
	// Off runs no Python at all: graphs that need it fail (--no-python).
	Off bool
	// Processes is how many open graphs at once (default the number of CPUs, at least 2);
	// each serves one client. While all of them are busy for seconds, there are up to four
	// times as many.
	Processes int
	// Idle is how long a process without work is kept (default 1 min).
	Idle time.Duration
	// GraphTimeout is how long one graph may take to open (default 10 min; --graph-timeout).
	GraphTimeout time.Duration
	// Memory bounds the private memory of a process in bytes (default half of that of the
	// machine or its cgroup; negative: none; --helper-memory), Disk its private folders
	// (default 512 MiB; --helper-disk), MaxProcesses the processes and threads in it (default
	// 256; negative: none).
	Memory, Disk, MaxProcesses int64
	// Hide are files and folders that the processes must not see, such as keys. The journal
	// is always hidden.
	Hide []string
	// AllowUnsafe starts the processes even where they would run as root, or where Hide and
	// the journal cannot be kept from them (--unsafe-python-helpers).
	AllowUnsafe bool
}
