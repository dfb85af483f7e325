package loop

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"
)

func TestTimeout(t *testing.T) {
	for _, c := range []struct {
		in      any
		want    time.Duration
		limited bool
		fails   bool
	}{
		{nil, 0, false, false},
		{int64(3), 3 * time.Second, true, false},
		{0.5, 500 * time.Millisecond, true, false},
		{-1.0, 0, true, false},
		{math.Inf(-1), 0, true, false},
		{"30 s", 30 * time.Second, true, false},
		{"2ms", 2 * time.Millisecond, true, false},
		{"soon", 0, true, true},
		{math.NaN(), 0, false, true},
		{true, 0, false, true},
		{[]any{}, 0, false, true},
	} {
		d, limited, err := Timeout(c.in)
		if (err != nil) != c.fails || err == nil && (d != c.want || limited != c.limited) {
			t.Errorf("Timeout(%v): got %v, %v, %v, want %v, %v, error %v", c.in, d, limited, err, c.want, c.limited,
				c.fails)
		}
	}
	for _, huge := range []any{math.Inf(1), 1e300, int64(math.MaxInt64)} {
		if d, limited, err := Timeout(huge); err != nil || !limited || d < 200*365*24*time.Hour {
			t.Errorf("Timeout(%v): got %v, %v, %v, want centuries", huge, d, limited, err)
		}
	}
}

// Await tries again each time that its signal is fired, until it succeeds.
func TestAwait(t *testing.T) {
	r := record(t, time.Hour)
	go r.Run()
	defer r.end(t)
	var s Signal
	value, tries := 0, 0
	type result struct {
		ok  bool
		err error
	}
	got := make(chan result, 1)
	started := make(chan struct{}, 16)
	go func() {
		ok, err := Await(context.Background(), r, nil, func() (<-chan struct{}, error) {
			tries++
			started <- struct{}{}
			if value == 3 {
				return nil, nil
			}
			return s.Wait(), nil
		})
		got <- result{ok, err}
	}()
	for i := 1; i <= 3; i++ {
		<-started
		if err := r.Do(t.Context(), func() { value = i; s.Fire() }); err != nil {
			t.Fatal(err)
		}
	}
	if x := <-got; !x.ok || x.err != nil {
		t.Errorf("Await: got %v, error %v, want true", x.ok, x.err)
	}
	if tries != 4 {
		t.Errorf("got %d tries, want 4", tries)
	}
}

func TestAwaitEnds(t *testing.T) {
	never := func() (<-chan struct{}, error) { return make(chan struct{}), nil }
	failure := errors.New("no")
	r := record(t, time.Hour)
	go r.Run()
	if ok, err := Await(t.Context(), r, 0.01, never); ok || err != nil {
		t.Errorf("a time that is over: got %v, %v, want false", ok, err)
	}
	if ok, err := Await(t.Context(), r, nil, func() (<-chan struct{}, error) { return nil, failure }); ok ||
		!errors.Is(err, failure) {
		t.Errorf("failing try: got %v, error %v", ok, err)
	}
	if ok, err := Await(t.Context(), r, "never", never); ok || err == nil {
		t.Errorf("invalid limit: got %v, error %v", ok, err)
	}
	if ok, err := Await(t.Context(), r, 0.0, func() (<-chan struct{}, error) { return nil, nil }); !ok || err != nil {
		t.Errorf("what is there at once, without time: got %v, %v, want true", ok, err)
	}
	cause := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	if ok, err := Await(ctx, r, nil, func() (<-chan struct{}, error) {
		cancel(cause)
		return make(chan struct{}),
			nil
	}); ok || !errors.Is(err, cause) {
		t.Errorf("canceled caller: got %v, error %v", ok, err)
	}
	waits, got := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		_, err := Await(context.Background(), r, nil, func() (<-chan struct{},
			error) {
			waits <- struct{}{}
			return never()
		})
		got <- err
	}()
	<-waits
	r.end(t)
	if err := <-got; !errors.Is(err, errOver) {
		t.Errorf("the end of the loop: got %v, want %v", err, errOver)
	}
}

// A signal wakes current waiters, and not later ones.
func TestSignal(t *testing.T) {
	var s Signal
	s.Fire() // no waiters
	a, b := s.Wait(), s.Wait()
	s.Fire()
	for _, ch := range []<-chan struct{}{a, b} {
		select {
		case <-ch:
		default:
			t.Error("waiter: not woken")
		}
	}
	select {
	case <-s.Wait():
		t.Error("later waiter: woken")
	default:
	}
}

// Ask returns the results of the function, and none after a panic.
func TestAsk(t *testing.T) {
	r := record(t, time.Hour)
	go r.Run()
	defer r.end(t)
	if v, err := Ask(t.Context(), r, func() (string, error) { return "x", errOver }); v != "x" ||
		!errors.Is(err, errOver) {
		t.Errorf("Ask: got %q, error %v", v, err)
	}
	if v, err := Ask(t.Context(), r, func() (string, error) { panic("x") }); v != "" || err == nil {
		t.Errorf("panic: got %q, error %v", v, err)
	}
}
