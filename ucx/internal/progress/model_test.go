package progress

import (
	"fmt"
)

// The model has the parts of a worker of which the sleep of a waiter depends, and one step for each atomic access of
// the real code (package ucx: driver.go, wait.go; ucp's ms_drive and ms_leave). The decisions are those of
// this package. check explores all orders of all steps.

// rules are the decisions. A test replaces one to see that check finds what it breaks.
type rules struct {
	next   func(Policy, Step, Seen) Step
	arm    func(Left) bool
	wake   func(l Left, armed bool) bool
	poller func(token, armed bool) bool
	look   bool // a holder that has left looks for operations that were pushed meanwhile
}

var realRules = rules{next: Policy.Next, arm: Left.Arm, wake: Left.Wake, poller: Poller, look: true}

const maxWaiters = 3

// opState is where an operation is.
type opState uint8

const (
	opNew       opState = iota
	opPushed            // on the stack
	opFlight            // with UCX
	opArrived           // UCX can complete it as soon as someone makes progress
	opComplete          // on the list of completions
	opDelivered         // its waiter was woken, or would be
)

// place is where a process is.
type place uint8

const (
	atStep     place = iota // about to do its step
	atDriven                // submitted, about to make progress
	atServed                // the same for one pass
	atLeave                 // about to look at what it leaves
	atRelease               // about to give the token back
	atLook                  // about to look for pushed operations
	atRetake                // about to try for the token again
	atTurn                  // holder again, about to make progress
	atArmTurn               // about to make progress before arming
	atArm                   // about to arm
	atArmed                 // about to give the token back after arming
	atArmLook               // about to look for pushed operations
	atArmAgain              // about to try for the token again
	atWake                  // about to kick the poller
	atDeadline              // about to end its sleep
	atLaunch                // about to start an operation without waiting for it
	atLaunched              // the same, after the push
	atEnd                   // the wait is over
	atPoll                  // poller: about to try for the token
	atPolled                // poller: about to say that it will sleep
	atAsleep                // poller: sleeps on the descriptor
	atWoken                 // poller: about to say that it is awake
	atNap                   // poller: naps
)

type process struct {
	at    place
	step  Step
	left  Left
	armed bool
	back  place // after leaving: atStep, or the poller's
	late  bool  // it has looked long enough for what was to come soon
}

// world is one state of everything. It is comparable.
type world struct {
	n        int8 // waiters
	token    int8 // who has it; -1: nobody
	ops      [maxWaiters]opState
	covered  [maxWaiters]bool // UCX was armed with the operation in flight, and has not signaled since
	unarmed  bool
	signaled bool // UCX's descriptor
	polled   bool
	deadline bool
	refusals int8                    // how often UCX may refuse to be armed
	procs    [maxWaiters + 1]process // the last one is the poller
}

const poller = maxWaiters

// model is a set of waiters under some rules.
type model struct {
	rules    rules
	policies []Policy
	started  []bool // the waiter starts its operation and then waits for the request
	refusals int8
}

// policy is that of a waiter now.
func (m *model) policy(w *world, i int) Policy {
	p := m.policies[i]
	p.Soon = p.Soon && !w.procs[i].late
	return p
}

func (m *model) initial() world {
	w := world{n: int8(len(m.policies)), token: -1, refusals: m.refusals}
	for i, p := range m.policies {
		w.procs[i] = process{at: atStep, step: p.First(0)}
		if m.started[i] {
			w.procs[i].at = atLaunch
		}
	}
	w.procs[poller].at = atPoll
	return w
}

func (w *world) count(s opState) (n int) {
	for _, o := range w.ops[:w.n] {
		if o == s {
			n++
		}
	}
	return n
}

func (w *world) move(from, to opState) bool {
	moved := false
	for i := range w.ops[:w.n] {
		if w.ops[i] == from {
			w.ops[i], moved = to, true
		}
	}
	return moved
}

func (w *world) submit(i int) { w.ops[i], w.unarmed = opFlight, true }

// drain submits what was pushed.
func (w *world) drain() {
	for i := range w.ops[:w.n] {
		if w.ops[i] == opPushed {
			w.submit(i)
		}
	}
}

// progress completes what has arrived.
func (w *world) progress() { w.move(opArrived, opComplete) }

func (w *world) deliver() { w.move(opComplete, opDelivered) }

// arrive is what the network does: the event of one operation.
func (w *world) arrive(i int) {
	w.ops[i] = opArrived
	if w.covered[i] {
		w.covered = [maxWaiters]bool{} // UCX signals once for an arming
		w.signaled = w.signaled || w.polled
	}
}

