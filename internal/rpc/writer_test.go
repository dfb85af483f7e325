package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// pipe is a comm and its other end.
func pipe(t *testing.T) (near, far comm.Comm) {
	t.Helper()
	l, err := comm.Default.Listen(t.Context(), "inproc://", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = comm.Default.Dial(t.Context(), l.ContactAddr(), comm.DialConfig{}); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Abort(); far.Abort() })
	return near, far
}

func value(t *testing.T, text string) *wire.Serialized {
	t.Helper()
	v, err := wire.EncodeValue([]byte(text), wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Messages come in order, those with frames with the right ones, however they are merged.
func TestWriterOrder(t *testing.T) {
	near, far := pipe(t)
	o := NewWriter(near, WriterConfig{Limit: 1 << 20})
	const n = 300
	for i := range n {
		b := o.Begin()
		b.Body = msgpack.AppendMapHeader(b.Body, 2)
		b.Body = msgpack.AppendString(b.Body, "n")
		b.Body = msgpack.AppendInt(b.Body, int64(i))
		b.Body = msgpack.AppendString(b.Body, "value")
		if i%7 == 0 {
			b.Serialized(value(t, fmt.Sprint("v", i)))
		} else {
			b.Serialized(nil)
		}
		if i%5 == 0 {
			if err := o.Flush(0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := o.Flush(0); err != nil {
		t.Fatal(err)
	}
	o.Start()
	o.Finish()
	for next := 0; next < n; {
		m, err := far.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v, err := wire.Decode(m, wire.DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range v.([]any) {
			d := x.(msgpack.Map)
			i, _ := d.Get("n")
			got, _ := d.Get("value")
			var want any
			if next%7 == 0 {
				want = fmt.Sprint("v", next)
			}
			if b, ok := got.([]byte); ok {
				got = string(b)
			}
			if i != int64(next) || got != want {
				t.Fatalf("message %v has %v, want %d with %v", i, got, next, want)
			}
			next++
		}
		m.Release()
	}
	<-o.Done()
}

// What is said in one turn may be long: it leaves in pieces, in order, and their memory
// is used again only when they have left.
func TestWriterPieces(t *testing.T) {
	l, err := comm.Default.Listen(t.Context(), "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := comm.Default.Dial(t.Context(), l.ContactAddr(), comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer near.Abort()
	far, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Abort()
	o := NewWriter(near, WriterConfig{Limit: 64 << 20})
	o.Start()
	const turns, n, size = 5, 100, 3000
	go func() {
		for turn := range turns {
			for i := range n {
				b := o.Begin()
				b.Body = msgpack.AppendBytes(b.Body, bytes.Repeat([]byte{byte(turn*n + i)}, size))
			}
			if err := o.Flush(0); err != nil {
				t.Error(err)
			}
		}
		o.Finish()
	}()
	messages := 0
	for next := 0; next < turns*n; messages++ {
		m, err := far.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := len(m.Body()); got > mergeBytes+size+listHead {
			t.Errorf("a message of %d bytes", got)
		}
		v, err := wire.Decode(m, wire.DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range v.([]any) {
			if !bytes.Equal(x.([]byte), bytes.Repeat([]byte{byte(next)}, size)) {
				t.Fatalf("message %d is not what was said", next)
			}
			next++
		}
		m.Release()
	}
	if messages < turns*n*size/(mergeBytes+size) {
		t.Errorf("only %d messages", messages)
	}
	<-o.Done()
}

// A peer that does not read is dropped when too much waits for it, and holds up nobody.
func TestWriterFull(t *testing.T) {
	near, _ := pipe(t)
	o := NewWriter(near, WriterConfig{Limit: 10_000})
	o.Start()
	var err error
	for i := 0; err == nil && i < 10_000; i++ {
		b := o.Begin()
		b.Body = msgpack.AppendBytes(b.Body, make([]byte, 4000))
		err = o.Flush(0)
	}
	if !errors.Is(err, ErrSlowPeer) {
		t.Fatalf("got %v", err)
	}
	<-o.Done()
	if near.Err() == nil {
		t.Error("the comm is still open")
	}
	o.Begin()
	if err := o.Flush(0); err != nil {
		t.Errorf("what is said to a peer that has gone: %v", err)
	}
}

// What waits for the journal leaves when it is on disk, and never if it does not get there.
func TestWriterWaitsForCommit(t *testing.T) {
	near, far := pipe(t)
	committed := make(chan error)
	o := NewWriter(near, WriterConfig{Limit: 1 << 20, Commit: func(_ context.Context, position uint64) error {
		if position != 7 {
			t.Errorf("position %d", position)
		}
		return <-committed
	}})
	o.Start()
	say := func() {
		b := o.Begin()
		b.Body = msgpack.AppendNil(b.Body)
		if err := o.Flush(7); err != nil {
			t.Fatal(err)
		}
	}
	say()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := far.Read(ctx); err == nil {
		t.Fatal("it left before it was kept")
	}
	committed <- nil
	m, err := far.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.Release()
	say()
	committed <- errors.New("the disk is full")
	if _, err := far.Read(t.Context()); err == nil {
		t.Error("it left although it was not kept")
	}
	<-o.Done()
}

// readList returns the messages of the next batch.
func readList(t *testing.T, c comm.Comm) []any {
	t.Helper()
	m, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return v.([]any)
}

// Between two messages to a process of Python's lies an interval, in which more gathers; frames
// stay with their messages. Who is let go does not wait for it.
func TestWriterInterval(t *testing.T) {
	near, far := pipe(t)
	o := NewWriter(near, WriterConfig{Limit: 1 << 20, Interval: time.Hour})
	o.Start()
	const n = 20
	say := func(i int) {
		b := o.Begin()
		b.Serialized(value(t, fmt.Sprint("v", i)))
		if err := o.Flush(0); err != nil {
			t.Fatal(err)
		}
	}
	read := func() []any { return readList(t, far) }
	say(0) // after a pause: at once
	if got := read(); len(got) != 1 || string(got[0].([]byte)) != "v0" {
		t.Fatalf("first %v", got)
	}
	for i := 1; i < n; i++ {
		say(i)
	}
	o.Finish()
	got := read()
	if len(got) != n-1 {
		t.Fatalf("%d messages came at the end, want %d together", len(got), n-1)
	}
	for i, v := range got {
		if string(v.([]byte)) != fmt.Sprint("v", i+1) {
			t.Errorf("message %d has %q", i+1, v)
		}
	}
	<-o.Done()
}

// recorder is a comm that keeps what is written; writes wait for a token where there is a gate.
type recorder struct {
	comm.Comm
	local string
	gate  chan struct{}
	fails error

	mu      sync.Mutex
	written [][]any
	frames  [][]string
	ended   string
	done    chan struct{}
}

func newRecorder(local string) *recorder { return &recorder{local: local, done: make(chan struct{})} }

func (c *recorder) LocalAddr() string     { return c.local }
func (c *recorder) PeerAddr() string      { return "tcp://peer:1" }
func (c *recorder) Done() <-chan struct{} { return c.done }
func (c *recorder) Close() error          { c.end("closed"); return nil }
func (c *recorder) Abort()                { c.end("aborted") }

func (c *recorder) Err() error {
	select {
	case <-c.done:
		return comm.ErrClosed
	default:
		return nil
	}
}

func (c *recorder) end(how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == "" {
		c.ended = how
		close(c.done)
	}
}

func (c *recorder) Write(ctx context.Context, m *wire.Message) error {
	if c.gate != nil {
		select {
		case <-c.gate:
		case <-c.done:
			return comm.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	v, err := msgpack.Decode(m.Body())
	if err != nil {
		return err
	}
	var frames []string
	for _, f := range m.Frames[1:] {
		frames = append(frames, string(f.Bytes()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails != nil {
		return c.fails
	}
	c.written, c.frames = append(c.written, v.([]any)), append(c.frames, frames)
	return nil
}

func (c *recorder) state() (written [][]any, frames [][]string, ended string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written, c.frames, c.ended
}

// add begins a message that is a number.
func add(w *Writer, n int) {
	b := w.Begin()
	b.Body = msgpack.AppendInt(b.Body, int64(n))
}

// What is not urgent waits for more, but not for ever, and an urgent message takes it along.
func TestWriterLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRecorder("tcp://127.0.0.1:1")
		w := NewWriter(c, WriterConfig{Linger: time.Millisecond})
		w.Start()
		add(w, 1)
		if err := w.FlushLater(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if written, _, _ := c.state(); len(written) != 0 {
			t.Errorf("%v left at once", written)
		}
		time.Sleep(600 * time.Microsecond)
		add(w, 2)
		_ = w.FlushLater() // does not make the first wait longer
		time.Sleep(600 * time.Microsecond)
		synctest.Wait()
		if written, _, _ := c.state(); fmt.Sprint(written) != "[[1 2]]" {
			t.Errorf("after the time %v left, want both together", written)
		}
		add(w, 3)
		_ = w.FlushLater()
		add(w, 4)
		_ = w.Flush(0)
		synctest.Wait()
		if written, _, _ := c.state(); fmt.Sprint(written) != "[[1 2] [3 4]]" {
			t.Errorf("%v left; what is urgent does not wait", written)
		}
		add(w, 5)
		_ = w.FlushLater()
		if err := w.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if written, _, ended := c.state(); fmt.Sprint(written) != "[[1 2] [3 4] [5]]" || ended != "closed" {
			t.Errorf("%v left, and the comm is %s", written, ended)
		}
	})
}

// Small batches that wait become few, each of at most batchBytes, also behind one with frames, and the accounts are
// right at the end.
func TestWriterGathers(t *testing.T) {
	c := newRecorder("tcp://127.0.0.1:1")
	backlog := &Backlog{Limit: 1 << 20}
	w := NewWriter(c, WriterConfig{Linger: time.Hour, Backlog: backlog})
	const n = 60_000
	var want []any
	for i := range n {
		if i == n/2 {
			w.Add(msgpack.AppendInt(nil, int64(i)), []wire.Frame{wire.HeapFrame([]byte("frame"))})
		} else {
			add(w, i)
		}
		if err := w.FlushLater(); err != nil {
			t.Fatal(err)
		}
		want = append(want, int64(i))
	}
	var size int64
	for i, b := range w.queue {
		size += b.size()
		if len(b.Body) > batchBytes {
			t.Errorf("batch %d has %d bytes, want at most %d", i, len(b.Body), batchBytes)
		}
	}
	if len(w.queue) > 6 || w.bytes != size || backlog.Bytes() != w.bytes {
		t.Errorf("%d batches of %d bytes wait, %d counted, %d for all peers", len(w.queue), size, w.bytes,
			backlog.Bytes())
	}
	w.Start()
	if err := w.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	written, frames, _ := c.state()
	if got := slices.Concat(written...); !slices.Equal(got, want) {
		t.Errorf("%d of %d messages arrived, or not in order", len(got), n)
	}
	if got := slices.Concat(frames...); len(got) != 1 || got[0] != "frame" {
		t.Errorf("frames %q arrived, want one", got)
	}
	if w.bytes != 0 || backlog.Bytes() != 0 {
		t.Errorf("%d bytes still counted, %d for all peers, want 0", w.bytes, backlog.Bytes())
	}
}

// Messages with frames of their own keep them, whatever goes with them.
func TestWriterAdd(t *testing.T) {
	c := newRecorder("tcp://127.0.0.1:1")
	w := NewWriter(c, WriterConfig{})
	mark := func(index int) []byte {
		b, err := msgpack.Append(nil, msgpack.MapOf("__Serialized__", index))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	frame := func(text string) []wire.Frame { return []wire.Frame{wire.HeapFrame([]byte(text))} }
	add(w, 1)
	w.Add(mark(1), frame("a"))
	b := w.Begin()
	b.Serialized(value(t, "b"))
	w.Add(mark(1), frame("c"))
	w.Add(msgpack.AppendInt(nil, 7), nil)
	if err := w.Flush(0); err != nil {
		t.Fatal(err)
	}
	w.Start()
	if err := w.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	written, frames, _ := c.state()
	var order []string
	for i, list := range written {
		for _, x := range list {
			m, ok := x.(msgpack.Map)
			if !ok {
				order = append(order, fmt.Sprint(x))
				continue
			}
			index, _ := m.Get("__Serialized__")
			n := int(index.(int64)) - 1
			if n == 1 { // the value has a header before its data
				n++
			}
			order = append(order, frames[i][n])
		}
	}
	if fmt.Sprint(order) != "[1 a b c 7]" {
		t.Errorf("got %v of %v with %q", order, written, frames)
	}
}

// A peer that does not read is not waited for longer than the context of Shutdown.
func TestWriterShutdown(t *testing.T) {
	c := newRecorder("tcp://127.0.0.1:1")
	c.gate = make(chan struct{})
	w := NewWriter(c, WriterConfig{})
	w.Start()
	add(w, 1)
	_ = w.Flush(0)
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := w.Shutdown(ctx); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if written, _, ended := c.state(); len(written) != 0 || ended != "aborted" {
		t.Errorf("wrote %v, and the comm is %s", written, ended)
	}
	add(w, 2)
	if err := w.Flush(0); err != nil {
		t.Errorf("what is sent to a peer that has gone: %v", err)
	}
}

func TestWriterFails(t *testing.T) {
	c := newRecorder("tcp://127.0.0.1:1")
	c.fails = errors.New("broken")
	var all Backlog
	w := NewWriter(c, WriterConfig{Backlog: &all})
	w.Start()
	add(w, 1)
	_ = w.Flush(0)
	<-w.Done()
	if _, _, ended := c.state(); ended != "aborted" || all.Bytes() != 0 || all.peers.Load() != 0 {
		t.Errorf("the comm is %s; %d bytes wait for %d peers", ended, all.Bytes(), all.peers.Load())
	}
}

// Only transports that have copied a message when it is written give its memory back.
func TestWriterCopies(t *testing.T) {
	for local, want := range map[string]bool{"tcp://h:1": true, "tls://h:1": true, "inproc://1": false,
		"ucxx://h:1": false} {
		if got := NewWriter(newRecorder(local), WriterConfig{}).Copies(); got != want {
			t.Errorf("%s: got %v, want %v", local, got, want)
		}
	}
}

// Of all peers those are dropped for which no less waits than for others.
func TestBacklog(t *testing.T) {
	b := Backlog{Limit: 100}
	b.join(2)
	b.add(150)
	for own, want := range map[int64]bool{10: false, 74: false, 75: true, 140: true} {
		if got := b.over(own); got != want {
			t.Errorf("%d of 150 bytes: over is %v, want %v", own, got, want)
		}
	}
	b.add(-60)
	if b.over(90) {
		t.Error("it is over below its limit")
	}
	var none *Backlog
	if none.add(1); none.over(1 << 60) {
		t.Error("there is no limit")
	}
}
