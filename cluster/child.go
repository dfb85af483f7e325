package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes of a worker's process. The nanny does not start another one after exitDone and
// exitLost.
const (
	exitDone    = 0  // closed, retired or at the end of its life
	exitFailed  = 1  // could not start, or has a fault
	exitUsage   = 2  // started wrongly
	exitLost    = 3  // has had no scheduler for its death timeout
	exitRestart = 75 // asks for another one in its place
)

// statusFD is the descriptor on which a child tells its parent how it is.
const statusFD = 3

// order is what the parent writes to the child's standard input after the specification.
// The end of the input is an order too: to end at once, as the parent is gone.
type order struct {
	// Op is "close", or "retire" to move data to other workers first.
	Op string `json:"op"`
}

// event is what the child writes to its status descriptor.
type event struct {
	// Event is "ready" when the worker is registered, "failed" when it never will be.
	Event   string   `json:"event"`
	Address string   `json:"address,omitempty"`
	Lanes   []string `json:"lanes,omitempty"`
	HTTP    string   `json:"http,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// child is this process as seen from its role: the specification it got, and the ways to
// and from its parent.
type child struct {
	orders *json.Decoder
	status *os.File
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
	in, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, statusFD+1)
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

// readEvents hands what a child tells to f until it has no more to tell.
func readEvents(r io.Reader, f func(event)) {
	// A child is a peer that runs user code: what it writes is bounded.
	d := json.NewDecoder(io.LimitReader(r, 1<<20))
	for {
		var e event
		if d.Decode(&e) != nil {
			return
		}
		f(e)
	}
}
