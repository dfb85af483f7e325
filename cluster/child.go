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

// Exit codes of a worker process. They are informational: tasks and libraries exit with any code, so the nanny decides
// by the last event that it has received, never by the code.
const (
	exitDone    = 0  // closed, retired or at the end of its lifetime
	exitFailed  = 1  // failed to start, or ended by an internal error
	exitUsage   = 2  // not started by a nanny
	exitLost    = 3  // without a scheduler for the death timeout
	exitRestart = 75 // requests a replacement
)

// Names of events.
const (
	eventReady  = "ready"  // the worker is registered
	eventFailed = "failed" // the worker ends with an error; the nanny starts another one
	eventLog    = "log"    // a record of package slog

	// Final events: the worker ends on purpose. An exit without one of them is a crash.
	eventClosed  = "closed"  // closed, retired or at the end of its lifetime: no replacement
	eventLost    = "lost"    // without a scheduler for the death timeout: no replacement
	eventRestart = "restart" // requests a replacement
)

// Descriptors of a child in addition to the standard ones.
const (
	statusFD = 3 // for events, to the parent
	echoFD   = 4 // returns the output of this process and its predecessors
)

// order is a line that the parent writes to the standard input of the child after the specification. The end of the
// input is an order as well: to end immediately, because the parent has ended.
type order struct {
	// Op is "close", or "retire" to move data to other workers first.
	Op string `json:"op"`
}

// event is a line that the child writes to its status descriptor.
type event struct {
	// Event is one of the constants above.
	Event         string   `json:"event"`
	Address       string   `json:"address,omitempty"`
	DataAddresses []string `json:"data_addresses,omitempty"`
	HTTP          string   `json:"http,omitempty"`
	Error         string   `json:"error,omitempty"`
	// Log is the record of eventLog.
	Log *logRecord `json:"log,omitempty"`
}

// child is the worker process as its role uses it: its specification, and the pipes from and to its parent.
type child struct {
	orders *json.Decoder
	status *os.File
	echo   *os.File
	signal chan os.Signal
}

// newChild takes over the pipes of the parent. Tasks see an empty standard input, and processes that they start inherit
// neither pipe.
func newChild() (*child, error) {
	var st unix.Stat_t
	if err := unix.Fstat(statusFD, &st); err != nil {
		return nil, fmt.Errorf("descriptor %d not open: process not started by a nanny", statusFD)
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
	// Ctrl-C sends SIGINT to the parent as well, which shuts its children down in order.
	signal.Ignore(syscall.SIGINT)
	signal.Notify(c.signal, syscall.SIGTERM)
	return c, nil
}

// report sends an event to the parent. If the parent has ended, the orders end as well.
func (c *child) report(e event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, _ = c.status.Write(append(line, '\n'))
	}
}

// reportEnd reports why the process ends and returns its exit code.
func (c *child) reportEnd(name string, err error) int {
	e := event{Event: name}
	if err != nil {
		e.Error = strings.TrimPrefix(oneLine(err), "worker: ") // the nanny adds the name of the worker
	}
	c.report(e)
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

// await returns a channel of orders: those of the parent, "retire" for SIGTERM, and "" when the parent has ended.
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

// childFailure writes to standard error why the process ends, because the parent may not read events.
func childFailure(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", filepath.Base(os.Args[0]), fmt.Sprintf(format, args...))
}

// maxEvent bounds an event in bytes. A child runs user code: a line that is too long or not an event is dropped.
const maxEvent = 1 << 20

// readEvents calls f with each event of a child until the pipe is closed.
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
