package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes of a worker process. They are for people: tasks and libraries exit with any code, so the
// nanny decides by the farewell that it has received (see event), never by the code.
const (
	exitDone    = 0  // closed, retired or at the end of its lifetime
	exitFailed  = 1  // failed to start, or ended by an internal error
	exitUsage   = 2  // not started by a nanny
	exitLost    = 3  // without a scheduler for the death timeout
	exitRestart = 75 // asks for a replacement
)

// Names of events.
const (
	eventReady  = "ready"  // the worker is registered
	eventFailed = "failed" // the worker ends with an error; the nanny starts another one
	eventLog    = "log"    // a record of package slog

	// Farewells: the worker ends on purpose. An exit without one of them is a death.
	eventClosed  = "closed"  // closed, retired or at the end of its lifetime: no replacement
	eventLost    = "lost"    // without a scheduler for the death timeout: no replacement
	eventRestart = "restart" // another process is to take its place
)

// Descriptors of a child besides the standard ones.
const (
	statusFD = 3 // for events, to the parent
	echoFD   = 4 // for the output of this process and its predecessors, which the parent has read
)

// order is what the parent writes to the child's standard input after the specification.
// The end of the input is an order too: to end at once, as the parent is gone.
type order struct {
	// Op is "close", or "retire" to move data to other workers first.
	Op string `json:"op"`
}

// event is what the child writes to its status descriptor.
type event struct {
	// Event is one of the names above.
	Event         string   `json:"event"`
	Address       string   `json:"address,omitempty"`
	DataAddresses []string `json:"data_addresses,omitempty"`
	HTTP          string   `json:"http,omitempty"`
	Error         string   `json:"error,omitempty"`
	// Log is the record of eventLog.
	Log *logRecord `json:"log,omitempty"`
}

// child is this process as seen from its role: the specification it got, and the ways to
// and from its parent.
type child struct {
	orders *json.Decoder
	status *os.File
	echo   *os.File
	signal chan os.Signal
}

// newChild takes over what the parent handed down. Tasks find an empty standard input, and
// what they start inherits neither of the two ways.
func newChild() (*child, error) {
	var st unix.Stat_t
	if err := unix.Fstat(statusFD, &st); err != nil {
		return nil, fmt.Errorf("descriptor %d is not open: this process was not started by a nanny", statusFD)
	}
	unix.CloseOnExec(statusFD)
	unix.CloseOnExec(echoFD)
	in, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, echoFD+1)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(null)
	if err := unix.Dup3(null, 0, 0); err != nil {
		return nil, err
	}
	c := &child{
		orders: json.NewDecoder(os.NewFile(uintptr(in), "orders")),
		status: os.NewFile(statusFD, "status"),
		echo:   os.NewFile(echoFD, "echo"),
		signal: make(chan os.Signal, 1),
	}
	// SIGINT is not for it: Ctrl-C goes to the parent, which ends its children in order.
	signal.Ignore(syscall.SIGINT)
	signal.Notify(c.signal, syscall.SIGTERM)
	return c, nil
}

// tell reports to the parent. A parent that is gone shows at the orders' end.
func (c *child) tell(e event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, _ = c.status.Write(append(line, '\n'))
	}
}

// farewell reports why the process ends and returns its exit code.
func (c *child) farewell(name string, err error) int {
	e := event{Event: name}
	if err != nil {
		e.Error = strings.TrimPrefix(oneLine(err), "worker: ") // the nanny says whose error it is
	}
	c.tell(e)
	switch name {
	case eventClosed:
		return exitDone
	case eventLost:
		return exitLost
	case eventRestart:
		return exitRestart
	}
	return exitFailed
}

// await returns the channel of what the child is to do, in order: orders of the parent,
// SIGTERM as "retire", and "" when the parent is gone.
func (c *child) await() <-chan string {
	out := make(chan string, 4)
	go func() {
		for range c.signal {
			out <- "retire"
		}
	}()
	go func() {
		for {
			var o order
			if err := c.orders.Decode(&o); err != nil {
				out <- ""
				return
			}
			out <- o.Op
		}
	}()
	return out
}

// childFailure says on standard error why the process ends; the parent may not listen.
func childFailure(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", filepath.Base(os.Args[0]), fmt.Sprintf(format, args...))
}

// maxEvent bounds an event in bytes. A child runs user code: what it sends is bounded, and a line that is
// too long or no event is dropped.
const maxEvent = 1 << 20

// readEvents calls f with each event of a child until the pipe ends.
func readEvents(r io.Reader, f func(event)) {
	in := bufio.NewReader(r)
	var line []byte
	for long := false; ; {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxEvent; !long {
			line = append(line, part...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		var e event
		if !long && json.Unmarshal(line, &e) == nil {
			f(e)
		}
		if err != nil {
			return
		}
		line, long = line[:0], false
	}
}
