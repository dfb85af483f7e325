package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Calls happen in the order of their times, and of scheduling when these are equal.
func TestClock(t *testing.T) {
	var c clock
	r := rand.New(rand.NewPCG(1, 1))
	lastAt, lastN, happened := int64(-1), -1, 0
	for n := range 1000 {
		at := r.Int64N(100)
		c.at(at, funcFirer(func() {
			happened++
			if c.now != at || at < lastAt || at == lastAt && n < lastN {
				t.Fatalf("number %d of time %d: called at %d, after number %d of time %d", n, at, c.now, lastN, lastAt)
			}
			lastAt, lastN = at, n
		}))
	}
	for c.step() {
	}
	if happened != 1000 {
		t.Fatalf("calls: got %d, want 1000", happened)
	}
	past := false
	c.at(0, funcFirer(func() { past = true }))
	if !c.step() || !past || c.now != lastAt {
		t.Fatalf("call in the past: got %v at %d, want it now", past, c.now)
	}
	if c.step() {
		t.Fatal("step of an empty clock: got true, want false")
	}
}

func testWorld() *world {
	return &world{rnd: rand.New(rand.NewPCG(3, 3)), cfg: Config{Latency: time.Millisecond}}
}

// Messages of a link arrive in order; those of two links are independent.
func TestLinkOrder(t *testing.T) {
	w := testWorld()
	var got [2][]int
	mixed := false
	var links []*link
	for i := range 2 {
		links = append(links, w.newLink(nil, func(m any) {
			got[i] = append(got[i], m.(int))
			if i == 1 && len(got[1]) > len(got[0]) {
				mixed = true
			}
		}))
	}
	for n := range 3000 {
		links[0].send(n)
		links[1].send(n)
	}
	for w.clock.step() {
	}
	for i := range got {
		if len(got[i]) != 3000 {
			t.Fatalf("messages: got %d, want 3000", len(got[i]))
		}
		for n, m := range got[i] {
			if n != m {
				t.Fatalf("link %d: got message %d, want %d", i, m, n)
			}
		}
	}
	if !mixed {
		t.Error("second link: no message has overtaken one of the first")
	}
}

// A sender that crashes loses a part of the messages in flight, from the end; eof follows.
func TestLinkEnd(t *testing.T) {
	for range 50 {
		w := testWorld()
		var got []any
		l := w.newLink(nil, func(m any) {
			if _, lost := m.(lostMessage); !lost {
				got = append(got, m)
			}
		})
		for n := range 10 {
			l.send(n)
		}
		l.end(true, time.Second)
		l.send("after the end")
		for w.clock.step() {
		}
		if len(got) == 0 || got[len(got)-1] != (eof{}) {
			t.Fatalf("messages: got %v, want eof at the end", got)
		}
		for n, m := range got[:len(got)-1] {
			if m != n {
				t.Fatalf("messages: got %v", got)
			}
		}
		if w.clock.now < int64(time.Second) {
			t.Fatalf("eof: got at %v, want after 1s", time.Duration(w.clock.now))
		}
	}
}

// Messages behind a partition arrive when it ends; a frozen receiver receives all in order when it resumes.
func TestLinkBlockAndFreeze(t *testing.T) {
	w := testWorld()
	p := &proc{w: w, frozen: int64(5 * time.Second)}
	var got []int
	var at []time.Duration
	l := w.newLink(p, func(m any) {
		got = append(got, m.(int))
		at = append(at, time.Duration(w.clock.now))
	})
	l.send(0)
	l.block(int64(7 * time.Second))
	l.send(1)
	l.send(2)
	for w.clock.step() {
	}
	if len(got) != 3 || got[0] != 0 || got[1] != 1 || got[2] != 2 {
		t.Fatalf("messages: got %v, want 0 1 2", got)
	}
	if at[0] < 5*time.Second || at[0] > 6*time.Second || at[1] < 7*time.Second {
		t.Fatalf("arrival: got %v", at)
	}
	l.send(3)
	l.drop()
	for w.clock.step() {
	}
	if len(got) != 3 {
		t.Fatal("dropped link: got a message")
	}
}
