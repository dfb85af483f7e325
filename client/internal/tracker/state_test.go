package tracker

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

func k(name string) task.Key { return task.NewKey(name) }

// submit submits a call with a key.
func submit(t testing.TB, c *Tracker, name string, deps ...task.Key) *State {
	t.Helper()
	s, err := c.Submit(k(name), []byte("spec-"+name), deps, &taskgraph.Annotations{}, Options{FIFO: "1s"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sent decodes the message of Take.
func sent(t testing.TB, c *Tracker) []wire.Dict {
	t.Helper()
	_, m := c.Take()
	if m == nil {
		return nil
	}
	v, err := wire.Decode(m, wire.DecodeOptions{Keep: true, KeepPickled: true})
	if err != nil {
		t.Fatal(err)
	}
	var out []wire.Dict
	for _, x := range v.([]any) {
		out = append(out, x.(wire.Dict))
	}
	return out
}

// opsOf returns the ops of messages.
func opsOf(messages []wire.Dict) []string {
	out := []string{}
	for _, d := range messages {
		out = append(out, d.GetString("op"))
	}
	return out
}

func wantOps(t testing.TB, got []wire.Dict, want ...string) {
	t.Helper()
	ops := opsOf(got)
	if len(ops) != len(want) {
		t.Fatalf("sent %v, want %v", ops, want)
	}
	for i := range want {
		if ops[i] != want[i] {
			t.Fatalf("sent %v, want %v", ops, want)
		}
	}
}

// keyList returns the keys of a message as text.
func keyList(t testing.TB, d wire.Dict) []string {
	t.Helper()
	v, _ := d.Get("keys")
	list, ok := v.([]any)
	if !ok {
		t.Fatalf("keys are a %T, want a list", v)
	}
	var out []string
	for _, x := range list {
		out = append(out, x.(string))
	}
	return out
}

func receive(t testing.TB, c *Tracker, v ...any) {
	t.Helper()
	if err := c.Receive(encoded(t, v)); err != nil {
		t.Fatal(err)
	}
}

func wantStatus(t testing.TB, c *Tracker, s *State, want Status) {
	t.Helper()
	if got := c.Status(s); got != want {
		t.Errorf("key %s has status %d, want %d", s.Key(), got, want)
	}
}

func TestLastReleaseIsSent(t *testing.T) {
	c := empty(t)
	a := submit(t, c, "a")
	h1, h2 := NewHandle(a), NewHandle(a)
	c.Share(a)
	wantOps(t, sent(t, c), "update-graph")
	c.Release(h1)
	c.Release(h1) // a second call has no effect
	if got := sent(t, c); got != nil {
		t.Fatalf("sent %v while a future holds the key", opsOf(got))
	}
	wantStatus(t, c, a, Pending)
	if !c.Released(h1) || c.Released(h2) {
		t.Errorf("released: %v, %v, want true, false", c.Released(h1), c.Released(h2))
	}
	c.Release(h2)
	m := sent(t, c)
	wantOps(t, m, "client-releases-keys")
	if got := keyList(t, m[0]); len(got) != 1 || got[0] != "a" || m[0].GetString("client") != "C" {
		t.Errorf("released %v of %s, want [a] of C", got, m[0].GetString("client"))
	}
	wantStatus(t, c, a, Canceled)
	if err := c.KeyErr(a); !errors.Is(err, ErrReleased) || !errors.Is(err, ErrCanceled) {
		t.Errorf("the error is %v, want ErrReleased and ErrCanceled", err)
	}
	if s := submit(t, c, "a"); s == a {
		t.Error("released key has its old state, want a new one")
	}
}

func TestReleaseKeepsResult(t *testing.T) {
	c := empty(t)
	a := submit(t, c, "a")
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"w"}))
	c.Release(NewHandle(a))
	wantStatus(t, c, a, Finished) // the status stays available
	if err := c.KeyErr(a); err != nil {
		t.Errorf("a key that had ended has error %v", err)
	}
}

func TestReleasesTravelTogether(t *testing.T) {
	c := empty(t)
	hs := make([]Handle, 4)
	states, err := c.Hold([]task.Key{k("a"), k("b"), k("c")})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range states {
		hs[i].s = s
	}
	c.ReleaseSlab(hs) // the last has no key
	m := sent(t, c)
	wantOps(t, m, "client-releases-keys")
	if got := keyList(t, m[0]); len(got) != 3 {
		t.Errorf("released %v, want three keys", got)
	}
	states, err = c.Hold([]task.Key{k("a"), k("b")})
	if err != nil {
		t.Fatal(err)
	}
	c.ReleaseAll([]*Handle{NewHandle(states[0]), NewHandle(states[1])})
	m = sent(t, c)
	wantOps(t, m, "client-releases-keys")
	if got := keyList(t, m[0]); len(got) != 2 {
		t.Errorf("released %v, want two keys", got)
	}
}

// A key that is released and submitted again must not be released in the end.
func TestReleaseBeforeSubmit(t *testing.T) {
	c := empty(t)
	c.Release(NewHandle(submit(t, c, "a")))
	submit(t, c, "a")
	m := sent(t, c)
	wantOps(t, m, "update-graph", "client-releases-keys", "update-graph")
	if _, err := c.Desire(k("x")); err != nil {
		t.Fatal(err)
	}
	states, err := c.Hold([]task.Key{k("y")})
	if err != nil {
		t.Fatal(err)
	}
	c.Release(NewHandle(states[0]))
	if err := c.Queue(&message.HeartbeatClient{}); err != nil {
		t.Fatal(err)
	}
	wantOps(t, sent(t, c), "client-desires-keys", "client-releases-keys", "heartbeat-client")
}

