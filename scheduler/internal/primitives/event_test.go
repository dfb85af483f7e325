package primitives

import (
	"testing"

	"go.millstream.dev/scheduler/internal/val"
)

// An event wakes all its waiters, and is kept only while it is set or waited for.
func TestEvent(t *testing.T) {
	r := start(t)
	if v := r.Call("event_is_set", "name", "e"); v != false {
		t.Errorf("one that is not there: got %v, want false", v)
	}
	if v := r.Call("event_wait", "name", "e", "timeout", 0.001); v != false {
		t.Errorf("wait: got %v, want false", v)
	}
	r.Call("event_clear", "name", "e")
	if c := r.counts(); c.Events != 0 || r.bytes() != 0 || r.Journal.Changes() != "" {
		t.Errorf("after an event that was never set: got %+v, %d bytes, want nothing", c, r.bytes())
	}
	name, _ := val.NameOf("e")
	waits := []<-chan answer{r.call("event_wait", "name", "e"), r.call("event_wait", "name", "e", "timeout", 30)}
	r.Until("two wait", func() bool { e := r.events.byName[name]; return e != nil && e.waiters == 2 })
	r.Call("event_set", "name", "e")
	r.Call("event_set", "name", "e")
	for _, w := range waits {
		if x := <-w; x.err != nil || x.v != true {
			t.Errorf("got %v, %v, want true", x.v, x.err)
		}
	}
	if got := r.Journal.Changes(); got != "event_set" {
		t.Errorf("journal: got %s, want one event_set", got)
	}
	if v := r.Call("event_wait", "name", "e", "timeout", 0.0); v != true {
		t.Errorf("wait for one that is set: got %v, want true", v)
	}
	r.Call("event_clear", "name", "e")
	if c, n := r.counts(), r.bytes(); c.Events != 0 || n != 0 {
		t.Errorf("after clear: got %+v, %d bytes, want nothing", c, n)
	}
}

// An event that is cleared while others wait stays for them.
func TestEventCleared(t *testing.T) {
	r := start(t)
	name, _ := val.NameOf("e")
	r.Call("event_set", "name", "e")
	r.Call("event_clear", "name", "e")
	wait := r.call("event_wait", "name", "e", "timeout", 30)
	r.Until("one waits", func() bool { e := r.events.byName[name]; return e != nil && e.waiters == 1 })
	r.Call("event_clear", "name", "e")
	if c := r.counts(); c.Events != 1 {
		t.Errorf("got %d events, want the one that is waited for", c.Events)
	}
	r.Call("event_set", "name", "e")
	if x := <-wait; x.v != true {
		t.Errorf("event_wait: got %v, error %v, want true", x.v, x.err)
	}
}

func TestEventReplay(t *testing.T) {
	r := start(t)
	r.Call("event_set", "name", "on")
	r.Call("event_set", "name", "off")
	r.Call("event_clear", "name", "off")
	n := r.again(t)
	if a, b := n.Call("event_is_set", "name", "on"), n.Call("event_is_set", "name", "off"); a != true || b != false {
		t.Errorf("got %v and %v, want true and false", a, b)
	}
	if got, want := n.bytes(), r.bytes(); got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
	n.Do(func() {
		if known, err := n.Replay("event_clear", record{}.args(string(mustName("on")))); !known || err != nil {
			t.Errorf("Replay: got %v, error %v", known, err)
		}
	})
	if n.bytes() != 0 {
		t.Errorf("got %d bytes, want 0", n.bytes())
	}
}

func mustName(v any) string {
	name, err := val.NameOf(v)
	if err != nil {
		panic(err)
	}
	return name
}
