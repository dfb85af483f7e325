//go:build cgo

package ucxdoor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/ucx"
)

// newDoor is a worker with a door, without a network.
func newDoor(t *testing.T) *Door {
	t.Helper()
	c, err := ucx.NewContext(ucx.Config{Options: map[string]string{"TLS": "self,sm"},
		Features: ucx.AllFeatures &^ ucx.Stream})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	w, err := c.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	d, err := Open(w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// listen gives the lines of a door to a channel.
func listen(d *Door) (Card, chan *Line, func()) {
	lines := make(chan *Line, 100)
	card, stop := d.Listen(func(l *Line) { lines <- l })
	return card, lines, stop
}

// Lines carry bytes both ways, end on both sides, and are many; a process can have one with itself.
func TestLines(t *testing.T) {
	leak.Check(t)
	ctx := limited(t)
	a, b := newDoor(t), newDoor(t)
	card, lines, _ := listen(b)
	for _, from := range []*Door{a, b} {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				out, err := from.Dial(ctx, card, "caller")
				if err != nil {
					t.Error(err)
					return
				}
				in := <-lines
				if in.Name() != "caller" {
					t.Errorf("the caller is %q", in.Name())
				}
				_, _ = in.Close(), out.Close()
			})
		}
		all.Wait()
	}
	out, err := a.Dial(ctx, card, "caller")
	if err != nil {
		t.Fatal(err)
	}
	in := <-lines
	x, y := out.Numbers()
	if p, q := in.Numbers(); p != y || q != x {
		t.Errorf("the ends have the numbers %x %x and %x %x", x, y, p, q)
	}
	want := bytes.Repeat([]byte("0123456789"), 1234)
	go func() {
		_, _ = out.Write(want)
		_ = out.Close()
	}()
	if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d arrived: %v", len(got), len(want), err)
	}
	if _, err := in.Write([]byte("x")); err == nil {
		// The pipe takes it until word of the end is here; then it does not.
		for err == nil {
			_, err = in.Write([]byte("x"))
		}
	}
	if err := in.SetDeadline(time.Now()); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

// Who has no right card, or knocks where nobody listens any more, gets no line.
func TestRefusals(t *testing.T) {
	leak.Check(t)
	ctx := limited(t)
	a, b := newDoor(t), newDoor(t)
	card, lines, stop := listen(b)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	guess := card
	guess.Secret = newSecret()
	if _, err := a.Dial(short, guess, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stranger: %v", err)
	}
	guess.Secret = "?"
	if _, err := a.Dial(ctx, guess, ""); err == nil || !strings.Contains(err.Error(), "secret") {
		t.Errorf("a card without a secret: %v", err)
	}
	l, err := a.Dial(ctx, card, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	<-lines
	stop()
	if _, err := a.Dial(ctx, card, ""); err == nil || !strings.Contains(err.Error(), "nobody listens") {
		t.Errorf("when nobody listens: %v", err)
	}
}

// A door that is closed ends the lines of others, and what knocks there.
func TestClosedDoor(t *testing.T) {
	leak.Check(t)
	ctx := limited(t)
	a, b := newDoor(t), newDoor(t)
	card, lines, _ := listen(b)
	l, err := a.Dial(ctx, card, "")
	if err != nil {
		t.Fatal(err)
	}
	<-lines
	b.Close()
	if _, err := l.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a line with a closed door: %v", err)
	}
	a.Close()
	if _, err := a.Dial(ctx, card, ""); !errors.Is(err, errPeerGone) {
		t.Errorf("from a closed door: %v", err)
	}
}

// Whatever comes, the door stands: messages of no line, knocks that are none, floods.
func TestHostileMessages(t *testing.T) {
	leak.Check(t)
	ctx := limited(t)
	a, b := newDoor(t), newDoor(t)
	card, lines, _ := listen(b)
	l, err := a.Dial(ctx, card, "")
	if err != nil {
		t.Fatal(err)
	}
	in := <-lines
	p := l.peer
	secret, _ := card.secret()
	knock := binary.LittleEndian.AppendUint64(append([]byte{kindKnock}, secret[:]...), 7)
	for _, header := range [][]byte{nil, {0}, {kindData}, {kindKnock},
		append([]byte{kindAccept}, make([]byte, 8)...), append([]byte{kindQuit},
			make([]byte, 8)...), append([]byte{kindEnd}, make([]byte, 8)...), knock} {
		for _, data := range [][]byte{nil, make([]byte, chunk), make([]byte, 20*chunk),
			[]byte(`{"millstream-ucx":1}`)} {
			if err := p.post(ctx, header, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	// More than anybody sends on a line ends the line, and nothing else.
	_, remote := l.Numbers()
	for range maxQueue/chunk + 10 {
		if err := p.send(ctx, kindData, remote, make([]byte, chunk)); err != nil {
			t.Fatal(err)
		}
	}
	for over := false; !over; time.Sleep(time.Millisecond) { // nobody reads before all is here
		in.mu.Lock()
		over = in.over
		in.mu.Unlock()
		if ctx.Err() != nil {
			t.Fatal("a line takes whatever comes")
		}
	}
	if n, err := io.Copy(io.Discard, in); err != nil || n > maxQueue+chunk {
		t.Errorf("%d bytes of a flood were kept: %v", n, err)
	}
	again, err := a.Dial(ctx, card, "")
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}
