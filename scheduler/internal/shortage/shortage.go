// Package shortage warns of tasks that no running worker can run, explains why, and fails those that can never run.
package shortage

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
)

// Host is the part of the scheduler that Shortages uses.
type Host struct {
	Loop    loop.Loop
	Log     *slog.Logger
	State   *state.State
	Apply   func(state.Event)
	Workers *peers.Workers
	Clients *peers.Clients
	// Publish publishes an event to topics, Contact returns the address of the scheduler, and WorkersAdded the number
	// of workers that have ever joined. All run in the loop.
	Publish      func(msg any, topics ...string)
	Contact      func() string
	WorkersAdded func() int64
	// After is how long tasks may wait before a warning, negative for no warning. Closed declares that no workers of
	// other programs or with other resources will join. TickInterval is the time between two calls of Tick.
	After        time.Duration
	Closed       bool
	TickInterval time.Duration
}

// Shortages are the reported shortages of tasks that no running worker can run. The loop owns it.
type Shortages struct {
	Host
	next   time.Time // of the next check
	known  map[string]*shortage
	opened bool // Open was called
}

// New returns Shortages without entries.
func New(h Host) *Shortages { return &Shortages{Host: h, known: map[string]*shortage{}} }

// shortage is a logged shortage.
type shortage struct {
	reason state.Reason
	text   string
	tasks  int
	again  time.Time // of the next log line
	pause  time.Duration
	seen   bool // by the current check
}

const (
	// shortageInterval is the minimum time between two checks, and shortageCost the minimum as a multiple of the
	// duration of a check.
	shortageInterval = 500 * time.Millisecond
	shortageCost     = 50
	// shortagePause bounds the time between two log lines about one shortage.
	shortagePause = 10 * time.Minute
)

// Tick warns of tasks that have waited for longer than Host.After because no running worker can run them: in the log,
// in the topic "scheduler" and at Millstream clients. It fails those that can never run, see Host.Closed.
func (s *Shortages) Tick() {
	closed, after := s.Closed && !s.opened, s.After
	if after < 0 && !closed || s.Loop.Now().Before(s.next) || !s.State.Short() && len(s.known) == 0 {
		return
	}
	start := time.Now()
	all := s.failHopeless(s.State.Shortages(true))
	due := map[*peers.Client][]message.Shortage{}
	repeat := map[*peers.Client]bool{}
	for _, k := range s.known {
		k.seen = false
	}
	for i := range all {
		sh := &all[i]
		if after < 0 || s.Loop.Now().Sub(sh.Since) < after {
			continue
		}
		again := s.logShortage(sh)
		for _, of := range sh.Clients {
			c := s.Clients.ByID(of.Client)
			if c == nil || c.Stream == nil || c.Stream.Gone || !c.Stream.Ours {
				continue
			}
			due[c] = append(due[c], message.Shortage{Reason: sh.Reason.String(), Text: s.explain(sh, c.Program),
				Tasks: int64(sh.Tasks), Keys: of.Keys, More: of.More})
			repeat[c] = repeat[c] || again
		}
	}
	for id, k := range s.known {
		if !k.seen {
			delete(s.known, id)
			s.Log.Info("tasks can run again", "reason", k.reason.String(), "detail", k.text)
			s.Publish(msgpack.MapOf("action", "tasks-runnable", "reason", k.reason.String(), "message", k.text),
				"scheduler")
		}
	}
	s.reportShortages(due, repeat)
	interval := shortageInterval
	if closed {
		interval = s.TickInterval
	}
	if after > 0 {
		interval = min(interval, after)
	}
	s.next = s.Loop.Now().Add(max(interval, shortageCost*time.Since(start)))
}

