package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/wire"
)

// TestInboxModel: any sequence of messages, receives and receives that are taken back is what a queue for each channel
// makes of it; nothing is counted as unasked in the end, and no channel is kept.
func TestInboxModel(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := &inbox{from: 2}
		arrived := map[uint64][]string{} // the model
		waiting := map[uint64][]*recvOp{}
		bufs := map[*recvOp][]byte{}
		next, released, put := 0, 0, 0
		ended := func(op *recvOp) bool {
			select {
			case <-op.done:
				return true
			default:
				return false
			}
		}
		for range 60 {
			ch := uint64(rng.IntN(3))
			switch rng.IntN(3) {
			case 0: // a message
				text := fmt.Sprintf("message %d", next)
				next++
				put++
				if err := b.put(ch, []byte(text), func() { released++ }); err != nil {
					t.Fatal(err)
				}
				if list := waiting[ch]; len(list) > 0 {
					op := list[0]
					waiting[ch] = list[1:]
					if !ended(op) || op.err != nil || string(bufs[op][:op.n]) != text {
						t.Fatalf("seed %d: the first receive has %q, want %q", seed, bufs[op][:op.n], text)
					}
				} else {
					arrived[ch] = append(arrived[ch], text)
				}
			case 1: // a receive
				buf := make([]byte, 64)
				op := b.start(ch, buf)
				bufs[op] = buf
				if list := arrived[ch]; len(list) > 0 {
					arrived[ch] = list[1:]
					if !ended(op) || op.err != nil || string(buf[:op.n]) != list[0] {
						t.Fatalf("seed %d: received %q, want %q", seed, buf[:op.n], list[0])
					}
				} else if waiting[ch] = append(waiting[ch], op); ended(op) {
					t.Fatalf("seed %d: received nothing at once", seed)
				}
			case 2: // one is taken back
				if list := waiting[ch]; len(list) > 0 {
					i := rng.IntN(len(list))
					if _, err := list[i].Wait(Ended); !errors.Is(err, context.Canceled) {
						t.Fatalf("seed %d: taken back with %v", seed, err)
					}
					waiting[ch] = append(list[:i:i], list[i+1:]...)
				}
			}
			bytes, dups := 0, 0
			for c := range uint64(3) {
				for _, text := range arrived[c] {
					bytes += len(text)
				}
				if len(arrived[c])+len(waiting[c]) > 0 {
					dups++
				}
			}
			if b.unreceived != bytes || len(b.chans) != dups {
				t.Fatalf("seed %d: %d bytes in %d channels, want %d in %d", seed, b.unreceived, len(b.chans),
					bytes, dups)
			}
		}
		// The end: what has arrived can be received, the rest fails.
		over := errors.New("over")
		b.fail(over)
		b.fail(errors.New("the second does not count"))
		for ch, list := range waiting {
			for _, op := range list {
				if _, err := op.Wait(context.Background()); err != over {
					t.Errorf("seed %d: waiting receive: %v, want %v", seed, err, over)
				}
			}
			buf := make([]byte, 64)
			for _, text := range arrived[ch] {
				if n, err := b.start(ch, buf).Wait(context.Background()); err != nil || string(buf[:n]) != text {
					t.Errorf("seed %d: %q after the end, want %q: %v", seed, buf[:n], text, err)
				}
			}
			arrived[ch] = nil
			if _, err := b.start(ch, buf).Wait(context.Background()); err != over {
				t.Errorf("seed %d: receive after the end: %v, want %v", seed, err, over)
			}
		}
		b.clear()
		if released != put {
			t.Errorf("seed %d: %d of %d messages were given back", seed, released, put)
		}
	}
}

// heldComm is a connection whose writes wait until they are let go, or fail.
type heldComm struct {
	comm.Comm
	mu      sync.Mutex
	written [][]byte
	started chan struct{}
	let     chan error
	aborted chan struct{}
	once    sync.Once
}

func newHeldComm() *heldComm {
	return &heldComm{started: make(chan struct{}, 100), let: make(chan error, 100), aborted: make(chan struct{})}
}

func (c *heldComm) Abort() { c.once.Do(func() { close(c.aborted) }) }

