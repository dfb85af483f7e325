package primitives

import (
	"context"
	"errors"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/scheduler/internal/val"
)

// A variable has the last value, and only that is counted.
func TestVariable(t *testing.T) {
	r := start(t)
	r.Fails("not set", "variable_get", "name", "v", "timeout", 0.001)
	if c := r.counts(); c.Variables != 0 {
		t.Errorf("variable that was never set: got %+v, want it not kept", c)
	}
	r.Call("variable_set", "name", "v", "data", "a long value that is replaced")
	r.Call("variable_set", "name", "v", "data", "x")
	short := r.bytes()
	if v := get(r.Call("variable_get", "name", "v"), "value"); v != "x" {
		t.Errorf("got %v, want x", v)
	}
	if got := r.Journal.Changes(); got != "variable_set variable_set" {
		t.Errorf("journal: got %s, want two variable_set", got)
	}
	r.Call("variable_set", "name", "v", "data", "y")
	if got := r.bytes(); got != short {
		t.Errorf("a value of the same size: got %d bytes, want %d", got, short)
	}
	if err := r.op(t, "c", "op", "variable_delete", "name", "v"); err != nil {
		t.Fatal(err)
	}
	if n, c := r.bytes(), r.counts(); n != 0 || c.Variables != 0 {
		t.Errorf("after deletion: got %d bytes, %+v, want nothing", n, c)
	}
	if err := r.op(t, "c", "op", "variable_delete", "name", "never"); err != nil {
		t.Errorf("deletion of an unknown variable: got error %v, want none", err)
	}
}

// Waiters of a variable receive its value when it is set, and a disconnected one is not waited for.
func TestVariableWaits(t *testing.T) {
	r := start(t)
	a, b := r.call("variable_get", "name", "v"), r.call("variable_get", "name", "v", "timeout", 30)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := r.TryContext(ctx, "variable_get", "name", "v"); left <- err }()
	name, _ := val.NameOf("v")
	r.Until("three wait", func() bool { v := r.variables.byName[name]; return v != nil && v.waiters == 3 })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("disconnected caller: got error %v, want context.Canceled", err)
	}
	r.Call("variable_set", "name", "v", "data", int64(7))
	for _, ch := range []<-chan answer{a, b} {
		if x := <-ch; x.err != nil || get(x.v, "value") != int64(7) {
			t.Errorf("got %v, %v, want 7", x.v, x.err)
		}
	}
	r.Until("no request waits", func() bool { return r.variables.byName[name].waiters == 0 })
}

// A future in a variable is held while it is the value, and after that until its receivers have confirmed it.
func TestVariableFutures(t *testing.T) {
	r := start(t)
	r.Fails("unknown to scheduler", "variable_set", "name", "v", "key", "x", "timeout", 0.001)
	set := r.call("variable_set", "name", "v", "key", "x", "timeout", 30)
	r.task("x")
	r.task("y")
	if x := <-set; x.err != nil {
		t.Fatal(x.err)
	}
	wants := func() (out string) {
		r.Do(func() { out = r.Wants.Of("variable-v") })
		return out
	}
	if got := wants(); got != "[x]" {
		t.Errorf("held keys: got %s, want [x]", got)
	}
	first := r.Call("variable_get", "name", "v")
	if get(first, "type") != "Future" || get(first, "state") != "memory" {
		t.Errorf("variable_get: got %v, want a future in memory", first)
	}
	token, _ := get(first, "token").(string)
	second, _ := get(r.Call("variable_get", "name", "v"), "token").(string)
	if token == "" || token == second {
		t.Fatalf("tokens: got %q and %q, want distinct ones", token, second)
	}
	r.Call("variable_set", "name", "v", "key", "y")
	for i, tok := range []string{token, token, second} {
		if got := wants(); got != "[x y]" && got != "[y x]" {
			t.Errorf("after %d confirmations: got held keys %s, want x and y", i, got)
		}
		if err := r.op(t, "client", "op", "variable-future-received-confirm", "name", "v", "key", "x", "token",
			tok); err != nil {
			t.Fatal(err)
		}
	}
	if got := wants(); got != "[y]" {
		t.Errorf("after all confirmations: got held keys %s, want y", got)
	}
	r.Do(func() {
		if got := r.Wants.Of("client"); got != "[x]" {
			t.Errorf("keys of the client: got %s, want [x]", got)
		}
		delete(r.known, task.NewKey("y"))
	})
	if s := get(r.Call("variable_get", "name", "v"), "state"); s != "lost" {
		t.Errorf("a future whose task is forgotten: got state %v, want lost", s)
	}
	if err := r.op(t, "", "op", "variable_delete", "name", "v"); err != nil {
		t.Fatal(err)
	}
	r.Do(func() {
		if r.Wants.Registered("variable-v") {
			t.Error("deleted variable: still holds keys")
		}
	})
}

// A variable whose record is rejected keeps its value, and one that is not on disk is an error.
func TestVariableJournal(t *testing.T) {
	r := start(t)
	r.Call("variable_set", "name", "v", "data", "old")
	n := r.bytes()
	r.Journal.Refuse(errors.New("too deep"))
	r.Fails("too deep", "variable_set", "name", "v", "data", "a new and longer one")
	r.Journal.Refuse(nil)
	if v := get(r.Call("variable_get", "name", "v"), "value"); v != "old" || r.bytes() != n {
		t.Errorf("got %v and %d bytes, want old and %d", v, r.bytes(), n)
	}
	r.Journal.Lose(errors.New("disk full"))
	r.Fails("disk full", "variable_set", "name", "v", "data", "new")
}

func TestVariableReplay(t *testing.T) {
	r := start(t)
	r.task("x")
	r.Call("variable_set", "name", "data", "data", []any{int64(1), "two"})
	r.Call("variable_set", "name", []any{"tuple", 1}, "data", nil)
	r.Call("variable_set", "name", "future", "key", "x")
	n := r.again(t)
	if got, want := n.bytes(), r.bytes(); got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
	if v, _ := get(n.Call("variable_get", "name", "data"), "value").([]any); len(v) != 2 || v[1] != "two" {
		t.Errorf("value: got %v, want the list", v)
	}
	if m := n.Call("variable_get", "name", []any{"tuple", 1}, "timeout", 1); get(m, "type") != "msgpack" {
		t.Errorf("variable of a tuple name: got %v, want type msgpack", m)
	}
	n.Do(func() {
		if got := n.Wants.Of("variable-future"); got != "[x]" {
			t.Errorf("held keys: got %s, want [x]", got)
		}
		if known, err := n.Replay("variable_delete", roundTrip(t,
			record{}.args(string(task.NewKey("data"))))); !known || err != nil {
			t.Errorf("Replay: got %v, error %v", known, err)
		}
	})
	if c := n.counts(); c.Variables != 2 {
		t.Errorf("got %d variables, want 2", c.Variables)
	}
}
