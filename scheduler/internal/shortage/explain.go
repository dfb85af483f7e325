package shortage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/scheduler/internal/peers"
)

// explain describes why no worker can run the tasks of a shortage, and the remedy. p is the client's program, nil if
// unknown.
func (s *Shortages) explain(sh *state.Shortage, p *peers.Program) string {
	switch sh.Reason {
	case state.NoWorkersThere:
		return s.explainEmpty(sh)
	case state.NoFunctions, state.NoBuild:
		return s.explainFunctions(sh, p)
	case state.NoAbility:
		if sh.Needs&state.Go != 0 {
			return "no worker runs Go functions; start Millstream workers"
		}
		return "no worker runs Python; start Dask workers, or Millstream workers with a Python (millstream worker " +
			"--python)"
	case state.NoNamed:
		return fmt.Sprintf("restricted to workers or hosts %s, none of which has joined; the scheduler has %s",
			strings.Join(sh.Workers, ", "),
			s.workerList(func(w *peers.Worker) string { return fmt.Sprintf("%s (name %v)", w.Address, w.Name) }))
	case state.NoResources:
		for i, r := range sh.Resources {
			switch best := sh.Best[i]; {
			case best < 0:
				return fmt.Sprintf("the tasks require resource %s=%g, and no worker has resource %s; start workers "+
					"with --resources %s=%g",
					r.Name, r.Amount, r.Name, r.Name, r.Amount)
			case best < r.Amount:
				return fmt.Sprintf("the tasks require resource %s=%g, and the most that a worker has is %g; start "+
					"workers with --resources %s=%g",
					r.Name, r.Amount, best, r.Name, r.Amount)
			}
		}
		return "no single worker has all resources that the tasks require: " + resourceText(sh.Resources)
	case state.NotRunning:
		return "the workers that could run the tasks are not running: " +
			s.workerList(func(w *peers.Worker) string { return w.Address + " is " + s.statusOf(w) })
	}
	demands := resourceText(sh.Resources)
	if len(sh.Workers) > 0 {
		demands = strings.TrimSpace("one of the workers or hosts " + strings.Join(sh.Workers, ", ") + " " + demands)
	}
	if sh.Registry != "" {
		demands += " and the functions of the client"
	}
	return "no worker meets all requirements of the tasks: " + demands
}

func (s *Shortages) explainEmpty(sh *state.Shortage) string {
	text := "no workers have joined the scheduler at " + s.Contact()
	if s.WorkersAdded() > 0 {
		text = "all workers have left the scheduler at " + s.Contact()
	}
	if sh.Registry != "" {
		return text + "; start workers of the client's program: PROGRAM worker " + s.Contact()
	}
	return text + "; start one: millstream worker " + s.Contact()
}

func (s *Shortages) explainFunctions(sh *state.Shortage, p *peers.Program) string {
	if p == nil || p.Functions() != functionsOf(sh.Registry) {
		p = &peers.Program{Registry: sh.Registry}
	}
	var near *peers.Worker // the worker with the most of the functions
	var its *peers.Program
	ours := 0
	for _, w := range s.Workers.ByAddress {
		v := w.Program()
		if v == nil {
			continue
		}
		ours++
		if its == nil || cmp.Or(cmp.Compare(closeness(v, p), closeness(its, p)),
			cmp.Compare(near.Address, w.Address)) > 0 {
			near, its = w, v
		}
	}
	switch {
	case its == nil:
		return fmt.Sprintf("no worker has the functions of this client: the %d workers are not Millstream's and run "+
			"no Go functions; "+
			"start workers of the client's program: PROGRAM worker %s", len(s.Workers.ByAddress), s.Contact())
	case sh.Reason == state.NoBuild:
		return fmt.Sprintf("no worker has the build of this client, %s: worker %s%s runs %s; restart the workers "+
			"with the client's program, "+
			"or allow other builds (millstream.any-build)", p.BuildText(), near.Address, andOthers(ours-1),
			its.BuildText())
	}
	what := "other functions"
	if len(p.Signatures) > 0 {
		what = its.Difference(p)
	}
	return fmt.Sprintf("no worker has the functions of this client: worker %s%s, built from %s, has %s; "+
		"start workers of the client's program: PROGRAM worker %s", near.Address, andOthers(ours-1), its.BuildText(),
		noSuch(what), s.Contact())
}

// noSuch rephrases functions that a worker lacks as functions that it has.
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

// closeness returns the number of functions that two programs share; programs with equal functions are the closest.
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
func (s *Shortages) workerList(text func(*peers.Worker) string) string {
	const most = 5
	all := make([]*peers.Worker, 0, len(s.Workers.ByAddress))
	for _, w := range s.Workers.ByAddress {
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

func (s *Shortages) statusOf(w *peers.Worker) string {
	if sw := s.State.Worker(w.ID); sw != nil {
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
