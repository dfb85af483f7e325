package scheduler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
)

// shortages is what the scheduler has said about tasks that no running worker can take. The loop owns it.
type shortages struct {
	next   time.Time // of the next look
	known  map[string]*shortage
	opened bool // Open was called
}

// shortage is one that has been logged.
type shortage struct {
	reason state.Reason
	text   string
	tasks  int
	again  time.Time // of the next log line
	pause  time.Duration
	seen   bool // by the present look
}

const (
	// shortageInterval is the least time between two looks, and shortageCost how many times the duration of a look.
	shortageInterval = 500 * time.Millisecond
	shortageCost     = 50
	// shortagePause bounds the time between two log lines about one shortage.
	shortagePause = 10 * time.Minute
)

// checkShortages warns of tasks that have waited for longer than Config.UnrunnableAfter because no running worker can take
// them: in the log, in the topic "scheduler" and at our clients. It fails those that can never run, see Config.Closed.
func (s *Scheduler) checkShortages() {
	x := &s.short
	closed, after := s.cfg.Closed && !x.opened, s.cfg.UnrunnableAfter
	if after < 0 && !closed || s.loop.Now().Before(x.next) || !s.state.Short() && len(x.known) == 0 {
		return
	}
	start := time.Now()
	all := s.failHopeless(s.state.Shortages(true))
	told := map[*peers.Client][]any{}
	repeat := map[*peers.Client]bool{}
	for _, k := range x.known {
		k.seen = false
	}
	for i := range all {
		sh := &all[i]
		if after < 0 || s.loop.Now().Sub(sh.Since) < after {
			continue
		}
		again := s.logShortage(sh)
		for _, of := range sh.Clients {
			c := s.clients.ByID(of.Client)
			if c == nil || c.Stream == nil || c.Stream.Gone || !c.Stream.Ours {
				continue
			}
			told[c] = append(told[c], msgpack.MapOf("reason", sh.Reason.String(), "text", s.explain(sh, c.Program), "tasks", sh.Tasks,
				"keys", val.RawKeys(of.Keys), "more", of.More))
			repeat[c] = repeat[c] || again
		}
	}
	for id, k := range x.known {
		if !k.seen {
			delete(x.known, id)
			s.log.Info("tasks can run again", "reason", k.reason.String(), "detail", k.text)
			s.topics.Publish(msgpack.MapOf("action", "tasks-runnable", "reason", k.reason.String(), "message", k.text), "scheduler")
		}
	}
	s.reportShortages(told, repeat)
	interval := shortageInterval
	if closed {
		interval = s.tickInterval()
	}
	if after > 0 {
		interval = min(interval, after)
	}
	x.next = s.loop.Now().Add(max(interval, shortageCost*time.Since(start)))
}

// logShortage logs a shortage when it is new, and again after pauses that double. It reports whether it did so.
func (s *Scheduler) logShortage(sh *state.Shortage) bool {
	id := shortageID(sh)
	k := s.short.known[id]
	if k == nil {
		if s.short.known == nil {
			s.short.known = map[string]*shortage{}
		}
		k = &shortage{pause: s.cfg.UnrunnableAfter}
		s.short.known[id] = k
	}
	k.reason, k.tasks, k.seen = sh.Reason, sh.Tasks, true
	if s.loop.Now().Before(k.again) {
		return false
	}
	k.text = s.explain(sh, s.programFor(sh))
	k.pause = min(max(2*k.pause, time.Second), shortagePause)
	k.again = s.loop.Now().Add(k.pause)
	s.log.Warn("no worker can run the tasks", "reason", sh.Reason.String(), "tasks", sh.Tasks, "example", sh.Example.String(),
		"waiting", s.loop.Now().Sub(sh.Since).Round(time.Millisecond), "detail", k.text)
	s.topics.Publish(msgpack.MapOf("action", "tasks-unrunnable", "reason", sh.Reason.String(), "tasks", sh.Tasks, "key", sh.Example.String(),
		"message", k.text), "scheduler")
	return true
}

// shortageID is what makes two shortages the same at different times.
func shortageID(sh *state.Shortage) string {
	return fmt.Sprint(sh.Reason, sh.Registry, sh.Needs, sh.Workers, sh.Resources)
}

