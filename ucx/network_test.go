package ucx

import (
	"errors"
	"net"
	"strings"
	"testing"

	"go.millstream.dev/internal/testkit/leak"
)

func TestNetwork(t *testing.T) {
	leak.Check(t)
	ctx := testContext(t)
	var n, other Network
	defer other.Close()
	for round := range 2 { // a Network can be used again after Close
		l, err := n.Listen(ctx, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w, err := n.Worker()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := n.Worker(); again != w || err != nil {
			t.Errorf("got another worker %p, %v; want the one of Listen, %p", again, err, w)
		}
		a, err := other.Dial(ctx, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if b.Worker() != w {
			t.Error("the accepted endpoint is not on the worker of the Network")
		}
		go func() { _ = a.Send(ctx, Bytes([]byte{byte(round)}), 1) }()
		got := make([]byte, 1)
		if _, err := b.Recv(ctx, Bytes(got), 1, FullMask); err != nil || got[0] != byte(round) {
			t.Errorf("received %v, %v; want %d", got, err, round)
		}
		select {
		case <-l.Done():
			t.Error("Done of an open listener is closed")
		default:
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		<-l.Done()
		if _, err := l.Accept(ctx); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close: got %v, want net.ErrClosed", err)
		}
		<-a.Done()
	}
	if err := errors.Join(n.Close(), new(Network).Close()); err != nil {
		t.Errorf("Close of closed and of unused networks: %v", err)
	}
}

func TestListenerDone(t *testing.T) {
	n := &Network{}
	defer n.Close()
	l, err := n.Listen(testContext(t), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	<-l.Done()
	s, err := l.w.ListenSocket(testContext(t), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
		t.Error("Done of an open listener is closed")
	default:
	}
	if _, err := l.Next(testContext(t)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Next of a listener without requests: got %v, want errors.ErrUnsupported", err)
	}
	_ = s.Close()
	<-s.Done()
}

func TestNetworkFails(t *testing.T) {
	ctx := testContext(t)
	n := &Network{Config: Config{Options: map[string]string{"NO_SUCH_OPTION": "1"}}}
	if _, err := n.Dial(ctx, "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "NO_SUCH_OPTION") {
		t.Errorf("Dial: got %v, want an error that names the option", err)
	}
	var oe *OpError
	if _, err := n.Listen(ctx, "127.0.0.1:0"); !errors.As(err, &oe) || oe.Op != "listen" {
		t.Errorf("Listen: got %v, want an OpError of listen", err)
	}
	n.Config.Options = nil
	if _, err := n.Worker(); err != nil {
		t.Errorf("Worker after a failure that is gone: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// Goroutines that need the worker at the same time get one and the same, and a Close among them waits for it.
func TestNetworkWorkerOnce(t *testing.T) {
	n := &Network{}
	defer n.Close()
	workers := make(chan *Worker)
	for range 8 {
		go func() {
			w, err := n.Worker()
			if err != nil {
				t.Error(err)
			}
			workers <- w
		}()
	}
	first := <-workers
	for range 7 {
		if w := <-workers; w != first {
			t.Errorf("two workers of one network: %p and %p", first, w)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if w, err := n.Worker(); err != nil || w == first {
		t.Errorf("the worker after Close: %p, %v; the closed one was %p", w, err, first)
	}
}

// A worker that cannot be made is reported to each caller, and the next call tries again.
func TestNetworkWorkerFails(t *testing.T) {
	n := &Network{Config: Config{Options: map[string]string{"NO_SUCH_OPTION": "1"}}}
	errs := make(chan error)
	for range 4 {
		go func() {
			_, err := n.Worker()
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; err == nil {
			t.Error("a worker with an unknown option was made")
		}
	}
	n.Config.Options = nil
	if _, err := n.Worker(); err != nil {
		t.Error(err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
