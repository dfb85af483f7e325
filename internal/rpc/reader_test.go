package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// script is a comm that has messages to read and then ends.
type script struct {
	comm.Comm
	messages []*wire.Message
	end      error
	reads    int
}

func (c *script) Read(context.Context) (*wire.Message, error) {
	if c.reads++; c.reads > len(c.messages) {
		return nil, c.end
	}
	return c.messages[c.reads-1], nil
}

// scripted returns a comm with n messages, whose bodies are the numbers from 0, and the numbers of those that have
// been released.
func scripted(n int, end error) (*script, *[]int) {
	c, released := &script{end: end}, new([]int)
	for i := range n {
		r := mem.NewRegion(mem.RegionConfig{Heap: []byte{byte(i)}, Free: func() { *released = append(*released, i) }})
		c.messages = append(c.messages, &wire.Message{Frames: []wire.Frame{wire.BufferFrame(r.Buffer())}})
	}
	return c, released
}

// owner is a ReaderConfig.Owner.
type owner chan struct{}

var errOwnerEnded = errors.New("owner ended")

func (o owner) Done() <-chan struct{} { return o }
func (o owner) ClosedError() error    { return errOwnerEnded }

func wantNumbers(t *testing.T, what string, got []int, n int) {
	t.Helper()
	want := make([]int, n)
	for i := range want {
		want[i] = i
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestReaderOrder(t *testing.T) {
	c, released := scripted(5, fmt.Errorf("gone: %w", comm.ErrClosed))
	r := NewReader(c, ReaderConfig{Credits: 1})
	var got []int
	err := r.Run(t.Context(), func(m *wire.Message) error {
		got = append(got, int(m.Body()[0]))
		r.Release(m)
		return nil
	})
	if err != c.end || !r.PeerClosed() {
		t.Errorf("ended with %v, closed by the peer %v, want %v and true", err, r.PeerClosed(), c.end)
	}
	wantNumbers(t, "delivered", got, 5)
	wantNumbers(t, "released", *released, 5)
}

// Beyond the credits the stream is not read, until a batch is given back or there is no use in waiting.
func TestReaderCredits(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(cancel context.CancelCauseFunc, o owner)
		want error
	}{
		"context": {func(cancel context.CancelCauseFunc, _ owner) { cancel(errors.ErrUnsupported) },
			errors.ErrUnsupported},
		"owner": {func(_ context.CancelCauseFunc, o owner) { close(o) }, errOwnerEnded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				script, released := scripted(10, comm.ErrClosed)
				o := make(owner)
				r := NewReader(script, ReaderConfig{Credits: 3, Owner: o})
				var out []*wire.Message
				ended := make(chan error, 1)
				go func() {
					ended <- r.Run(ctx, func(m *wire.Message) error { out = append(out, m); return nil })
				}()
				synctest.Wait()
				if len(out) != 3 || script.reads != 4 {
					t.Fatalf("%d batches are out after %d reads, want 3 after 4", len(out), script.reads)
				}
				first, second := out[0], out[1] // Run appends to out from the first credit on
				r.Release(first)
				r.Recycle(second)
				synctest.Wait()
				if len(out) != 5 || script.reads != 6 {
					t.Errorf("%d batches were out after %d reads, want 5 after 6", len(out), script.reads)
				}
				c.end(cancel, o)
				if err := <-ended; err != c.want || r.PeerClosed() {
					t.Errorf("ended with %v, closed by the peer %v, want %v and false", err, r.PeerClosed(), c.want)
				}
				if want := []int{0, 1, 5}; !slices.Equal(*released, want) {
					t.Errorf("released %v, want %v", *released, want)
				}
			})
		})
	}
}

// An error of deliver ends Run; that it may look like the end of the comm does not matter.
func TestReaderDeliverFails(t *testing.T) {
	c, _ := scripted(3, comm.ErrClosed)
	r := NewReader(c, ReaderConfig{})
	err := r.Run(t.Context(), func(m *wire.Message) error {
		r.Release(m)
		return comm.ErrClosed
	})
	if err != comm.ErrClosed || r.PeerClosed() || c.reads != 1 {
		t.Errorf("ended with %v after %d reads, closed by the peer %v, want %v after 1 and false", err, c.reads,
			r.PeerClosed(), comm.ErrClosed)
	}
}

func TestReaderWithoutBody(t *testing.T) {
	r := NewReader(&script{messages: []*wire.Message{{}}}, ReaderConfig{})
	if err := r.Run(t.Context(), func(*wire.Message) error {
		t.Error("a message without a body was delivered")
		return nil
	}); err == nil || r.PeerClosed() {
		t.Errorf("ended with %v, closed by the peer %v, want an error and false", err, r.PeerClosed())
	}
}