// reportShortages sends our clients what they wait for, where that has changed or is due again.
func (s *Scheduler) reportShortages(told map[*peers.Client][]any, repeat map[*peers.Client]bool) {
	for _, c := range s.clients.ByName {
		list := told[c]
		if c.Stream == nil || c.Stream.Gone || !c.Stream.Ours || len(list) == 0 && c.Short == "" {
			continue
		}
		sum := ""
		if len(list) > 0 {
			sum = shortageSum(list)
		}
		if sum != c.Short || repeat[c] {
			c.Stream.SendValue(msgpack.MapOf("op", "millstream-unrunnable", "shortages", list, "repeat", repeat[c]))
		}
		c.Short = sum
	}
}

// shortageSum is a text that is equal for messages with the same content.
func shortageSum(list []any) string {
	b, err := msgpack.Append(nil, list)
	if err != nil {
		return fmt.Sprint(list...)
	}
	return string(b)
}

// failHopeless fails the tasks that no worker of a closed cluster will ever run, and returns the other shortages.
func (s *Scheduler) failHopeless(all []state.Shortage) []state.Shortage {
	if !s.cfg.Closed || s.short.opened {
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
		s.log.Warn("tasks failed: no worker of this cluster can ever run them", "reason", all[i].Reason.String(), "tasks", all[i].Tasks,
			"example", all[i].Example.String(), "detail", text)
		s.apply(&state.FailShortage{Shortage: &all[i], Text: text})
		all = s.state.Shortages(true) // the others were those of the state before
	}
}

// programFor returns the program of a client that waits; nil when none is known.
func (s *Scheduler) programFor(sh *state.Shortage) *peers.Program {
	for _, of := range sh.Clients {
		if c := s.clients.ByID(of.Client); c != nil && c.Program != nil {
			return c.Program
		}
	}
	return nil
}

// Open ends Config.Closed: workers of other programs may join from now on.
func (s *Scheduler) Open() {
	_ = s.loop.Do(s.ctx, func() { s.short.opened = true }) // a scheduler that has ended has no tasks to fail
}

// unrunnableJSON answers /millstream/unrunnable: the tasks that no running worker can take, by what they need.
func (s *Scheduler) unrunnableJSON(r *http.Request) ([]byte, error) {
	type entry struct {
		Reason  string  `json:"reason"`
		Tasks   int     `json:"tasks"`
		Example string  `json:"example"`
		Seconds float64 `json:"seconds"`
		Detail  string  `json:"detail"`
	}
	list, err := loop.Ask(r.Context(), s.loop, func() ([]entry, error) {
		list := []entry{}
		for _, sh := range s.state.Shortages(true) {
			list = append(list, entry{sh.Reason.String(), sh.Tasks, sh.Example.String(), max(0, s.loop.Now().Sub(sh.Since).Seconds()), s.explain(&sh, s.programFor(&sh))})
		}
		return list, nil
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"unrunnable": list})
}

// explain says why no worker takes the tasks of a shortage, and what to do. p is the client's program, nil when unknown.
func (s *Scheduler) explain(sh *state.Shortage, p *peers.Program) string {
	switch sh.Reason {
	case state.NoWorkersThere:
		return s.explainEmpty(sh)
	case state.NoFunctions, state.NoBuild:
		return s.explainFunctions(sh, p)
	case state.NoAbility:
		if sh.Needs&state.Go != 0 {
			return "no worker runs Go functions; start Millstream workers"
		}
		return "no worker runs Python; start Dask workers, or Millstream workers with a Python (millstream worker --python)"
	case state.NoNamed:
		return fmt.Sprintf("restricted to workers or hosts %s, none of which has joined; the scheduler has %s",
			strings.Join(sh.Workers, ", "), s.workerList(func(w *peers.Worker) string { return fmt.Sprintf("%s (name %v)", w.Address, w.Name) }))
	case state.NoResources:
		for i, r := range sh.Resources {
			switch best := sh.Best[i]; {
			case best < 0:
				return fmt.Sprintf("the tasks want resource %s=%g, and no worker has resource %s; start workers with --resources %s=%g",
					r.Name, r.Amount, r.Name, r.Name, r.Amount)
			case best < r.Amount:
				return fmt.Sprintf("the tasks want resource %s=%g, and the most that a worker has is %g; start workers with --resources %s=%g",
					r.Name, r.Amount, best, r.Name, r.Amount)
			}
		}
		return "no worker has all resources at once that the tasks want: " + resourceText(sh.Resources)
	case state.NotRunning:
		return "the workers that could run the tasks take none at present: " +
			s.workerList(func(w *peers.Worker) string { return w.Address + " is " + s.statusOf(w) })
	}
	demands := resourceText(sh.Resources)
	if len(sh.Workers) > 0 {
		demands = strings.TrimSpace("one of the workers or hosts " + strings.Join(sh.Workers, ", ") + " " + demands)
	}
	if sh.Registry != "" {
		demands += " and the functions of the client"
	}
	return "no worker meets all demands of the tasks: " + demands
}

