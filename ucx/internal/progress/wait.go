// Package progress decides which goroutine drives a UCX worker and which sleep. It has no state and calls nothing:
// package ucx reports events to it and performs the steps that it returns. The decisions are therefore small enough for
// a test that explores every order of them (model_test.go).
//
// The right to call UCX is a token, one atomic word in the worker; goroutines try to acquire it but never wait for it.
//
//   - A goroutine that acquires it submits its operation, drives progress and delivers completions, for itself and for
//     all others.
//   - One that does not pushes its operation on a lock-free stack, which the holder empties at every turn and once more
//     after returning the token, and sleeps.
//   - When no goroutine drives, the poller goroutine sleeps on UCX's descriptor.
//
// The poller is in one of two states. Polled: UCX was armed while the token was held and the poller is about to enter,
// or inside, Go's network poller; the next event wakes it. Pausing: it found the token taken and tries again shortly. A
// holder that returns the token with operations in flight that were started after the last arming arms again if the
// poller is polled, and otherwise leaves them to the end of the pause. A goroutine that goes to sleep cuts the pause
// short.
package progress

// Policy is how a waiter behaves between its steps.
type Policy struct {
	Own     bool // it has an operation that is not submitted yet; otherwise it waits for a request
	Polling bool // it never sleeps
	Thread  bool // the worker has a thread that holds the token for life
	Soon    bool // it waits for something expected soon: it does not sleep until Late is seen
}

// Step is what a waiter does next.
type Step uint8

// The steps of a waiter.
const (
	Take    Step = iota // try for the token
	Push                // pass the operation to the holder
	Retry               // try for the token again: the holder may have returned it without seeing the push
	Serve               // make one pass as holder and return the token
	Yield               // let others run
	Drive               // submit, make progress and deliver, within the spin
	Release             // return the token and continue
	Leave               // return the token: the wait is over
	Sleep               // return the token and make sure that operations in flight are driven
	Park                // sleep until it is done or the context ends
	Return              // the wait is over
	Cancel              // the wait is over: the context ended first
)

// Seen is what a waiter has seen at its last step.
type Seen uint8

// Observations.
const (
	Done    Seen = 1 << iota // the awaited operation has ended
	Token                    // it got the token
	Timeout                  // it drove for the whole spin, and nothing happened
	Ended                    // its context has ended
	Late                     // the time of a Soon waiter is over
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

// Next returns the step after the step at, given what the waiter has seen.
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

// driven is Next of a holder. One with an operation of its own keeps the token as long as it drives; others return it
// in between, unless they wait Soon.
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

// Left is the state that a holder leaves when it returns the token.
type Left struct {
	Polled  bool // the poller sleeps, or is about to
	Unarmed bool // operations are in flight that were started after UCX was armed
	Waits   bool // waits for which UCX has no event: a device, a failed endpoint
	Sleeps  bool // the holder itself goes to sleep
}

// Arm reports whether the holder has to arm UCX before it returns the token.
func (l Left) Arm() bool { return l.Polled && (l.Unarmed || l.Waits || l.Sleeps) }

// Wake reports whether the holder that has returned the token has to wake the poller: it goes to sleep, or had to arm
// UCX, and UCX is not armed, so that no event would wake a sleeping poller.
func (l Left) Wake(armed bool) bool { return !armed && (l.Sleeps || l.Arm()) }

// Poller reports whether the poller, which tried for the token and armed UCX if it got it, may sleep until an event.
// Otherwise it pauses and tries again.
func Poller(token, armed bool) bool { return token && armed }
