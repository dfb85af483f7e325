package ucx

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.millstream.dev/ucx/internal/obs"
)

// An endpoint's Done and Err are its close callback: told once, with the reason, on the
// side that closes and on the other.
func TestDoneAndErr(t *testing.T) {
	for _, m := range meetings {
		t.Run(m.name, func(t *testing.T) {
			wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
			a, b := m.meet(t, wa, wb, "127.0.0.1:0", "")
			for _, ep := range []*Endpoint{a, b} {
				select {
				case <-ep.Done():
					t.Fatalf("%v is done before anyone closed: %v", ep, ep.Err())
				default:
				}
				if ep.Err() != nil {
					t.Errorf("error of a live endpoint: %v", ep.Err())
				}
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			<-a.Done()
			if a.Err() != nil {
				t.Errorf("this side closed in peace, and says %v", a.Err())
			}
			select {
			case <-b.Done():
			case <-time.After(20 * time.Second):
				t.Fatal("the other side was not told")
			}
			if err := b.Err(); !errors.Is(err, net.ErrClosed) || m.name == "lifeline" && !errors.Is(err, io.EOF) {
				t.Errorf("the other side says %v", err)
			}
			for range 2 {
				if err := b.Close(); err != nil {
					t.Errorf("close after the peer: %v", err)
				}
				if err := a.Close(); err != nil {
					t.Errorf("second close: %v", err)
				}
			}
		})
	}
}

// Events hear of every endpoint once when it opens and once when it ends.
func TestEndpointEvents(t *testing.T) {
	opened, closed := make(chan string, 8), make(chan error, 8)
	cfg := Config{Events: Events{}}
	cfg.Events.EndpointOpened = func(e obs.Endpoint) { opened <- e.Worker }
	cfg.Events.EndpointClosed = func(_ obs.Endpoint, err error) { closed <- err }
	ctx := testContext(t)
	wa, wb := newWorker(t, cfg, WorkerConfig{Name: "observed"}), newWorker(t, Config{}, WorkerConfig{})
	a, b := connectPair(t, ctx, wa, wb)
	if name := <-opened; name != "observed" {
		t.Errorf("opened on worker %q", name)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; !errors.Is(err, ErrPeerClosed) {
		t.Errorf("closed with %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if len(opened)+len(closed) != 0 {
		t.Errorf("told again: %d opened, %d closed", len(opened), len(closed))
	}
}

// Whoever waits hears at once that the other side has gone, whatever it waits for.
func TestShutdownEndsWaiting(t *testing.T) {
	for _, who := range []string{"peer closes", "peer's worker closes", "own endpoint closes", "own worker closes",
		"own endpoint closes by force", "peer closes by force"} {
		t.Run(who, func(t *testing.T) {
			ctx := testContext(t)
			a, b := pair(t, Config{}, WorkerConfig{})
			big := make([]byte, 4<<20)
			waits := map[string]func() error{
				"receive": func() error {
					_, err := b.Recv(ctx, Bytes(make([]byte, 8)), 1,
						FullMask)
					return err
				},
				"large receive": func() error {
					_, err := b.Recv(ctx, Bytes(make([]byte, 1<<20)), 2,
						FullMask)
					return err
				},
				"stream receive": func() error {
					_, err := b.RecvStream(ctx, Bytes(make([]byte, 8)),
						true)
					return err
				},
				"frames":     func() error { _, err := b.RecvFrames(ctx, Allocators{}); return err },
				"sync send":  func() error { return b.SendSync(ctx, Bytes([]byte("unmatched")), 3) },
				"large send": func() error { return b.Send(ctx, Bytes(big), 4) },
				"request":    func() error { return b.StartRecv(Bytes(make([]byte, 8)), 5, FullMask).Wait(ctx) },
			}
			type result struct {
				name string
				err  error
			}
			ended := make(chan result, len(waits))
			for name, f := range waits {
				go func() { ended <- result{name, f()} }()
			}
			time.Sleep(20 * time.Millisecond)
			if n := len(ended); n > 0 {
				r := <-ended
				t.Fatalf("%s ended before anyone closed: %v", r.name, r.err)
			}
			switch who {
			case "peer closes":
				short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				_ = a.Shutdown(short) // b's sends are not received: the deadline cuts them off
			case "peer's worker closes":
				_ = a.Worker().Close()
			case "own endpoint closes":
				short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				_ = b.Shutdown(short)
			case "own endpoint closes by force", "peer closes by force":
				ended, cancel := context.WithCancel(ctx)
				cancel()
				ep := b
				if who == "peer closes by force" {
					ep = a
				}
				_ = ep.Shutdown(ended) // waits for nothing
				select {
				case <-ep.Done():
				default:
					t.Errorf("%s: the endpoint is open after Shutdown with an ended context", who)
				}
			default:
				_ = b.Worker().Close()
			}
			for range len(waits) {
				if r := <-ended; r.err == nil || errors.Is(r.err, context.DeadlineExceeded) && ctx.Err() != nil {
					t.Errorf("%s: %v", r.name, r.err)
				}
			}
		})
	}
}

// A client that stops receiving after n messages simply closes: what was sent to it is
// not the sender's error, and what it sent has arrived.
func TestCloseAfterSomeReceives(t *testing.T) {
	ctx := testContext(t)
	for _, n := range []int{0, 1, 5} {
		a, b := pair(t, Config{}, WorkerConfig{})
		for i := range uint64(10) {
			if err := b.Send(ctx, Bytes([]byte{byte(i)}), i); err != nil {
				t.Fatal(err)
			}
		}
		for i := range uint64(n) {
			got := make([]byte, 1)
			if _, err := a.Recv(ctx, Bytes(got), i, FullMask); err != nil || got[0] != byte(i) {
				t.Fatalf("message %d: %d, %v", i, got[0], err)
			}
		}
		if err := a.Send(ctx, Bytes([]byte{byte(n)}), 100); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("close after %d of 10 messages: %v", n, err)
		}
		got := make([]byte, 1)
		if _, err := b.Worker().Recv(ctx, Bytes(got), 100, FullMask); err != nil || got[0] != byte(n) {
			t.Errorf("the last word after %d messages: %d, %v", n, got[0], err)
		}
	}
}
