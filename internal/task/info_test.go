package task

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

type closer func() error

func (c closer) Close() error { return c() }

// shared requests an object of a host that counts how often it is created and closed.
type sharedCount struct{ made, closed atomic.Int64 }

func (n *sharedCount) get(h *Host, key any, fail error) (any, error) {
	return h.Shared(key, func() (any, func() error, error) {
		return n.made.Add(1), func() error { n.closed.Add(1); return nil }, fail
	})
}

// One of many concurrent callers creates an object, and all receive it.
func TestSharedOnce(t *testing.T) {
	h, n := new(Host), new(sharedCount)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if v, err := n.get(h, i%2, nil); err != nil || v.(int64) > 2 {
				t.Errorf("got %v, %v, want the first or second thing", v, err)
			}
		})
	}
	wg.Wait()
	if got := n.made.Load(); got != 2 {
		t.Errorf("%d things of two keys were made, want 2", got)
	}
	one, _ := n.get(h, 0, nil)
	again, _ := n.get(h, 0, nil)
	other, _ := n.get(h, 1, nil)
	if one != again || one == other {
		t.Errorf("got %v, %v and %v, want the same twice and another", one, again, other)
	}
	if err := h.Close(); err != nil || n.closed.Load() != 2 {
		t.Errorf("Close: got %v and %d closed, want nil and 2", err, n.closed.Load())
	}
}

// An error is returned only to its caller; an object that was not created is not closed.
func TestSharedFails(t *testing.T) {
	h, n, why := new(Host), new(sharedCount), errors.New("no memory")
	for i := range 3 {
		if v, err := n.get(h, "k", why); v != nil || !errors.Is(err, why) {
			t.Errorf("attempt %d: got %v, %v, want %v", i, v, err, why)
		}
	}
	if v, err := n.get(h, "k", nil); v != int64(4) || err != nil {
		t.Errorf("after errors: got %v, %v, want the fourth thing", v, err)
	}
	if err := h.Close(); err != nil || n.closed.Load() != 1 {
		t.Errorf("Close: got %v and %d closed, want nil and 1", err, n.closed.Load())
	}
}

// Close closes the connections and all objects once, despite errors; it waits for an object that is being created.
func TestHostClose(t *testing.T) {
	peers, thing := errors.New("peers"), errors.New("thing")
	closed := 0
	h := &Host{Peers: closer(func() error { closed++; return peers })}
	for i := range 3 {
		_, err := h.Shared(i, func() (any, func() error, error) {
			if i == 0 {
				return i, nil, nil // nothing to close
			}
			return i, func() error { closed++; return fmt.Errorf("%d: %w", i, thing) }, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Close(); !errors.Is(err, peers) || !errors.Is(err, thing) || closed != 3 {
		t.Errorf("got %v and %d closed, want both errors and 3", err, closed)
	}
	if _, err := h.Shared(0, nil); !errors.Is(err, ErrHostClosed) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: got %v, want ErrHostClosed, which is net.ErrClosed", err)
	}

	h, n := new(Host), new(sharedCount)
	making, goOn := make(chan struct{}), make(chan struct{})
	got := make(chan error, 1)
	go func() {
		_, err := h.Shared("slow", func() (any, func() error, error) {
			close(making)
			<-goOn
			return 1, func() error { n.closed.Add(1); return nil }, nil
		})
		got <- err
	}()
	<-making
	ended := make(chan error, 1)
	go func() { ended <- h.Close() }()
	close(goOn)
	if err := errors.Join(<-got, <-ended); err != nil || n.closed.Load() != 1 {
		t.Errorf("got %v and %d closed, want nil and the one that was being made", err, n.closed.Load())
	}
}

// thread is a Thread whose methods return errors.
type thread struct{ secede, rejoin error }

func (t thread) Secede(context.Context) error { return t.secede }
func (t thread) Rejoin(context.Context) error { return t.rejoin }

// The functions of a task use the Info of its context.
func TestInfoOfContexts(t *testing.T) {
	no := errors.New("no")
	outer := WithInfo(t.Context(), &Info{Key: NewKey("outer"), Host: &Host{Name: "w"}})
	inner := WithInfo(outer, &Info{Key: NewKey("inner"), Host: &Host{Device: &Device{Ordinal: 3}},
		Thread: thread{secede: no}})
	for _, c := range []struct {
		what           string
		ctx            context.Context
		key            Key
		secede, rejoin error
		device         error
	}{
		{"none", t.Context(), "", ErrOutside, ErrOutside, ErrOutside},
		{"outer", outer, NewKey("outer"), ErrOutside, ErrOutside, ErrNoDevice},
		{"inner", inner, NewKey("inner"), no, nil, nil},
		{"without a host", WithInfo(outer, new(Info)), "", ErrOutside, ErrOutside, ErrOutside},
	} {
		d, err := CurrentDevice(c.ctx)
		if key, secede, rejoin := CurrentKey(c.ctx), Secede(c.ctx), Rejoin(c.ctx); key != c.key || secede != c.secede ||
			rejoin != c.rejoin || err != c.device {
			t.Errorf("%s: got key %v, Secede %v, Rejoin %v, device %v, want %v, %v, %v, %v", c.what, key, secede,
				rejoin,
				err, c.key, c.secede, c.rejoin, c.device)
		}
		if (err == nil) != (d != nil && d.Ordinal == 3) {
			t.Errorf("%s: got device %v, want number 3 or none", c.what, d)
		}
	}
}
