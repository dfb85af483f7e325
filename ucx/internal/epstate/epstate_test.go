package epstate

import (
	"fmt"
	"math/bits"
	"testing"
)

// TestPairs goes through every pair of a state and an event: want lists the state that it leads to, "" where the event
// changes nothing. A pair that nobody thought of cannot appear unseen.
func TestPairs(t *testing.T) {
	order := []Event{Create, Connect, Connected, PeerClose, Overflow, PeerFailed, LifelineEnded, Abort, Close, Release}
	want := map[State][]string{
		Creating:    {"open", "", "", "", "", "failed", "failed", "failed", "", ""},
		Connecting:  {"", "", "open", "", "failing", "failed", "failed", "failed", "closing", ""},
		Open:        {"", "connecting", "", "peer closing", "failing", "failed", "failed", "failed", "closing", ""},
		PeerClosing: {"", "", "", "", "failing", "failed", "failed", "failed", "both closing", ""},
		Failing:     {"", "", "", "", "", "failed", "failed", "failed", "failing", "closed"},
		Closing:     {"", "", "", "both closing", "failing", "failed", "failed", "failed", "", "closed"},
		BothClosing: {"", "", "", "", "failing", "failed", "failed", "failed", "", "closed"},
		Failed:      {"failed", "", "", "", "", "", "", "", "", "closed"},
		Closed:      {"", "", "", "", "", "", "", "", "", ""},
	}
	if len(order) != int(Events) || len(want) != int(States) {
		t.Fatalf("%d events and %d states in the test, %d and %d in the package", len(order), len(want), Events, States)
	}
	for s := range States {
		for i, e := range order {
			tr, ok := s.On(e)
			got := ""
			if ok {
				got = tr.To.String()
			}
			if got != want[s][i] {
				t.Errorf("%v on %v leads to %q, want %q", s, e, got, want[s][i])
			}
			if tr.Do >= actionsEnd {
				t.Errorf("%v on %v has unknown actions %b", s, e, tr.Do)
			}
		}
	}
}

// walk is an endpoint on some path through the table, with what its actions have done so far.
type walk struct {
	state    State
	created  bool // the UCX endpoint exists
	native   bool // it has not been closed
	closing  bool // Close was called
	done     int  // times that Done's channel was closed
	reported int
	parts    int // times that the layers above heard of the end
	aborts   int // aborts that were started and have not run
	given    int // times that the endpoint was given back
}

// after applies an event, and reports whether it can happen at all there.
func (w walk) after(e Event) (walk, error) {
	tr, ok := w.state.On(e)
	if e == Create {
		w.created, w.native = true, true
	}
	if e == PeerFailed {
		w.native = false // UCX closed it
	}
	if e == Abort && w.aborts > 0 {
		w.aborts--
	}
	if e == Close {
		w.closing = true
	}
	if !ok {
		return w, nil
	}
	if w.state.Ended() && !tr.To.Ended() {
		return w, fmt.Errorf("%v on %v revives the endpoint", w.state, e)
	}
	do := func(a Action) int { return min(1, bits.OnesCount16(uint16(tr.Do&a))) }
	w.done += do(CloseDone)
	w.reported += do(Report)
	w.parts += do(EndParts)
	w.aborts += do(StartAbort)
	w.given += do(GiveBack)
	if tr.Do&(ForceClose|GiveBack) != 0 && w.created {
		w.native = false
	}
	w.state = tr.To
	return w, nil
}

// possible is what package ucx and UCX can do in a place: an endpoint is made once, its handshake begins after that,
// and Release follows Close.
func (w walk) possible(e Event) bool {
	switch e {
	case Create:
		return !w.created
	case Connect, Connected:
		return w.created
	case PeerFailed:
		return w.native || !w.created
	case Close:
		return w.created && !w.closing
	case Release:
		return w.closing && w.given == 0
	}
	return true
}

// TestEveryPath explores every path of possible events. On each, Done is closed once, the layers above and the program
// hear of the end once, an endpoint that has ended has no UCX half, and one that was closed is given back once.
func TestEveryPath(t *testing.T) {
	seen := map[walk]bool{}
	todo := []walk{{}}
	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[w] {
			continue
		}
		seen[w] = true
		ended := 0
		if w.state.Ended() {
			ended = 1
		}
		if w.done != ended || w.reported != ended || w.parts != ended {
			t.Fatalf("%+v: Done closed %d times, reported %d, parts ended %d; want %d each", w, w.done, w.reported,
				w.parts, ended)
		}
		if w.state.Ended() && w.native {
			t.Fatalf("%+v: the endpoint has ended and its UCX half is open", w)
		}
		if w.given > 1 || w.given == 1 && w.state != Closed {
			t.Fatalf("%+v: given back %d times in state %v", w, w.given, w.state)
		}
		if w.aborts > 1 {
			t.Fatalf("%+v: %d aborts were started", w, w.aborts)
		}
		for e := range Events {
			if !w.possible(e) {
				continue
			}
			next, err := w.after(e)
			if err != nil {
				t.Fatal(err)
			}
			todo = append(todo, next)
		}
	}
	for s := range States {
		found := false
		for w := range seen {
			found = found || w.state == s
		}
		if !found {
			t.Errorf("no path leads to %v", s)
		}
	}
	t.Logf("%d different endpoints", len(seen))
}

// TestReasons: an end that the peer announced is reported as the peer's close, any other with the error that came.
func TestReasons(t *testing.T) {
	for s := range States {
		for _, e := range []Event{PeerFailed, LifelineEnded, Abort} {
			tr, ok := s.On(e)
			if !ok {
				continue
			}
			if tr.Do&SetReason == 0 {
				t.Errorf("%v on %v sets no reason", s, e)
			}
			want := s.PeerLeaves() && e != Abort
			if got := tr.Do&PeerReason != 0; got != want {
				t.Errorf("%v on %v blames the peer's close: %v, want %v", s, e, got, want)
			}
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for s := range States {
		seen[s.String()] = true
	}
	for e := range Events {
		seen[e.String()] = true
	}
	if len(seen) != int(States)+int(Events) || seen[""] {
		t.Errorf("%d names for %d states and events: %v", len(seen), int(States)+int(Events), seen)
	}
	if got := States.String() + Events.String(); got != "State(9)Event(10)" {
		t.Errorf("names of unknown values: %s", got)
	}
}
