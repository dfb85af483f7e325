package state

import (
	"time"

	"go.millstream.dev/internal/taskid"
)

// scratch is memory that is used again from event to event.
type scratch struct {
	id      []byte
	pools   []*pool
	tasks   []*Task
	workers []*Worker
	keys    []taskid.Key
}

// maxSpare bounds the forgotten tasks whose memory is kept for new ones.
const maxSpare = 4096

// begin makes ready for an event: what the last one has left may be used again from here on.
func (s *State) begin(now time.Time, out *Actions) {
	s.events++
	s.out, s.now, s.nowNs = out, now, now.UnixNano()
	if len(s.gone) > 0 {
		for i, t := range s.gone {
			s.running.forget(t)
			if len(s.spare) < maxSpare {
				deps, dependents := t.deps[:0], t.dependents[:0]
				*t = Task{}
				if cap(deps) <= 8 && cap(dependents) <= 8 {
					t.deps, t.dependents = deps, dependents
				}
				s.spare = append(s.spare, t)
			}
			s.gone[i] = nil
		}
		s.gone = s.gone[:0]
	}
	if len(s.leftWorkers) > 0 {
		s.freeWorkers = append(s.freeWorkers, s.leftWorkers...)
		s.leftWorkers = s.leftWorkers[:0]
	}
	if len(s.leftClients) > 0 {
		s.freeClients = append(s.freeClients, s.leftClients...)
		s.leftClients = s.leftClients[:0]
	}
}
