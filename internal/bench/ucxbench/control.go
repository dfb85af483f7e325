package ucxbench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Parent and child exchange lines of JSON: a request with a number, and a reply with the same number. Requests to one
// child do not overlap.
type request struct {
	ID   int             `json:"id"`
	Verb string          `json:"verb"`
	Args json.RawMessage `json:"args,omitempty"`
}

type reply struct {
	ID     int             `json:"id"`
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// maxLine bounds a line; worker addresses are the longest part.
const maxLine = 1 << 20

// caller is the side of the parent.
type caller struct {
	name    string
	w       io.Writer
	mu      sync.Mutex // one request at a time
	next    int
	replies chan reply
	quit    chan struct{} // closed when no replies are expected
	dead    chan struct{} // closed when the output of the child ends
	why     error         // valid after dead is closed
}

func newCaller(name string, w io.Writer, r io.Reader) *caller {
	c := &caller{name: name, w: w, replies: make(chan reply), quit: make(chan struct{}), dead: make(chan struct{})}
	go c.read(r)
	return c
}

func (c *caller) read(r io.Reader) {
	defer close(c.dead)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var rep reply
		if err := json.Unmarshal(lines.Bytes(), &rep); err != nil {
			c.why = fmt.Errorf("%s: invalid reply %q", c.name, lines.Text())
			return
		}
		select {
		case c.replies <- rep:
		case <-c.quit:
		}
	}
	c.why = lines.Err()
	if c.why == nil {
		c.why = fmt.Errorf("%s exited", c.name)
	}
}

// call sends one request and waits for its reply. The late reply of a canceled call is dropped by its number.
func (c *caller) call(ctx context.Context, verb string, args, result any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	raw, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("%s %s: %w", c.name, verb, err)
	}
	line, err := json.Marshal(request{ID: c.next, Verb: verb, Args: raw})
	if err != nil {
		return fmt.Errorf("%s %s: %w", c.name, verb, err)
	}
	if _, err := c.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%s %s: %w", c.name, verb, err)
	}
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s %s: %w", c.name, verb, context.Cause(ctx))
		case <-c.dead:
			return fmt.Errorf("%s %s: %w", c.name, verb, c.why)
		case rep := <-c.replies:
			if rep.ID != c.next {
				continue
			}
			if rep.Error != "" {
				return fmt.Errorf("%s %s: %s", c.name, verb, rep.Error)
			}
			if result == nil {
				return nil
			}
			if err := json.Unmarshal(rep.Result, result); err != nil {
				return fmt.Errorf("%s %s: %w", c.name, verb, err)
			}
			return nil
		}
	}
}

// handler handles one request in the child.
type handler func(ctx context.Context, verb string, args json.RawMessage) (any, error)

// errHangup is the cause of a context that ended because the parent closed the input of the child or exited.
var errHangup = errors.New("parent closed the connection")

// serve handles requests until the input ends. The context of a handler ends with the input, so that a child never
// outlives its parent.
func serve(ctx context.Context, r io.Reader, w io.Writer, handle handler) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	requests := make(chan request)
	failed := make(chan error, 1)
	go func() {
		defer cancel(errHangup)
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			var req request
			if err := json.Unmarshal(lines.Bytes(), &req); err != nil {
				failed <- fmt.Errorf("request %q: %w", lines.Text(), err)
				return
			}
			select {
			case requests <- req:
			case <-ctx.Done():
				return
			}
		}
		if err := lines.Err(); err != nil {
			failed <- err
		}
	}()
	out := json.NewEncoder(w)
	for {
		select {
		case <-ctx.Done():
			select {
			case err := <-failed:
				return err
			default:
			}
			if errors.Is(context.Cause(ctx), errHangup) {
				return nil
			}
			return context.Cause(ctx)
		case req := <-requests:
			rep := reply{ID: req.ID}
			result, err := handle(ctx, req.Verb, req.Args)
			if err == nil {
				rep.Result, err = json.Marshal(result)
			}
			if err != nil {
				rep.Error = err.Error()
			}
			if err := out.Encode(rep); err != nil {
				return fmt.Errorf("reply to %s: %w", req.Verb, err)
			}
		}
	}
}
