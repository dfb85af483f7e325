//go:build cgo

package ucxmux

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

// newDoor is a worker with a mux, without a network.
func newDoor(t *testing.T) *Mux {
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

// listen gives the conns of a mux to a channel.
func listen(d *Mux) (Invitation, chan *Conn, func()) {
	conns := make(chan *Conn, 100)
	invitation, stop := d.Listen(func(l *Conn) { conns <- l })
	return invitation, conns, stop
}

// Lines carry bytes both ways, end on both sides, and are many; a process can have one with itself.
func TestLines(t *testing.T) {
	leak.Check(t)
	ctx := limited(t)
	a, b := newDoor(t), newDoor(t)
	invitation, conns, _ := listen(b)
	for _, from := range []*Mux{a, b} {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				out, err := from.Dial(ctx, invitation, "caller")
				if err != nil {
					t.Error(err)
					return
				}
				in := <-conns
				if in.Name() != "caller" {
					t.Errorf("the caller is %q", in.Name())
				}
				_, _ = in.Close(), out.Close()
			})
		}
		all.Wait()
	}
	out, err := a.Dial(ctx, invitation, "caller")
	if err != nil {
		t.Fatal(err)
	}
	in := <-conns
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

// A dialer with a wrong invitation, or whose listener is closed, gets no Conn.
func TestRefusals(t *testing.T) {
	leak.Check(t)
	ctx := limited(t)
	a, b := newDoor(t), newDoor(t)
	invitation, conns, stop := listen(b)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	guess := invitation
	guess.Secret = newSecret()
	if _, err := a.Dial(short, guess, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stranger: %v", err)
	}
	guess.Secret = "?"
	if _, err := a.Dial(ctx, guess, ""); err == nil || !strings.Contains(err.Error(), "secret") {
		t.Errorf("an invitation without a secret: %v", err)
	}
	l, err := a.Dial(ctx, invitation, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	<-conns
	stop()
	if _, err := a.Dial(ctx, invitation, ""); err == nil || !strings.Contains(err.Error(), "no listener") {
		t.Errorf("when nobody listens: %v", err)
	}
}

// A mux that is closed ends the conns of others, and what requests there.
func TestClosedDoor(t *testing.T) {
	leak.Check(t)
	ctx := limited(t)
	a, b := newDoor(t), newDoor(t)
	invitation, conns, _ := listen(b)
	l, err := a.Dial(ctx, invitation, "")
	if err != nil {
		t.Fatal(err)
	}
	<-conns
	b.Close()
	if _, err := l.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a conn with a closed mux: %v", err)
	}
	a.Close()
	if _, err := a.Dial(ctx, invitation, ""); !errors.Is(err, errPeerGone) {
		t.Errorf("from a closed mux: %v", err)
	}
}

// Whatever comes, the mux stands: messages of no conn, requests that are none, floods.
func TestHostileMessages(t *testing.T) {
	leak.Check(t)
	ctx := limited(t)
	a, b := newDoor(t), newDoor(t)
	invitation, conns, _ := listen(b)
	l, err := a.Dial(ctx, invitation, "")
	if err != nil {
		t.Fatal(err)
	}
	in := <-conns
	p := l.peer
	secret, _ := invitation.secret()
	knock := binary.LittleEndian.AppendUint64(append([]byte{kindConnect}, secret[:]...), 7)
	for _, header := range [][]byte{nil, {0}, {kindData}, {kindConnect},
		append([]byte{kindAccept}, make([]byte, 8)...), append([]byte{kindQuit},
			make([]byte, 8)...), append([]byte{kindEnd}, make([]byte, 8)...), knock} {
		for _, data := range [][]byte{nil, make([]byte, chunk), make([]byte, 20*chunk),
			[]byte(`{"millstream-ucx":1}`)} {
			if err := p.post(ctx, header, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	// More than anybody sends on a conn ends the conn, and nothing else.
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
			t.Fatal("a conn takes whatever comes")
		}
	}
	if n, err := io.Copy(io.Discard, in); err != nil || n > maxQueue+chunk {
		t.Errorf("%d bytes of a flood were kept: %v", n, err)
	}
	again, err := a.Dial(ctx, invitation, "")
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}
