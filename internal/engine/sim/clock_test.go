package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Things happen in the order of their times, and of their asking when these are equal.
func TestClock(t *testing.T) {
	var c clock
	r := rand.New(rand.NewPCG(1, 1))
	lastAt, lastN, happened := int64(-1), -1, 0
	for n := range 1000 {
		at := r.Int64N(100)
		c.at(at, funcFirer(func() {
			happened++
			if c.now != at || at < lastAt || at == lastAt && n < lastN {
				t.Fatalf("number %d of time %d happened at %d, after number %d of time %d", n, at, c.now, lastN, lastAt)
			}
			lastAt, lastN = at, n
		}))
	}
	for c.step() {
	}
	if happened != 1000 {
		t.Fatalf("%d things happened", happened)
	}
	past := false
	c.at(0, funcFirer(func() { past = true }))
	if !c.step() || !past || c.now != lastAt {
		t.Fatalf("what is asked for in the past does not happen now: %v at %d", past, c.now)
	}
	if c.step() {
		t.Fatal("something happened out of nothing")
	}
}

func testWorld() *world {
	return &world{rnd: rand.New(rand.NewPCG(3, 3)), cfg: Config{Latency: time.Millisecond}}
}

// Messages of a link arrive in order; those of two links do not wait for each other.
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
			t.Fatalf("%d messages", len(got[i]))
		}
		for n, m := range got[i] {
			if n != m {
				t.Fatalf("link %d: message %d where %d was due", i, m, n)
			}
		}
	}
	if !mixed {
		t.Error("no message of the second link has overtaken one of the first")
	}
}

// A sender that dies loses a part of what is under way, from the end; then comes eof.
func TestLinkEnd(t *testing.T) {
	for range 50 {
		w := testWorld()
		var got []any
		l := w.newLink(nil, func(m any) {
			if _, lost := m.(nothing); !lost {
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
			t.Fatalf("%v does not end with eof", got)
		}
		for n, m := range got[:len(got)-1] {
			if m != n {
				t.Fatalf("%v", got)
			}
		}
		if w.clock.now < int64(time.Second) {
			t.Fatalf("eof came at %v", time.Duration(w.clock.now))
		}
	}
}

// What is behind a partition arrives when that ends; a frozen receiver gets all when it thaws, in order.
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
		t.Fatalf("%v", got)
	}
	if at[0] < 5*time.Second || at[0] > 6*time.Second || at[1] < 7*time.Second {
		t.Fatalf("%v", at)
	}
	l.send(3)
	l.drop()
	for w.clock.step() {
	}
	if len(got) != 3 {
		t.Fatal("a dropped link delivered")
	}
}
