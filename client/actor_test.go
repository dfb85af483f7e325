package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/worker"
)

// ledger is an actor.
type ledger struct{ entries []int }

var (
	newLedger = client.NewActorType("ledger", func(_ context.Context, first int) (*ledger, error) {
		if first < 0 {
			return nil, errors.New("a ledger begins with a positive number")
		}
		return &ledger{[]int{first}}, nil
	})
	ledgerTotal = client.NewMethod0(newLedger, "total", func(_ context.Context, l *ledger) (int, error) {
		return total(l.entries), nil
	})
	ledgerAdd = client.NewMethod(newLedger, "add", func(_ context.Context, l *ledger, x int) (int, error) {
		l.entries = append(l.entries, x)
		return len(l.entries), nil
	})
	ledgerScale = client.NewMethod2(newLedger, "scale", func(_ context.Context, l *ledger, x, y int) ([]int, error) {
		if y == 0 {
			return nil, errors.New("division by zero")
		}
		var out []int
		for _, e := range l.entries {
			out = append(out, e*x/y)
		}
		return out, nil
	})
	ledgerText = client.NewMethod3(newLedger, "text", func(_ context.Context, l *ledger, before, between,
		after string) (string, error) {
		var parts []string
		for _, e := range l.entries {
			parts = append(parts, fmt.Sprint(e))
		}
		return before + strings.Join(parts, between) + after, nil
	})
	addByHandle = client.Func2("add-by-handle", func(ctx context.Context, h client.ActorHandle[*ledger],
		x int) (int, error) {
		a, err := h.Actor(ctx)
		if err != nil {
			return 0, err
		}
		defer a.Release()
		return ledgerAdd.Call(ctx, a, x)
	})
)

func TestActorMethods(t *testing.T) {
	r := newRig(t, "tcp://127.0.0.1:0", 2)
	a := newLedger.Start(r.ctx, r.c, client.Val(1))
	if err := a.Wait(r.ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if n := must[int](t)(ledgerAdd.Call(r.ctx, a, i+2)); n != i+2 {
			t.Errorf("the ledger has %d entries, want %d", n, i+2)
		}
	}
	if n := must[int](t)(ledgerTotal.Call(r.ctx, a)); n != 15 {
		t.Errorf("the total is %d, want 15", n)
	}
	if got := must[[]int](t)(ledgerScale.Call(r.ctx, a, 6, 2)); !slices.Equal(got, []int{3, 6, 9, 12, 15}) {
		t.Errorf("scaled to %v, want 3, 6, 9, 12, 15", got)
	}
	if got := must[string](t)(ledgerText.Call(r.ctx, a, "<", "|", ">")); got != "<1|2|3|4|5>" {
		t.Errorf("the text is %q, want <1|2|3|4|5>", got)
	}
	var te *client.TaskError
	if _, err := ledgerScale.Call(r.ctx, a, 1, 0); !errors.As(err, &te) || te.Text != "division by zero" {
		t.Errorf("the method's error is %v, want a TaskError with its text", err)
	}
	if n := must[int](t)(ledgerTotal.Call(r.ctx, a)); n != 15 {
		t.Errorf("the total is %d after a failed call, want 15", n)
	}
	// Other clients get the actor by its key; tasks receive its handle.
	other := r.connect()
	b := client.ActorOf[*ledger](other, a.Key())
	if n := must[int](t)(ledgerAdd.Call(r.ctx, b, 100)); n != 6 {
		t.Errorf("the ledger has %d entries, want 6", n)
	}
	b.Release()
	futures := addByHandle.Map(r.ctx, r.c, []client.ActorHandle[*ledger]{a.Handle(), a.Handle()}, []int{1000, 2000})
	if _, err := client.Gather(r.ctx, futures); err != nil {
		t.Fatal(err)
	}
	if n := must[int](t)(ledgerTotal.Call(r.ctx, a)); n != 3115 {
		t.Errorf("the total is %d, want 3115", n)
	}
}

func TestActorMistakes(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	bad := newLedger.Start(r.ctx, r.c, client.Val(-1))
	if _, err := ledgerTotal.Call(r.ctx, bad); err == nil || !strings.Contains(err.Error(), "positive") {
		t.Errorf("call of an actor that failed to start: got %v, want its error", err)
	}
	if err := bad.Wait(r.ctx); err == nil {
		t.Error("Wait of an actor that failed to start: got nil, want an error")
	}
	if _, err := (client.ActorHandle[*ledger]{Key: "x"}).Actor(r.ctx); err == nil {
		t.Error("Actor outside of a task: got nil, want an error")
	}
	a := newLedger.Start(r.ctx, r.c, client.Val(1))
	two := newLedger.Start(r.ctx, r.c, client.Val(1))
	if a.Key() == two.Key() {
		t.Errorf("two actors have the key %s", a.Key())
	}
	if _, err := client.PythonMethod[int]("no-such").Kw("x", 1).Call(r.ctx, a, 1); err == nil {
		t.Error("call of an unknown method: got nil, want an error")
	}
	if _, err := client.PythonMethod[int]("add").Call(r.ctx, a, make(chan int)); err == nil ||
		!strings.Contains(err.Error(), "argument 0 of method add") {
		t.Errorf("argument that cannot be encoded: got %v, want argument 0 of method add", err)
	}
	if _, err := client.PythonMethod[int]("add").Kw("y", make(chan int)).Call(r.ctx, a); err == nil ||
		!strings.Contains(err.Error(), "argument y of method add") {
		t.Errorf("keyword argument that cannot be encoded: got %v, want argument y of method add", err)
	}
}