func (s *Scheduler) explainEmpty(sh *state.Shortage) string {
	text := "no workers have joined the scheduler at " + s.contact
	if s.totals.workersAdded > 0 {
		text = "all workers have left the scheduler at " + s.contact
	}
	if sh.Registry != "" {
		return text + "; start workers of the client's program: PROGRAM worker " + s.contact
	}
	return text + "; start one: millstream worker " + s.contact
}

func (s *Scheduler) explainFunctions(sh *state.Shortage, p *peers.Program) string {
	if p == nil || p.Functions() != functionsOf(sh.Registry) {
		p = &peers.Program{Registry: sh.Registry}
	}
	var near *peers.Worker // the one that has most of the functions
	var its *peers.Program
	ours := 0
	for _, w := range s.workers.ByAddress {
		v := w.Program()
		if v == nil {
			continue
		}
		ours++
		if its == nil || cmp.Or(cmp.Compare(closeness(v, p), closeness(its, p)), cmp.Compare(near.Address, w.Address)) > 0 {
			near, its = w, v
		}
	}
	switch {
	case its == nil:
		return fmt.Sprintf("no worker has the functions of this client: the %d workers are not Millstream's and run no Go functions; "+
			"start workers of the client's program: PROGRAM worker %s", len(s.workers.ByAddress), s.contact)
	case sh.Reason == state.NoBuild:
		return fmt.Sprintf("no worker has the build of this client, %s: worker %s%s runs %s; restart the workers with the client's program, "+
			"or allow other builds (millstream.any-build)", p.BuildText(), near.Address, andOthers(ours-1), its.BuildText())
	}
	what := "other functions"
	if len(p.Signatures) > 0 {
		what = its.Difference(p)
	}
	return fmt.Sprintf("no worker has the functions of this client: worker %s%s, built from %s, has %s; "+
		"start workers of the client's program: PROGRAM worker %s", near.Address, andOthers(ours-1), its.BuildText(), noSuch(what), s.contact)
}

// noSuch turns what a worker lacks into what it has.
func noSuch(what string) string {
	if rest, ok := strings.CutPrefix(what, "missing "); ok {
		return "no " + rest
	}
	return what
}

func andOthers(n int) string {
	switch {
	case n == 1:
		return " and 1 other"
	case n > 1:
		return fmt.Sprintf(" and %d others", n)
	}
	return ""
}

func functionsOf(registry string) string {
	functions, _ := task.SplitHash(registry)
	return functions
}

// closeness counts the functions that two programs share; programs with equal functions are the closest.
func closeness(a, b *peers.Program) int {
	if a.Functions() == b.Functions() {
		return peers.MaxFunctions + 1
	}
	n := 0
	for name, sum := range b.Signatures {
		if a.Signatures[name] == sum {
			n++
		}
	}
	return n
}

// workerList lists some workers, in the order of their addresses.
func (s *Scheduler) workerList(text func(*peers.Worker) string) string {
	const most = 5
	all := make([]*peers.Worker, 0, len(s.workers.ByAddress))
	for _, w := range s.workers.ByAddress {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *peers.Worker) int { return strings.Compare(a.Address, b.Address) })
	parts := make([]string, 0, most)
	for _, w := range all[:min(len(all), most)] {
		parts = append(parts, text(w))
	}
	if len(parts) == 0 {
		return "no workers"
	}
	return strings.Join(parts, ", ") + andOthers(len(all)-len(parts))
}

func (s *Scheduler) statusOf(w *peers.Worker) string {
	if sw := s.state.Worker(w.ID); sw != nil {
		return sw.Status().String()
	}
	return "leaving"
}

func resourceText(list []state.Resource) string {
	parts := make([]string, len(list))
	for i, r := range list {
		parts[i] = fmt.Sprintf("%s=%g", r.Name, r.Amount)
	}
	if len(parts) == 0 {
		return ""
	}
	return "resources " + strings.Join(parts, ", ")
}