func (c *heldComm) Write(ctx context.Context, m *wire.Message) error {
	c.started <- struct{}{}
	select {
	case err := <-c.let:
		if err == nil {
			c.mu.Lock()
			c.written = append(c.written, append([]byte(nil), m.Frames[1].Bytes()...))
			c.mu.Unlock()
		}
		return err
	case <-c.aborted:
		return errors.New("aborted")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestOutbox: messages are written one after the other, those that wait can be taken back, one that is being written
// continues; after leaving or a failure nothing is written.
func TestOutbox(t *testing.T) {
	ctx := testContext(t)
	c := newHeldComm()
	o := newOutbox(c, true)
	text := []byte("first")
	first := o.start(msgData, 1, text)
	<-c.started // it is being written, the others wait
	second, third := o.start(msgData, 1, []byte("second")), o.start(msgData, 2, []byte("third"))
	if n, err := second.Wait(Ended); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("taken back: %d, %v", n, err)
	}
	if o.withdraw(second) || o.withdraw(first) {
		t.Error("a message that does not wait is taken back")
	}
	text[0] = 'F' // a shared comm has a copy
	c.let <- nil
	if n, err := first.Wait(Ended); n != 5 || err != nil { // it was on its way
		t.Errorf("first: %d, %v", n, err)
	}
	c.let <- nil
	if n, err := third.Wait(ctx); n != 5 || err != nil {
		t.Errorf("third: %d, %v", n, err)
	}
	bye := o.start(msgLeave, 0, nil)
	late := o.start(msgData, 1, []byte("late"))
	if _, err := late.Wait(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("after leaving: got %v, want %v", err, ErrClosed)
	}
	c.let <- nil
	if _, err := bye.Wait(ctx); err != nil {
		t.Error(err)
	}
	<-o.done
	if got := fmt.Sprintf("%q", c.written); got != `["first" "third" ""]` {
		t.Errorf("written %s", got)
	}
	o.cancel()
}

// TestOutboxFails: a write that fails ends what waits behind it and all that comes; a write that does not end after its
// context has ended loses the connection.
func TestOutboxFails(t *testing.T) {
	ctx := testContext(t)
	broken := errors.New("broken pipe")
	c := newHeldComm()
	o := newOutbox(c, false)
	first, second := o.start(msgData, 1, []byte("a")), o.start(msgData, 1, []byte("b"))
	c.let <- broken
	for i, op := range []*sendOp{first, second, o.start(msgData, 1, nil)} {
		if _, err := op.Wait(ctx); err != broken {
			t.Errorf("message %d: %v, want %v", i, err, broken)
		}
	}
	<-o.done
	o.cancel()

	c = newHeldComm()
	o = newOutbox(c, false)
	stuck := o.start(msgData, 1, []byte("a"))
	<-c.started
	why := errors.New("no patience")
	impatient, cancel := context.WithCancelCause(ctx)
	cancel(why)
	if n, err := stuck.Wait(impatient); n != 0 || err != why {
		t.Errorf("a message that is stuck: %d, %v, want %v", n, err, why)
	}
	<-c.aborted
	<-o.done
	o.cancel()

	c = newHeldComm()
	o = newOutbox(c, false)
	waiting := o.start(msgData, 1, []byte("a"))
	<-c.started
	o.cancel()
	if _, err := waiting.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("message of a canceled outbox: %v", err)
	}
	<-o.done
}

// TestStrangers checks that an invalid message is the loss of its sender, with the reason, and that one of many aborts
// is reported.
func TestStrangers(t *testing.T) {
	head := func(kind byte) wire.Frame {
		var h [9]byte
		putHead(&h, kind, 3)
		return wire.HeapFrame(h[:])
	}
	abort := wire.HeapFrame(appendAbort(&RankError{Rank: 0, Reason: "why"}))
	for _, c := range []struct {
		name   string
		frames []wire.Frame
		want   string
	}{
		{"one frame", []wire.Frame{head(msgData)}, "not a group message"},
		{"three frames", []wire.Frame{head(msgData), abort, abort}, "not a group message"},
		{"no head", []wire.Frame{abort, abort}, "not a group message"},
		{"bad abort", []wire.Frame{head(msgAbort), wire.HeapFrame([]byte{9, 0, 0, 0})}, "abort for rank 9 of 2"},
		{"abort", []wire.Frame{head(msgAbort), abort}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			ts := meshes(ctx, t, "inproc", 2)
			raw := ts[1].(*mesh).comms[0]
			for range 3 {
				if err := raw.Write(ctx, &wire.Message{Frames: c.frames}); err != nil && c.want == "" {
					t.Fatal(err)
				}
			}
			e := <-ts[0].Failures()
			if c.want == "" && (e.Rank != 0 || e.Reason != "why") || c.want != "" && (e.Rank != 1 || Left(e) ||
				!strings.Contains(e.Reason, c.want)) {
				t.Errorf("got failure %+v, want %q", e, c.want)
			}
		})
	}
}

// TestErrorTexts: an error names its rank, by its name if it has one, and its cause.
func TestErrorTexts(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		e    *RankError
		want string
	}{
		{&RankError{Rank: 3, Reason: "gone", Err: cause}, "collective: rank 3: gone"},
		{&RankError{Rank: 3, Name: "tcp://a:1", Reason: "gone", Err: cause}, "collective: rank 3 (tcp://a:1): gone"},
	} {
		if c.e.Error() != c.want || !errors.Is(c.e, cause) || Left(c.e) {
			t.Errorf("%q, want %q", c.e, c.want)
		}
	}
	if e := LeftError(2); e.Rank != 2 || !Left(e) || e.Error() != "collective: rank 2: has left the group" {
		t.Errorf("%+v", e)
	}
}
