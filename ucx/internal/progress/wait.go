// Package progress decides who drives a UCX worker and who sleeps. It has no state of its own and calls nothing:
// package ucx tells it what happened and does what it says. That makes the decisions small enough for a test that
// explores every order of them (model_test.go).
//
// The right to call UCX is a token, one atomic word in the worker; it is tried for, never waited for.
//
//   - A goroutine that gets it submits its operation, drives progress and delivers completions, for itself and for
//     everybody else.
//   - One that does not pushes its operation on a lock-free stack, which the holder empties at every turn and once more
//     after giving the token back, and sleeps.
//   - When nobody drives, the poller goroutine sleeps on UCX's descriptor.
//
// The poller is in one of two states. Polled: UCX was armed while the token was held and the poller is on its way into,
// or inside, Go's network poller; the next event wakes it. Napping: it found the token taken and looks again shortly. A
// holder that leaves operations behind which were started after the last arming arms again if the poller is polled, and
// otherwise leaves it to the nap's end. A goroutine that goes to sleep cuts the nap short.
package progress

// Policy is how a waiter behaves between its steps.
type Policy struct {
	Own     bool // it has an operation of its own that is not submitted yet; otherwise it waits for a request
	Polling bool // it never sleeps
	Thread  bool // the worker has a thread that holds the token for life
	Soon    bool // what it waits for is near: it looks for it without sleep until Late is seen
}

// Step is what a waiter does next.
type Step uint8

// The steps of a waiter.
const (
	Take    Step = iota // try for the token
	Push                // leave the own operation to the holder
	Retry               // try for the token once more: the holder may have left without seeing the push
	Serve               // make one pass as holder, and leave
	Yield               // let others run
	Drive               // submit, make progress and deliver, within the spin
	Release             // give the token back and go on
	Leave               // give the token back: the wait is over
	Sleep               // give the token back and make sure that somebody looks after what is in flight
	Park                // sleep until it is done or the context ends
	Return              // the wait is over
	Cancel              // the wait is over: the context ended first
)

// Seen is what a waiter has seen at its last step.
type Seen uint8

// What can be seen.
const (
	Done    Seen = 1 << iota // what it waits for has ended
	Token                    // it got the token
	Timeout                  // it drove for the whole spin, and nothing happened
	Ended                    // its context has ended
	Late                     // the time of a waiter that is to look Soon is over
)

// First returns a waiter's first step.
func (p Policy) First(saw Seen) Step {
	switch {
	case p.Own && p.Thread:
		return Push
	case p.Own:
		return Take
	case saw&Done != 0:
		return Return
	case p.Thread:
		return Park
	}
	return Take
}

// Next returns the step after one at which the waiter has seen something.
func (p Policy) Next(at Step, saw Seen) Step {
	switch at {
	case Drive:
		return p.driven(saw)
	case Take:
		switch {
		case saw&Token != 0:
			return Drive
		case p.Own:
			return Push
		case p.Polling || p.Soon:
			return Yield
		}
		return Park
	case Push:
		if p.Thread {
			return Park
		}
		return Retry
	case Retry:
		if saw&Token != 0 {
			return Serve
		}
		return Park
	case Release, Yield:
		switch {
		case saw&Done != 0:
			return Return
		case saw&Ended != 0:
			return Cancel
		}
		return Take
	case Serve, Sleep:
		return Park
	case Park:
		if saw&Done != 0 {
			return Return
		}
		return Cancel
	}
	return Return // after Leave
}

// driven is Next of a holder. One with an operation of its own keeps the token as long as it drives; others let it go
// in between, unless what they wait for is near.
func (p Policy) driven(saw Seen) Step {
	sleeps := saw&Timeout != 0 && !p.Polling
	switch {
	case saw&Done != 0:
		return Leave
	case p.Own && (sleeps || saw&Ended != 0):
		return Sleep
	case p.Own:
		return Drive
	case p.Soon && saw&(Ended|Late) == 0:
		return Drive
	case p.Soon:
		return Release
	case sleeps:
		return Sleep
	}
	return Release
}

// Left is what a holder leaves behind when it gives the token back.
type Left struct {
	Polled  bool // the poller sleeps, or is about to
	Unarmed bool // operations are in flight that were started after UCX was armed
	Waits   bool // something waits of which UCX does not tell: a device, a failed endpoint
	Sleeps  bool // the holder itself goes to sleep
}

// Arm reports whether the holder has to arm UCX before it leaves.
func (l Left) Arm() bool { return l.Polled && (l.Unarmed || l.Waits || l.Sleeps) }

// Rouse reports whether the holder that has left has to make the poller look: it goes to sleep, or had to arm UCX, and
// UCX is not armed, so that no event would wake a poller that sleeps.
func (l Left) Rouse(armed bool) bool { return !armed && (l.Sleeps || l.Arm()) }

// Poller reports whether the poller, which tried for the token and armed UCX if it got it, may sleep until an event.
// Otherwise it naps and looks again.
func Poller(token, armed bool) bool { return token && armed }
