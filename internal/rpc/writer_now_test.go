package rpc

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// trying is a comm that has TryWrite, and counts the messages sent in each way.
type trying struct {
	comm.Comm
	refuse       atomic.Bool
	fail         error
	tried, wrote atomic.Int64
}

func (c *trying) LocalAddr() string { return "tcp://127.0.0.1:1" }

func (c *trying) Write(ctx context.Context, m *wire.Message) error {
	c.wrote.Add(1)
	return c.Comm.Write(ctx, &wire.Message{Frames: []wire.Frame{wire.HeapFrame(bytes.Clone(m.Body()))}})
}

func (c *trying) TryWrite(ctx context.Context, m *wire.Message) (bool, error) {
	if c.refuse.Load() {
		return false, nil
	}
	c.tried.Add(1)
	if c.fail != nil {
		return true, c.fail
	}
	return true, c.Comm.Write(ctx, &wire.Message{Frames: []wire.Frame{wire.HeapFrame(bytes.Clone(m.Body()))}})
}

// appendNumber adds a message with a number.
func appendNumber(w *Writer, n int) {
	b := w.Begin()
	b.Body = msgpack.AppendMapHeader(b.Body, 1)
	b.Body = msgpack.AppendInt(msgpack.AppendString(b.Body, "n"), int64(n))
}

// readNumbers returns the numbers of the next message.
func readNumbers(t *testing.T, c comm.Comm) (list []int64) {
	t.Helper()
	for _, x := range readList(t, c) {
		n, _ := x.(msgpack.Map).Get("n")
		list = append(list, n.(int64))
	}
	return list
}

// waitIdle waits until the goroutine of a writer has nothing to send.
func waitIdle(t *testing.T, w *Writer) {
	t.Helper()
	for !w.isIdle() {
		select {
		case <-w.Done():
			t.Fatal("the writer has ended")
		default:
		}
	}
}

// FlushNow sends in the goroutine of the owner if nothing is queued and the transport does not wait. The order is kept.
func TestFlushNow(t *testing.T) {
	near, far := pipe(t)
	c := &trying{Comm: near}
	w := NewWriter(c, WriterConfig{Commit: func(context.Context, uint64) error { return nil }})
	appendNumber(w, 0)
	if err := w.FlushNow(0); err != nil { // not started: it is queued
		t.Fatal(err)
	}
	w.Start()
	if got := readNumbers(t, far); !slices.Equal(got, []int64{0}) {
		t.Errorf("first message: got %v, want [0]", got)
	}
	waitIdle(t, w)
	for i, now := range []struct {
		refuse bool
		after  uint64
		tried  int64
	}{{false, 0, 1}, {true, 0, 1}, {false, 7, 1}, {false, 0, 2}} {
		c.refuse.Store(now.refuse)
		appendNumber(w, i+1)
		if err := w.FlushNow(now.after); err != nil {
			t.Fatal(err)
		}
		if got := readNumbers(t, far); !slices.Equal(got, []int64{int64(i + 1)}) {
			t.Errorf("message %d: got %v", i+1, got)
		}
		waitIdle(t, w)
		if got := c.tried.Load(); got != now.tried {
			t.Errorf("message %d: sent by the owner %d times, want %d", i+1, got, now.tried)
		}
	}
	if got := c.wrote.Load(); got != 3 {
		t.Errorf("sent by the goroutine %d times, want 3", got)
	}
	if err := w.FlushNow(0); err != nil || c.tried.Load() != 2 {
		t.Errorf("empty batch: sent %d, error %v, want none", c.tried.Load()-2, err)
	}
	w.Finish()
	<-w.Done()
}

// A comm that fails ends the writer.
func TestFlushNowFails(t *testing.T) {
	near, _ := pipe(t)
	c := &trying{Comm: near, fail: errors.New("broken")}
	w := NewWriter(c, WriterConfig{})
	w.Start()
	waitIdle(t, w)
	appendNumber(w, 1)
	if err := w.FlushNow(0); err != nil {
		t.Errorf("FlushNow: got %v, want nil: the end of the comm is the error", err)
	}
	<-w.Done()
	if near.Err() == nil {
		t.Error("the comm has not ended")
	}
}