// What was read ahead is delivered in its place, and released if it is not.
func TestReaderAhead(t *testing.T) {
	for _, c := range []struct{ limit, first, second, reads, delivered int }{
		{limit: 100, first: 5, second: 4, reads: 7, delivered: 6},
		{limit: 2, first: 2, second: 2, reads: 4, delivered: 3},
		{limit: 100, first: 5, second: 4, reads: 7, delivered: 2},
	} {
		s, released := scripted(6, comm.ErrClosed)
		r := NewReader(s, ReaderConfig{})
		var got, seen []int
		ahead := func() {
			seen = nil
			r.Ahead(t.Context(), c.limit, func(m *wire.Message) { seen = append(seen, int(m.Body()[0])) })
		}
		stop := errors.New("stop")
		err := r.Run(t.Context(), func(m *wire.Message) error {
			got = append(got, int(m.Body()[0]))
			r.Release(m)
			switch len(got) {
			case 1:
				ahead()
				if len(seen) != c.first || seen[0] != 1 {
					t.Errorf("%+v: after the first batch %v are seen, want %d from 1", c, seen, c.first)
				}
			case 2:
				ahead()
				if len(seen) != c.second || seen[0] != 2 || s.reads != c.reads {
					t.Errorf("%+v: after the second batch %v are seen and %d read, want %d from 2", c, seen, s.reads,
						c.second)
				}
			}
			if len(got) == c.delivered {
				return stop
			}
			return nil
		})
		if err != stop {
			t.Errorf("%+v: ended with %v, want %v", c, err, stop)
		}
		wantNumbers(t, "delivered", got, c.delivered)
		wantNumbers(t, "released", *released, max(c.delivered, min(c.reads, 6)))
	}
	// The end that was read ahead ends Run, behind what came before it.
	s, _ := scripted(3, comm.ErrClosed)
	r := NewReader(s, ReaderConfig{})
	n := 0
	err := r.Run(t.Context(), func(m *wire.Message) error {
		n++
		r.Release(m)
		r.Ahead(t.Context(), 100, func(*wire.Message) {})
		return nil
	})
	if err != comm.ErrClosed || !r.PeerClosed() || n != 3 || s.reads != 4 {
		t.Errorf("%d batches and %v after %d reads, want 3 and %v after 4", n, err, s.reads, comm.ErrClosed)
	}
}

// A batch costs no memory.
func TestReaderAllocatesNothing(t *testing.T) {
	const n = 1000
	body := []wire.Frame{wire.HeapFrame([]byte{0x90})}
	m := &wire.Message{Frames: body}
	c := &script{end: comm.ErrClosed, messages: slices.Repeat([]*wire.Message{m}, n)}
	r := NewReader(c, ReaderConfig{Credits: 2})
	allocs := testing.AllocsPerRun(5, func() {
		c.reads = 0
		_ = r.Run(t.Context(), func(*wire.Message) error {
			r.giveBack()
			return nil
		})
	})
	if allocs > 2 { // of the run itself
		t.Errorf("%v allocations for %d batches, want none", allocs, n)
	}
}

// FuzzReader reads messages of whatever frames: each is delivered once, or ends the stream with an error.
func FuzzReader(f *testing.F) {
	batch := func(v any) []byte {
		b, err := msgpack.Append(nil, v)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	f.Add(batch([]any{msgpack.MapOf("op", "keep-alive"), msgpack.MapOf("op", "close-stream", "reason", "x")}),
		batch(msgpack.MapOf("op", "task-finished", "key", "k", "run_id", 1)), uint8(3), uint8(1))
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}, []byte(nil), uint8(0), uint8(2))
	f.Fuzz(func(t *testing.T, a, b []byte, shape, credits uint8) {
		messages := []*wire.Message{{Frames: []wire.Frame{wire.HeapFrame(a)}}, {Frames: []wire.Frame{wire.HeapFrame(b),
			wire.HeapFrame(a)}}, {}}
		c := &script{end: comm.ErrClosed}
		for i := range 4 {
			c.messages = append(c.messages, messages[int(shape>>(2*i)&3)%3])
		}
		r := NewReader(c, ReaderConfig{Credits: int(credits % 4)})
		delivered := 0
		err := r.Run(t.Context(), func(m *wire.Message) error {
			delivered++
			if delivered == 1 && credits > 128 {
				r.Ahead(t.Context(), int(credits%3), func(m *wire.Message) {
					for ops := message.OpsOf(m); ops.Next(); {
					}
				})
			}
			defer r.giveBack()
			ops := message.OpsOf(m)
			for ops.Next() {
				var f message.TaskFinished
				if string(ops.Op()) == "task-finished" && f.Read(&ops) != nil && ops.Next() {
					t.Fatal("the walk goes on after an error")
				}
			}
			return ops.Err()
		})
		if err == nil || r.PeerClosed() != (err == comm.ErrClosed) || r.PeerClosed() && delivered != 4 {
			t.Fatalf("ended with %v after %d batches, closed by the peer %v", err, delivered, r.PeerClosed())
		}
	})
}
