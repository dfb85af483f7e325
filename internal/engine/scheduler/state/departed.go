package state

import (
	"slices"
	"time"

	"go.millstream.dev/internal/taskid"
)

// departed is what the state remembers of a removed worker that may come back: which results it held and which tasks it
// ran. When it is added again, it may announce those and no others, see mayAdopt.
type departed struct {
	token   string
	address string
	at      int64 // time of the removal, in nanoseconds
	keys    []taskid.Key
}

// awaitedData is data from outside whose last holder has left and may come back with it.
type awaitedData struct {
	token string
	key   taskid.Key
	until int64 // in nanoseconds
}

const (
	// departedTime bounds how long a removed worker is remembered.
	departedTime = 10 * time.Minute
	// maxDepartedKeys bounds how many keys of removed workers are remembered in all: those of the latest.
	maxDepartedKeys = 1 << 20
)

// depart remembers a worker that is being removed, with the tasks that it runs.
func (s *State) depart(w *Worker, processing []*Task) {
	if w.token == "" {
		return
	}
	d := departed{token: w.token, address: w.address, at: s.nowNs}
	d.keys = make([]taskid.Key, 0, min(len(w.holds)+len(processing)+len(w.former), maxDepartedKeys))
	add := func(k taskid.Key) {
		if len(d.keys) < maxDepartedKeys {
			d.keys = append(d.keys, k)
		}
	}
	for i := range w.holds {
		add(w.holds[i].t.key)
	}
	for _, t := range processing {
		add(t.key)
	}
	for k := range w.former {
		add(k)
	}
	w.former = nil
	s.departed = append(s.departed, d)
	total := 0
	for i := len(s.departed) - 1; i >= 0; i-- {
		if total += len(s.departed[i].keys); total > maxDepartedKeys {
			s.departed = slices.Delete(s.departed, 0, i+1)
			break
		}
	}
}

// comeBack finds what a worker that is being added held and ran before it was removed.
func (s *State) comeBack(w *Worker) {
	if w.token == "" {
		return
	}
	for i := len(s.departed) - 1; i >= 0; i-- {
		if d := &s.departed[i]; d.token == w.token && d.address == w.address {
			w.former = make(map[taskid.Key]struct{}, len(d.keys))
			for _, k := range d.keys {
				w.former[k] = struct{}{}
			}
			s.departed = slices.Delete(s.departed, i, i+1)
			break
		}
	}
	for i := range s.awaited {
		if a := &s.awaited[i]; a.token == w.token { // its announcement is still to come
			a.until = max(a.until, s.nowNs+int64(announceTime))
		}
	}
}

// announceTime is how long a worker that has come back is given to announce what it holds.
const announceTime = 5 * time.Second

// await keeps data from outside whose last holder has left: it is taken from that worker when it comes back, and lost
// when the time is over.
func (s *State) await(t *Task, w *Worker, wait time.Duration) {
	s.dropReplica(t, w)
	s.setState(t, Waiting)
	s.tellAll(LostData, t)
	s.unready(t)
	s.awaited = append(s.awaited, awaitedData{w.token, t.key, s.nowNs + int64(wait)})
}

// forgetDeparted ends the wait for workers: for the one with a token, and for those whose time is over.
func (s *State) forgetDeparted(token string) {
	if len(s.departed) > 0 {
		s.departed = slices.DeleteFunc(s.departed, func(d departed) bool {
			return token != "" && d.token == token || s.nowNs-d.at > int64(departedTime)
		})
	}
	if len(s.awaited) == 0 {
		return
	}
	s.awaited = slices.DeleteFunc(s.awaited, func(a awaitedData) bool {
		t := s.tasks.get(a.key)
		if t == nil || !t.expecting() {
			return true
		}
		if (token == "" || a.token != token) && s.nowNs < a.until {
			return false
		}
		if !s.held || !slices.Contains(s.expected, a.key) {
			s.recommend(t, toForgotten)
		}
		return true
	})
}
