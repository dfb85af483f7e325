// Package epstate is the state machine of an endpoint: its states, the events that change them, and the actions of each
// transition. It calls nothing and does not depend on UCX; package ucx performs the actions.
package epstate

import "fmt"

// State is the state of an endpoint.
type State uint8

// The states. Operations can be started in those before Failed.
const (
	Creating    State = iota // registered with the worker; the UCX endpoint is being created
	Connecting               // UCX's handshake by socket address is in flight
	Open                     // usable
	PeerClosing              // usable; the peer has announced that it closes
	Failing                  // the peer exceeded a limit, and the abort started for it has not run yet
	Closing                  // Close was called and waits for operations in flight
	BothClosing              // Closing, and the peer has announced that it closes
	Failed                   // ended by a failure or an abort; Close has not been called or not finished
	Closed                   // ended, and the UCX endpoint released
	States                   // number of states
)

// Event is an event of an endpoint.
type Event uint8

// The events.
const (
	Create        Event = iota // the UCX endpoint exists
	Connect                    // UCX's handshake by socket address begins
	Connected                  // the handshake has succeeded or failed
	PeerClose                  // the peer has announced that it closes
	Overflow                   // the peer sent more than the worker queues
	PeerFailed                 // UCX reports the peer's failure; it has closed its endpoint by force
	LifelineEnded              // the lifeline has ended
	Abort                      // this side ends the endpoint now
	Close                      // Close was called
	Release                    // Close has waited long enough
	Events                     // number of events
)

// Action is a set of actions of a transition. Package ucx performs them in the order of the bits.
type Action uint16

// The actions.
const (
	SetReason     Action = 1 << iota // the event's error is why the endpoint ended
	PeerReason                       // the reason is that the peer closed, whatever the event's error is
	EndParts                         // notify the layers above that no more messages arrive
	StartAbort                       // start Abort on a separate goroutine
	Drain                            // wait for operations in flight and confirm delivery
	HangUp                           // close the lifeline
	AbortLifeline                    // notify the peer over the lifeline that this side ended by force
	ForceClose                       // close the UCX endpoint by force, with its remote keys
	DropHandle                       // attribute no further messages to this endpoint
	GiveBack                         // close the rest of the UCX endpoint and remove it
	CloseDone                        // close the channel that Done returns
	Report                           // call Events.EndpointClosed
	actionsEnd
)

// Transition is the next state after an event, and the actions to perform. The zero Transition means that the event
// changes nothing.
type Transition struct {
	To State
	Do Action
}

const (
	// byUCX ends an endpoint whose UCX half is already closed. The token may be held, so none of the actions block.
	byUCX = SetReason | EndParts | HangUp | DropHandle | CloseDone | Report
	// byUs ends an endpoint by force.
	byUs = SetReason | EndParts | AbortLifeline | ForceClose | DropHandle | CloseDone | Report
	// byClose ends an endpoint that was usable until the end of its Close.
	byClose = EndParts | HangUp | GiveBack | CloseDone | Report
)

// table has the transitions. Pairs that are not listed change nothing.
var table = [States][Events]Transition{
	Creating: {
		Create:        {Open, 0},
		PeerFailed:    {Failed, byUCX},
		LifelineEnded: {Failed, byUs},
		Abort:         {Failed, byUs},
	},
	Connecting: {
		Connected:     {Open, 0},
		Overflow:      {Failing, StartAbort},
		PeerFailed:    {Failed, byUCX},
		LifelineEnded: {Failed, byUs},
		Abort:         {Failed, byUs},
		Close:         {Closing, Drain},
	},
	Open: {
		Connect:       {Connecting, 0},
		PeerClose:     {PeerClosing, 0},
		Overflow:      {Failing, StartAbort},
		PeerFailed:    {Failed, byUCX},
		LifelineEnded: {Failed, byUs},
		Abort:         {Failed, byUs},
		Close:         {Closing, Drain},
	},
	PeerClosing: {
		Overflow:      {Failing, StartAbort},
		PeerFailed:    {Failed, byUCX | PeerReason},
		LifelineEnded: {Failed, byUs | PeerReason},
		Abort:         {Failed, byUs},
		Close:         {BothClosing, Drain},
	},
	Failing: {
		PeerFailed:    {Failed, byUCX},
		LifelineEnded: {Failed, byUs},
		Abort:         {Failed, byUs},
		Close:         {Failing, Drain},
		Release:       {Closed, byClose},
	},
	Closing: {
		PeerClose:     {BothClosing, 0},
		Overflow:      {Failing, StartAbort},
		PeerFailed:    {Failed, byUCX},
		LifelineEnded: {Failed, byUs},
		Abort:         {Failed, byUs},
		Release:       {Closed, byClose},
	},
	BothClosing: {
		Overflow:      {Failing, StartAbort},
		PeerFailed:    {Failed, byUCX | PeerReason},
		LifelineEnded: {Failed, byUs | PeerReason},
		Abort:         {Failed, byUs},
		Release:       {Closed, byClose},
	},
	Failed: {
		Create:  {Failed, ForceClose}, // it ended while it was being created
		Release: {Closed, HangUp | GiveBack},
	},
}

// On returns the transition of an event in a state. ok is false if it changes nothing.
func (s State) On(e Event) (t Transition, ok bool) {
	t = table[s][e]
	return t, t != Transition{}
}

// Ended reports whether operations can no longer be started.
func (s State) Ended() bool { return s >= Failed }

// PeerLeaves reports whether the peer has announced that it closes.
func (s State) PeerLeaves() bool { return s == PeerClosing || s == BothClosing }

var stateNames = [States]string{
	"creating", "connecting", "open", "peer closing", "failing", "closing", "both closing", "failed", "closed",
}

// String returns the state's name.
func (s State) String() string {
	if s < States {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

var eventNames = [Events]string{
	"create", "connect", "connected", "peer close", "overflow",
	"peer failed", "lifeline ended", "abort", "close", "release",
}

// String returns the event's name.
func (e Event) String() string {
	if e < Events {
		return eventNames[e]
	}
	return fmt.Sprintf("Event(%d)", uint8(e))
}
