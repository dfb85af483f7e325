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

// Process is a running child. Its methods may be called from any goroutine.
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
	eof    chan struct{}    // closed when no answer can come any more
	ended  chan struct{}    // closed when the child is gone and err is set
	done   chan struct{}    // closed when all goroutines have ended as well
	closed sync.Once

	ids   atomic.Uint64
	mu    sync.Mutex
	calls map[uint64]chan answer // by id; nil when the child is gone
	err   error                  // why it has ended
	busy  atomic.Int64           // calls of the child that have no answer yet
	wg    sync.WaitGroup         // reader, writer, handlers, output
}

type answer struct {
	m   *Message
	err error
}

// ErrExited is what calls fail with whose child has ended meanwhile; errors.Is finds it.
var ErrExited = errors.New("the Python process has ended")

// Call calls a handler of the child and waits for its answer. body goes through
// msgpack.Append; msgpack.Raw is taken as it is. The frames are not copied: if the context
// ends the call early they still belong to the child. An exception comes as *Exception,
// the end of the child as ErrExited.
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
		return nil, p.exited()
	}
	p.calls[id] = ch
	p.mu.Unlock()
	defer p.forget(id)
	select {
	case p.out <- b:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.ctx.Done():
		return nil, p.exited()
	}
	select {
	case a := <-ch:
		return a.m, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.ended:
		select { // the answer may have been the last thing that came
		case a := <-ch:
			return a.m, a.err
		default:
		}
		return nil, p.exited()
	}
}

// Notify calls a handler of the child without waiting for an answer.
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
		return p.exited()
	}
}

// Done is closed when the child is gone; Err then says why.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is nil until Done is closed, and wraps ErrExited then.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.exited()
	default:
		return nil
	}
}

// Ending tells whether the child is gone or going: it was killed, or its end was noticed. Calls fail from then on,
// which is some time before Done.
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

// PID of the child.
func (p *Process) PID() int { return p.pid }

// Version of its Python: "3.11.7".
func (p *Process) Version() string { return p.version }

// Isolation that is in force.
func (p *Process) Isolation() Isolation { return p.isolation }

// Close ends the child and waits until it is gone.
func (p *Process) Close() error {
	p.end(errors.New("closed"))
	<-p.done
	return nil
}

// Kill ends the child for a reason that its calls are told, and does not wait.
func (p *Process) Kill(why error) { p.end(why) }

// end stops everything; the first reason counts.
func (p *Process) end(why error) {
	p.closed.Do(func() {
		p.mu.Lock()
		p.err = why
		p.mu.Unlock()
		p.kill()
		_ = p.conn.Close()
	})
}

func (p *Process) exited() error {
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

// write owns the socket's write side.
func (p *Process) write() {
	defer p.wg.Done()
	for {
		select {
		case b := <-p.out:
			if _, err := b.WriteTo(p.conn); err != nil {
				if !errors.Is(err, net.ErrClosed) {
					p.lost()
				}
				return
			}
		case <-p.ctx.Done():
			return
		}
	}
}

// exitGrace is how long a child that has closed its socket may take to end, and how long
// the rest of what it sent is read after it has ended.
const exitGrace = 2 * time.Second

// lost is called when the socket is of no use: the child has closed it or is dying. Its
// exit status says more than that, so it gets a moment.
func (p *Process) lost() {
	_ = p.conn.Close()
	timer := time.AfterFunc(exitGrace, func() { p.end(errors.New("killed, since it has closed its socket")) })
	context.AfterFunc(p.ctx, func() { timer.Stop() })
}

// read owns the socket's read side. It ends with the socket.
func (p *Process) read(r *bufio.Reader) {
	defer p.wg.Done()
	defer close(p.eof)
	for {
		h, frames, err := readMessage(r, p.cfg.MaxMessage)
		if err == nil && h.op != "" {
			err = p.called(h, frames)
		} else if err == nil {
			p.answered(h, frames)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrUnexpectedEOF) &&
			!isReset(err) {
			p.end(fmt.Errorf("killed, since it broke the protocol: %w", err))
		}
		p.lost()
		return
	}
}

func isReset(err error) bool {
	return errors.Is(err, os.ErrClosed) || strings.Contains(err.Error(), "connection reset")
}

func (p *Process) answered(h head, frames [][]byte) {
	p.mu.Lock()
	ch := p.calls[h.id]
	delete(p.calls, h.id)
	p.mu.Unlock()
	if ch == nil {
		return // given up
	}
	if h.failed {
		ch <- answer{err: h.raised}
		return
	}
	ch <- answer{m: &Message{Body: h.body, Frames: frames}}
}

// called answers a call of the child.
func (p *Process) called(h head, frames [][]byte) error {
	m := &Message{Op: h.op, Body: h.body, Frames: frames}
	fn := p.cfg.Handlers[h.op]
	if p.busy.Add(1) > int64(p.cfg.MaxCalls) {
		return fmt.Errorf("more than %d calls at once", p.cfg.MaxCalls)
	}
	p.wg.Go(func() {
		defer p.busy.Add(-1)
		var body any
		var out [][]byte
		err := fmt.Errorf("no handler of %q", h.op)
		if fn != nil {
			body, out, err = safely(p.ctx, fn, m)
		}
		if !h.hasID {
			if err != nil {
				p.cfg.Logger.Warn("a message of a Python process failed", "process", p.cfg.Name, "op", h.op, "error",
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

// safely turns a panic of a handler into an error: a child's message must not end us.
func safely(ctx context.Context, fn Handler, m *Message) (body any, frames [][]byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return fn(ctx, m)
}

// valid replaces what msgpack's strings cannot hold.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
