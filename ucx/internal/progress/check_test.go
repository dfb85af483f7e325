package progress

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

var (
	errLostWakeup = errors.New("lost wake-up: everybody sleeps and a waiter's operation could go on")
	errDeadlock   = errors.New("deadlock: everybody sleeps and a waiter is not served")
	errLivelock   = errors.New("livelock: a waiter can never return from here")
)

// check explores every world and returns what is wrong with the first bad one, with the steps that lead there.
func (m *model) check(t *testing.T) error {
	t.Helper()
	type link struct {
		from int32
		step transition
	}
	start := m.initial()
	index := map[world]int32{start: 0}
	links := []link{{-1, transition{to: start}}} // how each world was reached first
	var from, to []int32                         // all steps
	trace := func(i int32) string {
		var steps []string
		for ; links[i].from >= 0; i = links[i].from {
			steps = append(steps, links[i].step.String())
		}
		var b strings.Builder
		for k := len(steps) - 1; k >= 0; k-- {
			b.WriteString("\n\t" + steps[k])
		}
		return b.String()
	}
	var ends []int32
	var next []transition
	for at := int32(0); int(at) < len(links); at++ {
		w := links[at].step.to
		finished := true
		for i := range w.n {
			finished = finished && w.procs[i].at == atEnd
		}
		next = m.after(&w, next[:0])
		if finished {
			ends = append(ends, at)
		} else if len(next) == 0 {
			err := errDeadlock
			if w.count(opArrived)+w.count(opComplete)+w.count(opPushed)+w.count(opDelivered) > 0 {
				err = errLostWakeup
			}
			return fmt.Errorf("%w:%s\n\t%+v", err, trace(at), w)
		}
		for _, tr := range next {
			k, known := index[tr.to]
			if !known {
				k = int32(len(links))
				index[tr.to] = k
				links = append(links, link{at, tr})
			}
			from, to = append(from, at), append(to, k)
		}
	}
	if at := stuck(len(links), from, to, ends); at >= 0 {
		return fmt.Errorf("%w:%s\n\t%+v", errLivelock, trace(at), links[at].step.to)
	}
	t.Logf("%d worlds", len(links))
	return nil
}

// stuck returns a world from which none of the ends can be reached, or -1.
func stuck(n int, from, to, ends []int32) int32 {
	first := make([]int32, n+1) // steps into each world, as ranges of parents
	for _, k := range to {
		first[k+1]++
	}
	for k := range n {
		first[k+1] += first[k]
	}
	parents, at := make([]int32, len(to)), append([]int32(nil), first...)
	for e, k := range to {
		parents[at[k]] = from[e]
		at[k]++
	}
	reach := make([]bool, n)
	for len(ends) > 0 {
		k := ends[len(ends)-1]
		ends = ends[:len(ends)-1]
		if !reach[k] {
			reach[k] = true
			ends = append(ends, parents[first[k]:first[k+1]]...)
		}
	}
	for k, ok := range reach {
		if !ok {
			return int32(k)
		}
	}
	return -1
}

// kinds are the waiters that package ucx has: a blocking operation, a started one, one that looks for its end without
// sleep, and a blocking one of a worker that never sleeps.
var kinds = map[string]struct {
	policy  Policy
	started bool
}{
	"blocking": {Policy{Own: true}, false},
	"started":  {Policy{}, true},
	"soon":     {Policy{Soon: true}, true},
	"polling":  {Policy{Own: true, Polling: true}, false},
	"awaiting": {Policy{Polling: true}, true},
}

func newModel(r rules, refusals int8, names ...string) *model {
	m := &model{rules: r, refusals: refusals}
	for _, n := range names {
		m.policies = append(m.policies, kinds[n].policy)
		m.started = append(m.started, kinds[n].started)
	}
	return m
}

// TestEveryOrder explores token × poller × sleepers: every waiter returns, in every order of the steps, whether UCX
// can be armed or not.
func TestEveryOrder(t *testing.T) {
	sets := []struct {
		waiters  string
		refusals int8
	}{
		{"blocking", 2}, {"started", 2}, {"soon", 2}, {"polling", 2}, {"awaiting", 2},
		{"blocking+blocking", 1}, {"blocking+started", 0}, {"started+started", 0}, {"blocking+soon", 0},
		{"started+soon", 0}, {"blocking+polling", 0}, {"started+polling", 0}, {"blocking+awaiting", 0},
	}
	for _, set := range sets {
		t.Run(set.waiters, func(t *testing.T) {
			for refusals := range set.refusals + 1 {
				if refusals > 0 && testing.Short() {
					break
				}
				if err := newModel(realRules, refusals, strings.Split(set.waiters, "+")...).check(t); err != nil {
					t.Errorf("arming refused up to %d times: %v", refusals, err)
				}
			}
		})
	}
}

// TestBrokenRules breaks one rule at a time, and the model must find that somebody sleeps for ever.
func TestBrokenRules(t *testing.T) {
	for _, tc := range []struct {
		rule     string
		breaks   func(*rules)
		refusals int8
		want     error
	}{
		{"a holder that leaves operations behind does not arm", func(r *rules) {
			r.arm = func(l Left) bool { return l.Polled && l.Sleeps }
		}, 0, errLostWakeup},
		{"a waiter that goes to sleep does not arm", func(r *rules) {
			r.arm = func(Left) bool { return false }
			r.wake = func(Left, bool) bool { return false }
		}, 0, errLostWakeup},
		{"no goroutine wakes the poller when UCX cannot be armed", func(r *rules) {
			r.wake = func(Left, bool) bool { return false }
		}, 1, errLostWakeup},
		{"the poller sleeps although UCX is not armed", func(r *rules) {
			r.poller = func(token, _ bool) bool { return token }
		}, 1, errLostWakeup},
		{"a waiter parks after its push without trying for the token", func(r *rules) {
			r.next = func(p Policy, at Step, saw Seen) Step {
				if at == Push {
					return Park
				}
				return p.Next(at, saw)
			}
		}, 0, errLostWakeup},
		{"a holder that has left does not look for pushed operations", func(r *rules) {
			r.look = false
		}, 0, errLostWakeup},
		{"a waiter that goes to sleep keeps the token", func(r *rules) {
			r.next = func(p Policy, at Step, saw Seen) Step {
				if s := p.Next(at, saw); s != Sleep {
					return s
				}
				return Park
			}
		}, 0, errLostWakeup},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			r := realRules
			tc.breaks(&r)
			var found error
			for _, names := range [][]string{{"blocking"}, {"started"}, {"blocking", "started"},
				{"blocking", "blocking"}} {
				if found = newModel(r, tc.refusals, names...).check(t); found != nil {
					break
				}
			}
			if found == nil {
				t.Fatal("the model found nothing")
			}
			if !errors.Is(found, tc.want) {
				t.Errorf("found %v\nwant %v", found, tc.want)
			}
			t.Logf("%.2000v", found)
		})
	}
}

// TestDeadlockFound: a waiter whose operation nothing can ever complete is reported as such, not as lost.
func TestDeadlockFound(t *testing.T) {
	m := newModel(realRules, 0, "blocking")

	m.rules.next = func(p Policy, at Step, saw Seen) Step {
		if at == Take {
			return Park // it never submits
		}
		return p.Next(at, saw)
	}
	if err := m.check(t); err == nil || errors.Is(err, errLostWakeup) {
		t.Errorf("a waiter that never submits: %v", err)
	}
}
