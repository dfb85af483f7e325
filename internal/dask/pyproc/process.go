package pyproc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/proc/childproc"
)

// Process is a running child. It is safe for concurrent use.
type Process struct {
	cfg       Config
	conn      net.Conn
	child     *childproc.Child
	kill      context.CancelFunc
	pid       int
	log       *output
	isolation Isolation
	version   string

	out    chan net.Buffers // to the writer, which owns the socket's write side
	ctx    context.Context  // ends with the child; for handlers
	eof    chan struct{}    // closed when no more replies can arrive
	ended  chan struct{}    // closed when the child has ended and err is set
	done   chan struct{}    // closed when all goroutines have ended as well
	closed sync.Once

	ids   atomic.Uint64
	mu    sync.Mutex
	calls map[uint64]chan answer // by id; nil when the child has ended
	err   error                  // why it has ended
	busy  atomic.Int64           // calls of the child in flight
	wg    sync.WaitGroup         // reader, writer, handlers, output
}

type answer struct {
	m   *Message
	err error
}

// ErrExited is returned by calls of a child that has ended; use errors.Is.
var ErrExited = errors.New("pyproc: Python process has ended")

// Call calls a handler of the child and waits for the reply. body is encoded with msgpack.Append; msgpack.Raw is sent
// unchanged. The frames are not copied: if the context ends the call early they still belong to the child. An exception
// is returned as an *Exception, the end of the child as ErrExited.
func (p *Process) Call(ctx context.Context, op string, body any, frames [][]byte) (*Message, error) {
	id := p.ids.Add(1)
	b, err := packCall(id, op, body, frames)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", p.cfg.Name, op, err)
	}
	ch := make(chan answer, 1)
	p.mu.Lock()
	if p.calls == nil {
		p.mu.Unlock()
		return nil, p.exitedError()
	}
	p.calls[id] = ch
	p.mu.Unlock()
	defer p.forget(id)
	select {
	case p.out <- b:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.ctx.Done():
		return nil, p.exitedError()
	}
	select {
	case a := <-ch:
		return a.m, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.ended:
		select { // the reply may have arrived last
		case a := <-ch:
			return a.m, a.err
		default:
		}
		return nil, p.exitedError()
	}
}

// Notify calls a handler of the child without waiting for a reply.
func (p *Process) Notify(ctx context.Context, op string, body any, frames [][]byte) error {
	b, err := packCall(0, op, body, frames)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", p.cfg.Name, op, err)
	}
	select {
	case p.out <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.ctx.Done():
		return p.exitedError()
	}
}

// Done returns a channel that is closed when the child has ended; Err then returns the cause.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns nil until Done is closed, and then an error that wraps ErrExited.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.exitedError()
	default:
		return nil
	}
}

// Ending reports whether the child has ended or is ending: it was killed, or its end was detected. Calls fail from then
// on, which is some time before Done.
func (p *Process) Ending() bool {
	select {
	case <-p.ended:
		return true
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil
}

// PID returns the process ID of the child.
func (p *Process) PID() int { return p.pid }

// Version returns the version of its Python, such as "3.11.7".
func (p *Process) Version() string { return p.version }

// Isolation returns the sandbox in force.
func (p *Process) Isolation() Isolation { return p.isolation }

// Close ends the child and waits for its end.
func (p *Process) Close() error {
	p.end(errors.New("closed"))
	<-p.done
	return nil
}

// Kill ends the child without waiting; its calls return why.
func (p *Process) Kill(why error) { p.end(why) }

// end stops the process; the first reason is kept.
func (p *Process) end(why error) {
	p.closed.Do(func() {
		p.mu.Lock()
		p.err = why
		p.mu.Unlock()
		p.kill()
		_ = p.conn.Close()
	})
}

func (p *Process) exitedError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return fmt.Errorf("%s: %w", p.cfg.Name, ErrExited)
	}
	return fmt.Errorf("%s: %w: %w", p.cfg.Name, ErrExited, p.err)
}

func (p *Process) forget(id uint64) {
	p.mu.Lock()
	delete(p.calls, id)
	p.mu.Unlock()
}

// write owns the write side of the socket.
func (p *Process) write() {
	defer p.wg.Done()
	for {
		select {
		case b := <-p.out:
			if _, err := b.WriteTo(p.conn); err != nil {
				if !errors.Is(err, net.ErrClosed) {
					p.connectionLost()
				}
				return
			}
		case <-p.ctx.Done():
			return
		}
	}
}

// exitGrace is how long a child that has closed its socket may take to exit, and how long its remaining output is read
// after it has exited.
const exitGrace = 2 * time.Second

// connectionLost is called when the socket is closed or failed. It waits for the exit of the child, because the exit
// status is a better cause.
func (p *Process) connectionLost() {
	_ = p.conn.Close()
	timer := time.AfterFunc(exitGrace, func() { p.end(errors.New("killed after it closed its socket")) })
	context.AfterFunc(p.ctx, func() { timer.Stop() })
}

// read owns the read side of the socket. It ends with the socket.
func (p *Process) read(r *bufio.Reader) {
	defer p.wg.Done()
	defer close(p.eof)
	for {
		h, frames, err := readMessage(r, p.cfg.MaxMessage)
		if err == nil && h.op != "" {
			err = p.handleCall(h, frames)
		} else if err == nil {
			p.deliverReply(h, frames)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrUnexpectedEOF) &&
			!isReset(err) {
			p.end(fmt.Errorf("killed after a protocol violation: %w", err))
		}
		p.connectionLost()
		return
	}
}

func isReset(err error) bool {
	return errors.Is(err, os.ErrClosed) || strings.Contains(err.Error(), "connection reset")
}

func (p *Process) deliverReply(h head, frames [][]byte) {
	p.mu.Lock()
	ch := p.calls[h.id]
	delete(p.calls, h.id)
	p.mu.Unlock()
	if ch == nil {
		return // the caller no longer waits
	}
	if h.failed {
		ch <- answer{err: h.raised}
		return
	}
	ch <- answer{m: &Message{Body: h.body, Frames: frames}}
}

// handleCall handles a call of the child.
func (p *Process) handleCall(h head, frames [][]byte) error {
	m := &Message{Op: h.op, Body: h.body, Frames: frames}
	fn := p.cfg.Handlers[h.op]
	if p.busy.Add(1) > int64(p.cfg.MaxCalls) {
		return fmt.Errorf("more than %d calls at once", p.cfg.MaxCalls)
	}
	p.wg.Go(func() {
		defer p.busy.Add(-1)
		var body any
		var out [][]byte
		err := fmt.Errorf("no handler for %q", h.op)
		if fn != nil {
			body, out, err = callHandler(p.ctx, fn, m)
		}
		if !h.hasID {
			if err != nil {
				p.cfg.Logger.Warn("message of a Python process failed", "process", p.cfg.Name, "op", h.op, "error",
					err)
			}
			return
		}
		select {
		case p.out <- packAnswer(h.id, body, out, err):
		case <-p.ctx.Done():
		}
	})
	return nil
}

// callHandler returns a panic of a handler as an error: a message of a child must not end this process.
func callHandler(ctx context.Context, fn Handler, m *Message) (body any, frames [][]byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return fn(ctx, m)
}

// validUTF8 replaces bytes that msgpack strings cannot have.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
