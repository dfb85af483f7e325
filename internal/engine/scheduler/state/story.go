package state

import (
	"fmt"
	"strings"
	"time"

	"go.millstream.dev/internal/taskid"
)

// Transition is one step of a task's life.
type Transition struct {
	Key taskid.Key
	// From and To are the states before and after.
	From, To TaskState
	// When, as Apply was told.
	When time.Time
	// Event is the number of the event that caused it, and Cause its name.
	Event uint64
	Cause string
}

// String is one line for people.
func (t Transition) String() string {
	return fmt.Sprintf("%s event %d (%s): %s %s -> %s", t.When.UTC().Format("15:04:05.000000"), t.Event, t.Cause, t.Key, t.From, t.To)
}

// transitionLog is a ring of the latest transitions.
type transitionLog struct {
	ring  []logged
	next  int
	limit int
}

type logged struct {
	key      taskid.Key
	when     int64
	event    uint64
	from, to TaskState
	cause    cause
}

func (l *transitionLog) add(e logged) {
	if len(l.ring) < l.limit {
		l.ring = append(l.ring, e)
		return
	}
	if l.limit <= 0 {
		return
	}
	l.ring[l.next] = e
	if l.next++; l.next == l.limit {
		l.next = 0
	}
}

// Story is what the log of transitions still knows of some keys, oldest first; of all without any keys.
func (s *State) Story(keys ...taskid.Key) []Transition {
	var story []Transition
	for i := range s.log.ring {
		e := &s.log.ring[(s.log.next+i)%len(s.log.ring)]
		found := len(keys) == 0
		for _, k := range keys {
			found = found || k == e.key
		}
		if found {
			story = append(story, Transition{e.key, e.from, e.to, time.Unix(0, e.when), e.event, e.cause.String()})
		}
	}
	return story
}

// storyText is the story of a task for reports.
func (s *State) storyText(k taskid.Key) string {
	var b strings.Builder
	for _, t := range s.Story(k) {
		b.WriteString("\n\t")
		b.WriteString(t.String())
	}
	if b.Len() == 0 {
		return "\n\t(no transitions in the log)"
	}
	return b.String()
}
