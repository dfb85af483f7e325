// Package epstate is the life of an endpoint as data: its states, the events that change them, and what has to be done
// at each change. It calls nothing and knows no UCX; package ucx performs the actions.
package epstate

import "fmt"

// State is where an endpoint is in its life.
type State uint8

// The states. Operations can be started in those before Failed.
const (
	Creating    State = iota // entered at the worker; the UCX endpoint is being made
	Connecting               // UCX's handshake by socket address is in flight
	Open                     // usable
	PeerClosing              // usable; the peer has announced that it closes
	Failing                  // the peer broke a limit, and the abort that was started for it has not run yet
	Closing                  // Close was called and waits for what is in flight
	BothClosing              // Closing, and the peer has announced that it closes
	Failed                   // ended by a failure or an abort; Close has not been called or not finished
	Closed                   // ended, and the UCX endpoint given back
	States                   // how many there are
)

// Event is what happens to an endpoint.
type Event uint8

// The events.
const (
	Create       Event = iota // the UCX endpoint exists
	Connect                   // UCX's handshake by socket address begins
	Connected                 // that handshake has ended, one way or the other
	PeerFarewell              // the peer has announced that it closes
	Overflow                  // the peer sent more than the worker keeps
	PeerFailed                // UCX reports the peer's failure; it has closed its endpoint by force
	LineEnded                 // the lifeline has ended
	Abort                     // this side ends the endpoint now
	Close                     // Close was called
	Release                   // Close has waited long enough
	Events                    // how many there are
)

// Action is a set of things to do at a transition. Package ucx does them in the order of the bits.
type Action uint16

// The actions.
const (
	SetReason  Action = 1 << iota // the event's error is why the endpoint ended
	PeerReason                    // the reason is that the peer closed, whatever the event's error is
	EndParts                      // the layers above hear that nothing more comes
	StartAbort                    // begin Abort on a goroutine of its own
	Drain                         // wait for what is in flight and say farewell
	HangUp                        // close the lifeline
	AbortLine                     // tell the peer over the lifeline that this side ended by force
	ForceClose                    // close the UCX endpoint by force, with its remote keys
	DropHandle                    // take no message for this endpoint's any more
	GiveBack                      // close what is left of the UCX endpoint and forget it
	CloseDone                     // close the channel that Done returns
	Report                        // call Events.EndpointClosed
	actionsEnd
)

// Transition is where an event leads, and what to do then. The zero Transition means that the event changes nothing.
type Transition struct {
	To State
	Do Action
}

const (
	// byUCX ends an endpoint whose UCX half is closed already. The token may be held, so nothing in it blocks.
	byUCX = SetReason | EndParts | HangUp | DropHandle | CloseDone | Report
	// byUs ends an endpoint by force.
	byUs = SetReason | EndParts | AbortLine | ForceClose | DropHandle | CloseDone | Report
	// byClose ends an endpoint that was alive until the end of its Close.
	byClose = EndParts | HangUp | GiveBack | CloseDone | Report
)

// table has the transitions. A pair that is not in it changes nothing.
var table = [States][Events]Transition{
	Creating: {
		Create:     {Open, 0},
		PeerFailed: {Failed, byUCX},
		LineEnded:  {Failed, byUs},
		Abort:      {Failed, byUs},
	},
	Connecting: {
		Connected:  {Open, 0},
		Overflow:   {Failing, StartAbort},
		PeerFailed: {Failed, byUCX},
		LineEnded:  {Failed, byUs},
		Abort:      {Failed, byUs},
		Close:      {Closing, Drain},
	},
	Open: {
		Connect:      {Connecting, 0},
		PeerFarewell: {PeerClosing, 0},
		Overflow:     {Failing, StartAbort},
		PeerFailed:   {Failed, byUCX},
		LineEnded:    {Failed, byUs},
		Abort:        {Failed, byUs},
		Close:        {Closing, Drain},
	},
	PeerClosing: {
		Overflow:   {Failing, StartAbort},
		PeerFailed: {Failed, byUCX | PeerReason},
		LineEnded:  {Failed, byUs | PeerReason},
		Abort:      {Failed, byUs},
		Close:      {BothClosing, Drain},
	},
	Failing: {
		PeerFailed: {Failed, byUCX},
		LineEnded:  {Failed, byUs},
		Abort:      {Failed, byUs},
		Close:      {Failing, Drain},
		Release:    {Closed, byClose},
	},
	Closing: {
		PeerFarewell: {BothClosing, 0},
		Overflow:     {Failing, StartAbort},
		PeerFailed:   {Failed, byUCX},
		LineEnded:    {Failed, byUs},
		Abort:        {Failed, byUs},
		Release:      {Closed, byClose},
	},
	BothClosing: {
		Overflow:   {Failing, StartAbort},
		PeerFailed: {Failed, byUCX | PeerReason},
		LineEnded:  {Failed, byUs | PeerReason},
		Abort:      {Failed, byUs},
		Release:    {Closed, byClose},
	},
	Failed: {
		Create:  {Failed, ForceClose}, // it ended while it was made
		Release: {Closed, HangUp | GiveBack},
	},
}

// On returns what an event does in a state. ok is false if it changes nothing.
func (s State) On(e Event) (t Transition, ok bool) {
	t = table[s][e]
	return t, t != Transition{}
}

// Ended reports whether no operation can be started any more.
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
	"create", "connect", "connected", "peer farewell", "overflow",
	"peer failed", "line ended", "abort", "close", "release",
}

// String returns the event's name.
func (e Event) String() string {
	if e < Events {
		return eventNames[e]
	}
	return fmt.Sprintf("Event(%d)", uint8(e))
}