func TestDesireOnce(t *testing.T) {
	c := empty(t)
	a, err := c.Desire(k("a"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Desire(k("a"))
	if err != nil || a != b {
		t.Fatalf("two states of one key: %v", err)
	}
	m := sent(t, c)
	wantOps(t, m, "client-desires-keys")
	if got := keyList(t, m[0]); len(got) != 1 || got[0] != "a" {
		t.Errorf("desired %v, want [a]", got)
	}
	c.Release(NewHandle(a))
	if got := sent(t, c); got != nil {
		t.Errorf("sent %v, want nothing while one future is left", opsOf(got))
	}
}

func TestScatteredIsFinished(t *testing.T) {
	c := empty(t)
	states, err := c.Hold([]task.Key{k("a"), k("b")})
	if err != nil {
		t.Fatal(err)
	}
	receive(t, c, wire.NewDict("op", "cancelled-keys", "keys", []any{"b"}, "reason", "lost", "msg", ""))
	c.Scattered(states)
	wantStatus(t, c, states[0], Finished)
	wantStatus(t, c, states[1], Canceled) // its data was lost
}

func TestClose(t *testing.T) {
	c := empty(t)
	a, b := submit(t, c, "a"), submit(t, c, "b")
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "b", "workers", []any{"w"}))
	sent(t, c)
	waited := make(chan error, 1)
	w := &waiter{failFast: true}
	c.mu.Lock()
	w.register([]*State{a, b})
	c.mu.Unlock()
	c.Close()
	<-w.ch
	go func() { waited <- c.Wait(context.Background(), []*State{a}, true) }()
	if err := <-waited; !errors.Is(err, ErrClosed) || !errors.Is(err, net.ErrClosed) || !errors.Is(err, ErrCanceled) {
		t.Errorf("a wait ends with %v, want ErrClosed, net.ErrClosed and ErrCanceled", err)
	}
	wantStatus(t, c, b, Finished)
	c.Close()
	wantOps(t, sent(t, c), "close-client", "close-stream")
	for name, f := range map[string]func() error{
		"Queue":  func() error { return c.Queue(&message.HeartbeatClient{}) },
		"Desire": func() error { _, err := c.Desire(k("z")); return err },
		"Hold":   func() error { _, err := c.Hold([]task.Key{k("z")}); return err },
		"Cancel": func() error { return c.Cancel([]*State{a}, false) },
		"Submit": func() error {
			_, err := c.Submit(k("z"), nil, nil, &taskgraph.Annotations{}, Options{})
			return err
		},
		"SubmitSlab": func() error {
			return c.SubmitSlab(NewGraph(Options{}, false), k("z"), []int32{int32(len(k("z")))}, make([]Handle, 1))
		},
		"SubmitGraph": func() error {
			return c.SubmitGraph(NewGraph(Options{}, false), []task.Key{k("z")}, make([]Handle, 1))
		},
		"WaitForSpace": func() error { return c.WaitForSpace(context.Background()) },
	} {
		if err := f(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s of a closed client: %v, want ErrClosed", name, err)
		}
	}
	if got := sent(t, c); got != nil {
		t.Errorf("a closed client sends %v", opsOf(got))
	}
}

func TestFailKeepsFirstCause(t *testing.T) {
	c := empty(t)
	a := submit(t, c, "a")
	first := errors.New("the network is gone")
	c.Fail(first)
	c.Fail(errors.New("another"))
	c.Close()
	if err := c.Err(); err != first {
		t.Errorf("the client ended with %v, want %v", err, first)
	}
	if err := c.KeyErr(a); !errors.Is(err, first) || err.Error() != "task a: the network is gone" {
		t.Errorf("the future has %v, want the first cause", err)
	}
}

// Goroutines that wait for space are woken when the client ends.
func TestEndFreesSpace(t *testing.T) {
	for name, end := range map[string]func(*Tracker){"Close": (*Tracker).Close,
		"Fail": func(c *Tracker) { c.Fail(ErrClosed) }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := empty(t)
				c.queued = maxQueued
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- c.WaitForSpace(ctx) }()
				synctest.Wait() // the goroutine waits
				end(c)
				if err := <-done; !errors.Is(err, ErrClosed) {
					t.Errorf("the wait for space ends with %v, want ErrClosed", err)
				}
			})
		})
	}
}

// LostData applies to results, not to tasks that failed or were canceled.
func TestLostDataOfEnded(t *testing.T) {
	c := empty(t)
	failed, canceled, pending := submit(t, c, "failed"), submit(t, c, "canceled"), submit(t, c, "pending")
	receive(t, c, wire.NewDict("op", "task-erred", "key", "failed", "exception", "no", "traceback", nil),
		wire.NewDict("op", "cancelled-keys", "keys", []any{"canceled"}, "reason", "", "msg", ""))
	for _, key := range []string{"failed", "canceled", "pending", "stranger"} {
		receive(t, c, wire.NewDict("op", "lost-data", "key", key))
	}
	wantStatus(t, c, failed, Failed)
	wantStatus(t, c, canceled, Canceled)
	wantStatus(t, c, pending, Pending)
}

func TestOutcomes(t *testing.T) {
	c := empty(t)
	states := []*State{submit(t, c, "a"), submit(t, c, "b"), submit(t, c, "c")}
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"w"}),
		wire.NewDict("op", "task-erred", "key", "b", "exception", "no", "traceback", nil))
	want := []Status{Finished, Failed, Pending}
	n := 0
	c.Outcomes(states, func(i int, status Status, err error) {
		n++
		if status != want[i] || (err != nil) != (status == Failed) {
			t.Errorf("key %d has status %d and error %v, want status %d", i, status, err, want[i])
		}
	})
	if n != 3 {
		t.Errorf("%d outcomes, want 3", n)
	}
}
