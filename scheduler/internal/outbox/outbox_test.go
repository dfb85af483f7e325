package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
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
func TestOutboxOrder(t *testing.T) {
	near, far := pipe(t)
	o := New(near, 1<<20, nil)
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
	<-o.Done
}

// What is said in one turn may be long: it leaves in pieces, in order, and their memory
// is used again only when they have left.
func TestOutboxPieces(t *testing.T) {
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
	o := New(near, 64<<20, nil)
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
	<-o.Done
}

// A peer that does not read is dropped when too much waits for it, and holds up nobody.
func TestOutboxFull(t *testing.T) {
	near, _ := pipe(t)
	o := New(near, 10_000, nil)
	o.Start()
	var err error
	for i := 0; err == nil && i < 10_000; i++ {
		b := o.Begin()
		b.Body = msgpack.AppendBytes(b.Body, make([]byte, 4000))
		err = o.Flush(0)
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("got %v", err)
	}
	<-o.Done
	if near.Err() == nil {
		t.Error("the comm is still open")
	}
	o.Begin()
	if err := o.Flush(0); err != nil {
		t.Errorf("what is said to a peer that has gone: %v", err)
	}
}

// What waits for the journal leaves when it is on disk, and never if it does not get there.
func TestOutboxWaitsForCommit(t *testing.T) {
	near, far := pipe(t)
	committed := make(chan error)
	o := New(near, 1<<20, func(_ context.Context, position uint64) error {
		if position != 7 {
			t.Errorf("position %d", position)
		}
		return <-committed
	})
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
	<-o.Done
}

// Between two messages to a process of Python's lies an interval, in which more gathers; frames
// stay with their messages. Who is let go does not wait for it.
func TestOutboxInterval(t *testing.T) {
	near, far := pipe(t)
	o := New(near, 1<<20, nil)
	o.Interval = time.Hour
	o.Start()
	const n = 20
	say := func(i int) {
		b := o.Begin()
		b.Serialized(value(t, fmt.Sprint("v", i)))
		if err := o.Flush(0); err != nil {
			t.Fatal(err)
		}
	}
	read := func() []any {
		m, err := far.Read(t.Context())
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
	<-o.Done
}