// logShortage logs a shortage when it is new, and again after intervals that double. It reports whether it did so.
func (s *Shortages) logShortage(sh *state.Shortage) bool {
	id := shortageID(sh)
	k := s.known[id]
	if k == nil {
		k = &shortage{pause: s.After}
		s.known[id] = k
	}
	k.reason, k.tasks, k.seen = sh.Reason, sh.Tasks, true
	if s.Loop.Now().Before(k.again) {
		return false
	}
	k.text = s.explain(sh, s.programFor(sh))
	k.pause = min(max(2*k.pause, time.Second), shortagePause)
	k.again = s.Loop.Now().Add(k.pause)
	s.Log.Warn("no worker can run the tasks", "reason", sh.Reason.String(), "tasks", sh.Tasks, "example",
		sh.Example.String(),
		"waiting", s.Loop.Now().Sub(sh.Since).Round(time.Millisecond), "detail", k.text)
	s.Publish(msgpack.MapOf("action", "tasks-unrunnable", "reason", sh.Reason.String(), "tasks", sh.Tasks, "key",
		sh.Example.String(),
		"message", k.text), "scheduler")
	return true
}

// shortageID returns a text that identifies a shortage across checks.
func shortageID(sh *state.Shortage) string {
	return fmt.Sprint(sh.Reason, sh.Registry, sh.Needs, sh.Workers, sh.Resources)
}

// reportShortages sends shortages to the Millstream clients that wait, if they have changed or are due again.
func (s *Shortages) reportShortages(due map[*peers.Client][]message.Shortage, repeat map[*peers.Client]bool) {
	for _, c := range s.Clients.ByName {
		list := due[c]
		if c.Stream == nil || c.Stream.Gone || !c.Stream.Ours || len(list) == 0 && c.Short == "" {
			continue
		}
		sum := ""
		if len(list) > 0 {
			sum = shortageSum(list)
		}
		if sum != c.Short || repeat[c] {
			c.Stream.Send(&message.Unrunnable{Shortages: list, Repeat: repeat[c]})
		}
		c.Short = sum
	}
}

// shortageSum returns a text that is equal for messages with the same content.
func shortageSum(list []message.Shortage) string {
	var b message.Buffer
	f := message.Unrunnable{Shortages: list}
	f.Append(&b)
	return string(b.Body)
}

// failHopeless fails the tasks that no worker of a closed cluster can ever run, and returns the other shortages.
func (s *Shortages) failHopeless(all []state.Shortage) []state.Shortage {
	if !s.Closed || s.opened {
		return all
	}
	for {
		i := slices.IndexFunc(all, func(sh state.Shortage) bool {
			switch sh.Reason {
			case state.NoFunctions, state.NoBuild, state.NoAbility, state.NoResources:
				return true
			}
			return false
		})
		if i < 0 {
			return all
		}
		text := s.explain(&all[i], s.programFor(&all[i]))
		s.Log.Warn("tasks failed: no worker of this cluster can ever run them", "reason", all[i].Reason.String(),
			"tasks", all[i].Tasks,
			"example", all[i].Example.String(), "detail", text)
		s.Apply(&state.FailShortage{Shortage: &all[i], Text: text})
		all = s.State.Shortages(true) // the state has changed
	}
}

// programFor returns the program of a client that waits; nil if none is known.
func (s *Shortages) programFor(sh *state.Shortage) *peers.Program {
	for _, of := range sh.Clients {
		if c := s.Clients.ByID(of.Client); c != nil && c.Program != nil {
			return c.Program
		}
	}
	return nil
}

// Open ends Host.Closed: workers of other programs may join afterwards. It runs in the loop.
func (s *Shortages) Open() { s.opened = true }

// Entry is a shortage in the form of the HTTP server.
type Entry struct {
	Reason  string  `json:"reason"`
	Tasks   int     `json:"tasks"`
	Example string  `json:"example"`
	Seconds float64 `json:"seconds"` // since the shortage began
	Detail  string  `json:"detail"`
}

// List returns the tasks that no running worker can run, by their requirements. It runs in the loop.
func (s *Shortages) List() []Entry {
	list := []Entry{}
	for _, sh := range s.State.Shortages(true) {
		list = append(list, Entry{
			sh.Reason.String(), sh.Tasks, sh.Example.String(), max(0, s.Loop.Now().Sub(sh.Since).Seconds()),
			s.explain(&sh, s.programFor(&sh)),
		})
	}
	return list
}