// transition is one step from a world to the next.
type transition struct {
	who  int8 // a waiter, the poller, or the network
	what string
	to   world
}

const network = maxWaiters + 1

func (t transition) String() string {
	switch t.who {
	case poller:
		return "poller " + t.what
	case network:
		return "network: " + t.what
	}
	return fmt.Sprintf("waiter %d %s", t.who, t.what)
}

// after returns all steps that are possible.
func (m *model) after(w *world, out []transition) []transition {
	for i := range w.ops[:w.n] {
		if w.ops[i] == opFlight {
			next := *w
			next.arrive(i)
			out = append(out, transition{network, "an operation arrives", next})
		}
	}
	for i := range w.procs {
		if i < int(w.n) || i == poller {
			out = m.process(w, i, out)
		}
	}
	return out
}

// process appends the steps of one process.
func (m *model) process(w *world, i int, out []transition) []transition {
	p := w.procs[i]
	add := func(what string, change func(*world, *process)) {
		out = append(out, transition{int8(i), what, *w})
		next := &out[len(out)-1].to
		change(next, &next.procs[i])
	}
	switch p.at {
	case atStep:
		return m.wait(w, i, out)
	case atDriven: // one turn of ms_drive; it ends with something to do or at the end of the spin
		add("makes progress", func(w *world, q *process) {
			w.progress()
			saw := Seen(0)
			if w.ops[i] == opComplete {
				w.ops[i] = opDelivered
			}
			if w.count(opComplete) == 0 && w.ops[i] != opDelivered {
				saw |= Timeout
			}
			w.deliver()
			if w.ops[i] == opDelivered {
				saw |= Done
			}
			q.at, q.step = atStep, m.rules.next(m.policy(w, i), Drive, saw)
		})
		if m.policy(w, i).Soon {
			add("is late", func(_ *world, q *process) {
				q.at, q.step, q.late = atStep, m.rules.next(m.policy(w, i), Drive, Late), true
			})
		}
	case atServed:
		add("makes one pass", func(w *world, q *process) {
			w.drain()
			w.progress()
			q.at = atLeave
		})
	case atLeave:
		add("looks at what it leaves", func(w *world, q *process) {
			w.deliver()
			if w.count(opFlight)+w.count(opArrived) == 0 {
				w.unarmed = false
			}
			q.left.Polled, q.left.Unarmed = w.polled, w.unarmed
			q.at = atRelease
			if m.rules.arm(q.left) {
				q.at = atArmTurn
			} else { // what else it has seen decides nothing any more
				q.left = Left{Sleeps: q.left.Sleeps}
			}
		})
	case atRelease:
		add("gives the token back", func(w *world, q *process) { w.token, q.at = -1, atLook })
	case atLook:
		add("looks for pushed operations", func(w *world, q *process) {
			if m.rules.look && w.count(opPushed) > 0 {
				q.at = atRetake
				return
			}
			m.leftNow(q, false)
		})
	case atRetake:
		add("tries for the token again", func(w *world, q *process) {
			if w.token >= 0 {
				m.leftNow(q, false)
				return
			}
			w.token, q.at = int8(i), atTurn
		})
	case atTurn:
		add("makes one more pass", func(w *world, q *process) {
			w.drain()
			w.progress()
			q.at = atLeave
		})
	case atArmTurn:
		add("makes progress before arming", func(w *world, q *process) {
			w.drain()
			w.progress()
			w.deliver()
			q.armed, q.at = false, atArm
		})
	case atArm:
		if w.count(opArrived)+w.count(opPushed) > 0 {
			add("finds UCX busy", func(w *world, q *process) { q.at = atArmTurn })
			break
		}
		add("arms", func(w *world, q *process) {
			for k := range w.ops[:w.n] {
				w.covered[k] = w.ops[k] == opFlight
			}
			w.unarmed, q.armed, q.at = false, true, atArmed
		})
		if w.refusals > 0 {
			add("may not arm", func(w *world, q *process) {
				w.refusals--
				q.at = atArmed
			})
		}
	case atArmed:
		add("gives the token back after arming", func(w *world, q *process) { w.token, q.at = -1, atArmLook })
	case atArmLook:
		add("looks for pushed operations after arming", func(w *world, q *process) {
			if w.count(opPushed) > 0 {
				q.at = atArmAgain
				return
			}
			m.leftNow(q, q.armed)
		})
	case atArmAgain:
		add("tries for the token after arming", func(w *world, q *process) {
			if w.token >= 0 {
				m.leftNow(q, q.armed)
				return
			}
			w.token, q.at = int8(i), atArmTurn
		})
	case atWake:
		add("kicks the poller", func(_ *world, q *process) { q.at = atDeadline }) // a nap can end at any time
	case atDeadline:
		add("ends the poller's sleep", func(w *world, q *process) {
			w.deadline = w.deadline || w.polled
			q.at, q.left, q.armed = q.back, Left{}, false
		})
	case atLaunch:
		add("starts its operation", func(w *world, q *process) {
			if w.token >= 0 {
				w.ops[i], q.at = opPushed, atLaunched
				return
			}
			w.token = int8(i)
			w.drain()
			w.submit(i)
			w.progress()
			q.at, q.back, q.left = atLeave, atStep, Left{}
		})
	case atLaunched:
		add("tries for the token after its push", func(w *world, q *process) {
			q.at = atStep
			if w.token < 0 {
				w.token, q.at, q.back, q.left = int8(i), atServed, atStep, Left{}
			}
		})
	case atPoll:
		if w.deadline {
			add("was told to look", func(w *world, _ *process) { w.deadline = false })
			break
		}
		add("tries for the token", func(w *world, q *process) {
			q.at = atNap
			if w.token < 0 {
				w.token, q.at = int8(i), atPolled
			}
		})
	case atPolled:
		add("is about to sleep", func(w *world, q *process) { w.polled, q.at, q.back = true, atArmTurn, atAsleep })
	case atAsleep:
		if !m.rules.poller(true, p.armed) {
			add("cannot sleep", func(w *world, q *process) { w.polled, q.at, q.armed = false, atNap, false })
			break
		}
		if w.signaled || w.deadline {
			add("wakes up", func(w *world, q *process) { w.signaled, q.at, q.armed = false, atWoken, false })
		}
	case atWoken:
		add("is awake", func(w *world, q *process) { w.polled, w.deadline, q.at = false, false, atPoll })
	case atNap:
		add("ends its nap", func(_ *world, q *process) { q.at = atPoll })
	}
	return out
}

