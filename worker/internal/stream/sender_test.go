package stream

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// fakeComm keeps what is written. Writes wait while there is no token in pass, unless it is nil.
type fakeComm struct {
	comm.Comm
	local string
	pass  chan struct{}
	fails error

	mu      sync.Mutex
	written []sent
	ended   string
	done    chan struct{}
	wrote   chan struct{}
}

// sent is one message: the ops of its list, and its frames.
type sent struct {
	ops    []string
	frames []string
}

func newComm(local string) *fakeComm {
	return &fakeComm{local: local, done: make(chan struct{}), wrote: make(chan struct{}, 100)}
}

func (c *fakeComm) LocalAddr() string     { return c.local }
func (c *fakeComm) Done() <-chan struct{} { return c.done }
func (c *fakeComm) Close() error          { c.end("closed"); return nil }
func (c *fakeComm) Abort()                { c.end("aborted") }

func (c *fakeComm) end(how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == "" {
		c.ended = how
		close(c.done)
	}
}

func (c *fakeComm) Write(_ context.Context, m *wire.Message) error {
	if c.pass != nil {
		select {
		case <-c.pass:
		case <-c.done:
			return comm.ErrClosed
		}
	}
	v, err := msgpack.Decode(m.Body())
	if err != nil {
		return err
	}
	var s sent
	for _, x := range v.([]any) {
		s.ops = append(s.ops, x.(msgpack.Map).GetString("op"))
	}
	for _, f := range m.Frames[1:] {
		s.frames = append(s.frames, string(f.Bytes()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails != nil {
		return c.fails
	}
	c.written = append(c.written, s)
	c.wrote <- struct{}{}
	return nil
}

func (c *fakeComm) state() ([]sent, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written, c.ended
}

func keepAlives(n int) *Batch {
	b := &Batch{}
	for range n {
		b.KeepAlive()
	}
	return b
}

func withFrame(data string) *Batch {
	b := &Batch{}
	b.Raw(msgpack.AppendMapHeader(nil, 0), [][]byte{[]byte(data)})
	return b
}

// What is added during a write goes together with the next, but only one of two that go together may have frames:
// their markers count from the start of a message.
func TestSenderMerges(t *testing.T) {
	c := newComm("tcp://127.0.0.1:1")
	c.pass = make(chan struct{})
	s := NewSender(c)
	s.Add(keepAlives(1), true)
	c.pass <- struct{}{}
	<-c.wrote
	for _, b := range []*Batch{keepAlives(2), withFrame("one"), keepAlives(1), withFrame("two"), keepAlives(1)} {
		s.Add(b, true)
	}
	close(c.pass)
	s.Close(time.Minute)
	written, ended := c.state()
	total := 0
	var frames []string
	for _, w := range written[1:] {
		total += len(w.ops)
		frames = append(frames, w.frames...)
		if len(w.frames) > 1 {
			t.Errorf("one message has the frames of two: %v", w.frames)
		}
	}
	if total != 6 || len(frames) != 2 || frames[0] != "one" || frames[1] != "two" || ended != "closed" {
		t.Errorf("%v, %s", written, ended)
	}
	if len(written) > 4 {
		t.Errorf("%d messages for what could go in fewer: %v", len(written), written)
	}
	s.Add(keepAlives(1), true) // is dropped
	if after, _ := c.state(); len(after) != len(written) {
		t.Errorf("a closed sender wrote %v", after)
	}
}

// A batch stays its owner's: what is added to it later does not change what was queued.
func TestSenderCopies(t *testing.T) {
	for _, local := range []string{"tcp://127.0.0.1:1", "inproc://1"} {
		c := newComm(local)
		s := NewSender(c)
		b := &Batch{}
		for i := range 50 {
			b.Reset()
			b.Status("running", "s")
			if i%2 == 0 {
				b.KeepAlive()
			}
			s.Add(b, true)
		}
		s.Close(time.Minute)
		n := 0
		written, _ := c.state()
		for _, w := range written {
			n += len(w.ops)
		}
		if n != 75 {
			t.Errorf("%s: %d messages, want 75", local, n)
		}
	}
}

// Without hurry a message waits for company, but not for ever.
func TestSenderLingers(t *testing.T) {
	c := newComm("tcp://127.0.0.1:1")
	s := NewSender(c)
	s.Add(keepAlives(1), false)
	<-c.wrote
	s.Add(keepAlives(1), false)
	s.Add(keepAlives(1), true)
	s.Close(time.Minute)
	written, _ := c.state()
	if n := len(written); n < 2 || len(written[0].ops) != 1 {
		t.Errorf("got %v", written)
	}
}

func TestSenderFails(t *testing.T) {
	c := newComm("tcp://127.0.0.1:1")
	c.fails = errWanted
	s := NewSender(c)
	s.Add(keepAlives(1), true)
	<-s.done
	if _, ended := c.state(); ended != "aborted" {
		t.Errorf("the comm is %q after a failed write, want aborted", ended)
	}
	s.Abort()
}

// A peer that does not read keeps nobody waiting longer than the limit.
func TestSenderCloseLimit(t *testing.T) {
	c := newComm("tcp://127.0.0.1:1")
	c.pass = make(chan struct{})
	s := NewSender(c)
	s.Add(keepAlives(1), true)
	s.Close(time.Millisecond)
	if written, ended := c.state(); len(written) != 0 || ended != "aborted" {
		t.Errorf("wrote %v, and the comm is %q", written, ended)
	}
}

func TestSenderPeerGone(t *testing.T) {
	c := newComm("tcp://127.0.0.1:1")
	s := NewSender(c)
	c.end("gone")
	<-s.done
	s.Close(time.Minute)
}

// Only transports that have copied a message when Write returns give its memory back.
func TestSenderReuse(t *testing.T) {
	for local, want := range map[string]bool{"tcp://127.0.0.1:1": true, "tls://127.0.0.1:1": true, "inproc://1": false,
		"ucxx://127.0.0.1:1": false} {
		c := newComm(local)
		s := NewSender(c)
		s.recycle(make([]byte, 100))
		s.mu.Lock()
		got := s.free != nil
		s.mu.Unlock()
		if got != want {
			t.Errorf("%s: memory is used again: %v, want %v", local, got, want)
		}
		s.recycle(make([]byte, maxFree+1))
		if s.Close(time.Minute); cap(s.free) > maxFree {
			t.Errorf("%s: %d bytes are kept", local, cap(s.free))
		}
	}
}
