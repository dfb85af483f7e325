package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// maxStimulus is the number of bytes of a stimulus that the log keeps.
const maxStimulus = 40

// ring keeps the last transitions.
type ring struct {
	limit   int
	entries []logEntry
	next    int
}

type logEntry struct {
	key                  taskid.Key
	at                   int64
	start, finish, final TaskState
	kind                 eventKind
	n                    uint8
	stimulus             [maxStimulus]byte
}

func (r *ring) add(s *State, t *Task, start, finish TaskState) {
	if r.limit <= 0 {
		return
	}
	if len(r.entries) < r.limit {
		r.entries = append(r.entries, logEntry{})
		r.next = len(r.entries) - 1
	}
	e := &r.entries[r.next]
	e.key, e.at, e.start, e.finish, e.final, e.kind = t.key, s.now, start, finish, t.state, s.ev.kind()
	e.n = uint8(copy(e.stimulus[:], s.ev.stimulus()))
	r.next++
	if r.next == r.limit {
		r.next = 0
	}
}

// Transition is an entry of the log.
type Transition struct {
	Time time.Time
	Key  taskid.Key
	// Start is the state before, Finish the recommended one, Final the resulting one.
	Start, Finish, Final TaskState
	// Event is Dask's name of the kind of event, Stimulus the name of the event.
	Event, Stimulus string
}

// String returns the entry as one line.
func (t Transition) String() string {
	s := fmt.Sprintf("%s %v: %v->%v", t.Time.UTC().Format("15:04:05.000000"), t.Key, t.Start, t.Finish)
	if t.Final != t.Finish {
		s += fmt.Sprintf(" became %v", t.Final)
	}
	s += " by " + t.Event
	if t.Stimulus != "" {
		s += " " + t.Stimulus
	}
	return s
}

// Log returns the last transitions, oldest first.
func (s *State) Log() []Transition { return s.log.filter(func(*logEntry) bool { return true }) }

// Story returns the transitions of keys and events in the log, oldest first. (get_story)
func (s *State) Story(keys []taskid.Key, stimuli []string) []Transition {
	return s.log.filter(func(e *logEntry) bool {
		return slices.Contains(keys, e.key) ||
			slices.ContainsFunc(stimuli,
				func(x string) bool { return x[:min(len(x), maxStimulus)] == string(e.stimulus[:e.n]) })
	})
}

func (r *ring) filter(want func(*logEntry) bool) []Transition {
	var out []Transition
	for i := range r.entries {
		e := &r.entries[i]
		if len(r.entries) == r.limit {
			e = &r.entries[(r.next+i)%r.limit]
		}
		if want(e) {
			out = append(out, Transition{time.Unix(0, e.at), e.key, e.start, e.finish, e.final, e.kind.String(),
				string(e.stimulus[:e.n])})
		}
	}
	return out
}

func (r *ring) text(key taskid.Key) string {
	var b strings.Builder
	for _, t := range r.filter(func(e *logEntry) bool { return e.key == key }) {
		fmt.Fprintf(&b, "\n    %v", t)
	}
	return b.String()
}

// InvalidTransition is the panic value of Apply for a transition that does not exist: the machine is broken.
type InvalidTransition struct {
	// Task is the task, as text.
	Task string
	// Start and Finish are the states.
	Start, Finish TaskState
	// Story is the part of the log about the key.
	Story string
}

// Error returns the transition and the story.
func (e *InvalidTransition) Error() string {
	return fmt.Sprintf("worker/state: %s: no transition from %v to %v; story:%s", e.Task, e.Start, e.Finish, e.Story)
}

func invalid(s *State, t *Task, finish TaskState) *InvalidTransition {
	return &InvalidTransition{t.String(), t.state, finish, s.log.text(t.key)}
}
