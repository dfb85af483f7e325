package pyproc

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// A child is started once for all callers when it is first needed, and again after it has ended.
func TestSupervisor(t *testing.T) {
	ctx := testContext(t)
	exits := make(chan error, 10)
	s := NewSupervisor(SupervisorConfig{Config: echoConfig(t), Exited: func(err error) {
		exits <- err
	}, Backoff: time.Millisecond, MaxBackoff: 2 * time.Millisecond})
	defer s.Close()
	if s.Current() != nil {
		t.Error("a child was started before it was needed")
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
			t.Fatalf("children: got %v, want one", got)
		}
	}
	last := got[0]
	for range 2 {
		if _, err := last.Call(ctx, "exit", 3, nil); !errors.Is(err, ErrExited) {
			t.Fatal(err)
		}
		if err := <-exits; !errors.Is(err, ErrExited) {
			t.Errorf("Exited: got %v, want ErrExited", err)
		}
		p, err := s.Process(ctx)
		if err != nil || p == last {
			t.Fatalf("Process after the end: got the same child or %v", err)
		}
		last = p
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-last.Done()
	if _, err := s.Process(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: got %v, want ErrClosed", err)
	}
	if len(exits) != 0 {
		t.Error("Exited was called for Close")
	}
}

// A child whose end was detected is not returned, even before the supervisor has replaced it.
func TestSupervisorEnding(t *testing.T) {
	ctx := testContext(t)
	s := NewSupervisor(SupervisorConfig{Config: echoConfig(t), Backoff: time.Millisecond, MaxBackoff: time.Millisecond})
	defer s.Close()
	var last *Process
	for range 5 {
		p, err := s.Process(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if p == last {
			t.Fatal("got the child that has ended")
		}
		if _, err := p.Call(ctx, "exit", 3, nil); !errors.Is(err, ErrExited) {
			t.Fatal(err)
		}
		last = p
	}
}

// Waiting callers receive the error of a failed start, and the next call tries again.
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
		t.Errorf("got %v, want %v", err, bad)
	}
	if _, err := s.Process(ctx); err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	slow := NewSupervisor(SupervisorConfig{Config: echoConfig(t)})
	defer slow.Close()
	if _, err := slow.Process(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
}