// With NoDirect, method calls of actors and results go through the scheduler.
func TestNoDirect(t *testing.T) {
	r := newRig(t, "tcp://127.0.0.1:0", 1)
	c, err := client.Connect(r.ctx, r.scheduler.Address(), client.Config{Logger: quiet, NoDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a := newLedger.Start(r.ctx, c, client.Val(5))
	if n := must[int](t)(ledgerAdd.Call(r.ctx, a, 1)); n != 2 {
		t.Errorf("the ledger has %d entries, want 2", n)
	}
	if got := must[[]int](t)(client.Gather(r.ctx, inc.Map(r.ctx, c, []int{1, 2, 3}))); !slices.Equal(got,
		[]int{2, 3, 4}) {
		t.Errorf("results %v, want 2, 3, 4", got)
	}
	f, err := client.Scatter(r.ctx, c, []int{7}, client.ScatterOptions{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	if v := must[int](t)(inc.Submit(r.ctx, c, f[0]).Result(r.ctx)); v != 8 {
		t.Errorf("a task of scattered data: %d, want 8", v)
	}
	for _, x := range r.workers[0].Transfers() {
		if !x.Incoming && strings.Contains(x.Peer, c.ID()) {
			t.Errorf("got transfer %+v from the worker to the client, want none", x)
		}
	}
}

func TestScatterDirect(t *testing.T) {
	r := newRig(t, "tcp://127.0.0.1:0", 3)
	values := []int{10, 20, 30, 10, 40}
	futures, err := client.Scatter(r.ctx, r.c, values, client.ScatterOptions{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := must[[]int](t)(client.Gather(r.ctx, futures)); !slices.Equal(got, values) {
		t.Errorf("scattered %v, want %v", got, values)
	}
	if futures[0].Key() != futures[3].Key() || futures[0].Key() == futures[1].Key() {
		t.Errorf("keys %v, want one for equal values", []client.Key{futures[0].Key(), futures[1].Key(),
			futures[3].Key()})
	}
	has := must[map[client.Key][]string](t)(r.c.WhoHas(r.ctx, client.Futures(futures)...))
	on := map[string]bool{}
	for _, w := range has {
		if len(w) != 1 {
			t.Errorf("a value is on %v, want one worker", w)
		}
		on[w[0]] = true
	}
	if len(on) != 3 {
		t.Errorf("values are on %d workers, want 3", len(on))
	}
	// Scatter to workers given by name, and to all of them.
	named, err := client.Scatter(r.ctx, r.c, []string{"x"}, client.ScatterOptions{Direct: true, Workers: []string{"w1"},
		Unhashed: true})
	if err != nil {
		t.Fatal(err)
	}
	has = must[map[client.Key][]string](t)(r.c.WhoHas(r.ctx, named[0]))
	if w := has[named[0].Key()]; len(w) != 1 || w[0] != r.workers[1].Address() {
		t.Errorf("a value for w1 is on %v, want %s", w, r.workers[1].Address())
	}
	all, err := client.Scatter(r.ctx, r.c, []string{"y"}, client.ScatterOptions{Direct: true, Broadcast: true})
	if err != nil {
		t.Fatal(err)
	}
	has = must[map[client.Key][]string](t)(r.c.WhoHas(r.ctx, all[0]))
	if w := has[all[0].Key()]; len(w) != 3 {
		t.Errorf("a value for all is on %v, want three workers", w)
	}
	again, err := client.Scatter(r.ctx, r.c, []string{"x"}, client.ScatterOptions{Direct: true, Unhashed: true})
	if err != nil || again[0].Key() == named[0].Key() {
		t.Errorf("two values without a hash have the key %s, %v", again[0].Key(), err)
	}
}

func TestScatterMistakes(t *testing.T) {
	r := newRig(t, "inproc://", 0)
	if f, err := client.Scatter[int](r.ctx, r.c, nil, client.ScatterOptions{}); f != nil || err != nil {
		t.Errorf("Scatter without values: got %v, %v, want no futures", f, err)
	}
	if _, err := client.Scatter(r.ctx, r.c, []any{1, make(chan int)}, client.ScatterOptions{}); err == nil ||
		!strings.Contains(err.Error(), "value 1") {
		t.Errorf("value that cannot be encoded: got %v, want an error about value 1", err)
	}
	opts := client.ScatterOptions{Direct: true}
	for _, opts.Timeout = range []time.Duration{time.Nanosecond, 20 * time.Millisecond} {
		if _, err := client.Scatter(r.ctx, r.c, []int{1}, opts); err == nil ||
			!strings.Contains(err.Error(), "no worker") {
			t.Errorf("cluster without workers after %v: got %v, want an error about workers", opts.Timeout, err)
		}
	}
	r.addWorker(worker.Config{})
	opts.Workers = []string{"absent"}
	if _, err := client.Scatter(r.ctx, r.c, []int{1}, opts); err == nil || !strings.Contains(err.Error(), "no worker") {
		t.Errorf("unknown worker: got %v, want an error about workers", err)
	}
}
