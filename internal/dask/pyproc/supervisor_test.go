package pyproc

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// A child is started at the first need, once for all who ask, and again after its death.
func TestSupervisor(t *testing.T) {
	ctx := testContext(t)
	exits := make(chan error, 10)
	s := NewSupervisor(SupervisorConfig{Config: echoConfig(t), Exited: func(err error) {
		exits <- err
	}, Backoff: time.Millisecond, MaxBackoff: 2 * time.Millisecond})
	defer s.Close()
	if s.Current() != nil {
		t.Error("it was started before it was needed")
	}
	var wg sync.WaitGroup
	got := make([]*Process, 4)
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = s.Process(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, p := range got {
		if p == nil || p != got[0] || p != s.Current() {
			t.Fatalf("children %v", got)
		}
	}
	last := got[0]
	for range 2 {
		if _, err := last.Call(ctx, "exit", 3, nil); !errors.Is(err, ErrExited) {
			t.Fatal(err)
		}
		if err := <-exits; !errors.Is(err, ErrExited) {
			t.Errorf("told %v", err)
		}
		p, err := s.Process(ctx)
		if err != nil || p == last {
			t.Fatalf("the same child, or %v", err)
		}
		last = p
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-last.Done()
	if _, err := s.Process(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if len(exits) != 0 {
		t.Error("the end by Close was told")
	}
}

// A start that fails is told to who waits, and is tried again for the next.
func TestSupervisorFails(t *testing.T) {
	ctx := testContext(t)
	bad := errors.New("not yet")
	n := 0
	s := NewSupervisor(SupervisorConfig{Config: echoConfig(t), Backoff: time.Millisecond,
		Setup: func(context.Context, *Process) error {
			if n++; n == 1 {
				return bad
			}
			return nil
		}})
	defer s.Close()
	if _, err := s.Process(ctx); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Process(ctx); err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	slow := NewSupervisor(SupervisorConfig{Config: echoConfig(t)})
	defer slow.Close()
	if _, err := slow.Process(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
