package sim

import "time"

// epoch is the start of every simulation.
var epoch = time.Unix(1_750_000_000, 0).UTC()

// firer is called at a time.
type firer interface{ fire() }

// funcFirer implements firer with a function, for rare cases.
type funcFirer func()

func (f funcFirer) fire() { f() }

type item struct {
	at  int64 // nanoseconds since epoch
	seq uint64
	f   firer
}

func (a item) before(b item) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// clock is virtual time: a heap of scheduled calls. Calls at the same time happen in the order in which they were
// scheduled.
type clock struct {
	now   int64
	seq   uint64
	items []item
}

func (c *clock) time() time.Time { return epoch.Add(time.Duration(c.now)) }

// at schedules f at a time, at the earliest now.
func (c *clock) at(at int64, f firer) {
	c.seq++
	c.push(item{max(at, c.now), c.seq, f})
}

func (c *clock) after(d time.Duration, f func()) { c.at(c.now+int64(d), funcFirer(f)) }

// step makes the next call; it reports false if there is none.
func (c *clock) step() bool {
	if len(c.items) == 0 {
		return false
	}
	next := c.pop()
	c.now = next.at
	next.f.fire()
	return true
}

func (c *clock) push(x item) {
	c.items = append(c.items, x)
	h := c.items
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !x.before(h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = x
}

func (c *clock) pop() item {
	h := c.items
	top, last := h[0], h[len(h)-1]
	h[len(h)-1] = item{}
	h = h[:len(h)-1]
	c.items = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for k := first + 1; k < min(first+4, len(h)); k++ {
			if h[k].before(h[least]) {
				least = k
			}
		}
		if !h[least].before(last) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = last
	return top
}
