package data

import (
	"context"
	"errors"
	"testing"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/scheduler/internal/hosttest"
)

// A request waits for the response of the state to its number; a disconnected caller is not waited for.
func TestRequests(t *testing.T) {
	h := hosttest.New(t)
	var numbers []uint64
	r := NewRequests(h.Loop, func(state.Event) {})
	event := func(n uint64) (state.Event, error) {
		numbers = append(numbers, n)
		return &state.Tick{}, nil
	}
	type result struct {
		failed []task.Key
		err    error
	}
	ask := func(ctx context.Context) <-chan result {
		ch := make(chan result, 1)
		go func() { failed, err := r.Do(ctx, event); ch <- result{failed, err} }()
		return ch
	}
	a, b := ask(t.Context()), ask(t.Context())
	h.Until("both wait", func() bool { return len(r.pending) == 2 })
	keys := []task.Key{task.NewKey("x")}
	h.Do(func() {
		if numbers[0] == numbers[1] {
			t.Error("numbers of two requests: got equal ones")
		}
		r.Done(numbers[0], nil)
		r.Done(numbers[1], keys)
		r.Done(numbers[1], keys) // completed already
		keys[0] = "changed"      // the state reuses its lists
	})
	x, y := <-a, <-b
	if x.err != nil || y.err != nil || len(x.failed)+len(y.failed) != 1 ||
		append(x.failed, y.failed...)[0] != task.NewKey("x") {
		t.Errorf("got %+v and %+v, want x as failed once", x, y)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := ask(ctx)
	h.Until("one waits", func() bool { return len(r.pending) == 1 })
	cancel()
	if x := <-c; !errors.Is(x.err, context.Canceled) {
		t.Errorf("disconnected caller: got error %v, want context.Canceled", x.err)
	}
	no := errors.New("no")
	if _, err := r.Do(t.Context(), func(uint64) (state.Event, error) { return nil, no }); !errors.Is(err, no) {
		t.Errorf("got %v, want %v", err, no)
	}
	if failed, err := r.Do(t.Context(), func(uint64) (state.Event, error) { return nil, nil }); len(failed) != 0 ||
		err != nil {
		t.Errorf("request without an event: got %v, error %v, want none", failed, err)
	}
}

func TestCopies(t *testing.T) {
	for _, c := range []struct {
		in   any
		want int
	}{{nil, 1}, {false, 1}, {true, 5}, {int64(3), 3}, {int64(9), 5}, {int64(-2), 0}, {"all", 1}} {
		if got := copies(c.in, 5); got != c.want {
			t.Errorf("copies(%v, 5): got %d, want %d", c.in, got, c.want)
		}
	}
}