// leftNow is where a process goes that has given the token back for good.
func (m *model) leftNow(q *process, armed bool) {
	q.armed = armed && q.back == atAsleep
	q.at = q.back
	if q.back != atAsleep && m.rules.wake(q.left, armed) {
		q.at = atWake
		return
	}
	q.left = Left{}
}

// wait appends a waiter's step.
func (m *model) wait(w *world, i int, out []transition) []transition {
	p, policy := w.procs[i], m.policy(w, i)
	add := func(what string, change func(*world, *process)) {
		out = append(out, transition{int8(i), what, *w})
		next := &out[len(out)-1].to
		change(next, &next.procs[i])
	}
	done := Seen(0)
	if w.ops[i] == opDelivered {
		done = Done
	}
	leave := func(q *process, sleeps bool, then Step) {
		q.at, q.back, q.left, q.step = atLeave, atStep, Left{Sleeps: sleeps}, then
	}
	switch p.step {
	case Take, Retry:
		add("tries for the token", func(w *world, q *process) {
			saw := done
			if w.token < 0 {
				w.token, saw = int8(i), saw|Token
			}
			q.step = m.rules.next(policy, p.step, saw)
		})
	case Push:
		add("pushes", func(w *world, q *process) { w.ops[i], q.step = opPushed, m.rules.next(policy, Push, 0) })
	case Serve:
		add("serves", func(w *world, q *process) {
			q.at, q.back, q.left, q.step = atServed, atStep, Left{}, m.rules.next(policy, Serve, 0)
		})
	case Drive:
		add("submits and drives", func(w *world, q *process) {
			w.drain()
			if w.ops[i] == opNew {
				w.submit(i)
			}
			q.at = atDriven
		})
	case Release:
		add("releases", func(w *world, q *process) { leave(q, false, Yield) })
	case Yield:
		add("yields", func(w *world, q *process) { q.step = m.rules.next(policy, Yield, done) })
	case Leave:
		add("leaves", func(w *world, q *process) { leave(q, false, Return) })
	case Sleep:
		add("leaves to sleep", func(w *world, q *process) { leave(q, true, m.rules.next(policy, Sleep, 0)) })
	case Park:
		if done != 0 {
			add("is woken", func(w *world, q *process) { q.step = m.rules.next(policy, Park, Done) })
		}
	case Return:
		add("returns", func(w *world, q *process) { *q = process{at: atEnd} })
	default:
		panic(fmt.Sprintf("step %d of a waiter whose context does not end", p.step))
	}
	return out
}
