package stages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/frame/internal/plan"
)

// Profile has the measurements of a run by operator of the plan.
type Profile struct {
	ops map[profileKey]*measured
	// Tasks is the number of tasks that were submitted.
	Tasks int
}

type profileKey struct {
	node  int
	phase string
}

// measured has the sums over the tasks of an operator.
type measured struct {
	order       int
	tasks       int
	rows, bytes int64
	time        time.Duration
}

func newProfile() *Profile { return &Profile{ops: map[profileKey]*measured{}} }

// record adds the measurements of a task.
func (r *Runner) record(s Stats) {
	for i, o := range s.Ops {
		if i == 0 {
			continue
		}
		k := profileKey{o.Node, o.Phase}
		m := r.profile.ops[k]
		if m == nil {
			m = &measured{order: len(r.profile.ops)}
			r.profile.ops[k] = m
		}
		m.tasks++
		m.rows += o.Rows
		m.bytes += o.Bytes
		m.time += time.Duration(o.Nanos)
	}
}

// Describe returns the plan with the measurements of the run.
func (r *Runner) Describe(n plan.Node) string {
	return plan.Tree(n, r.lines)
}

// lines returns the measurements of an operator, one line for each part of its work.
func (r *Runner) lines(n plan.Node) []string {
	id, ok := r.ids[n]
	if !ok {
		return nil
	}
	type line struct {
		*measured
		phase string
	}
	var all []line
	for k, m := range r.profile.ops {
		if k.node == id {
			all = append(all, line{m, k.phase})
		}
	}
	slices.SortFunc(all, func(a, b line) int { return a.order - b.order })
	var out []string
	for _, l := range all {
		text := fmt.Sprintf("%d rows, %s, %v in %d task", l.rows, plan.Size(l.bytes),
			l.time.Round(10*time.Microsecond), l.tasks)
		if l.tasks != 1 {
			text += "s"
		}
		if l.phase != "" {
			text = l.phase + ": " + text
		}
		out = append(out, text)
	}
	return out
}

// String returns the number of tasks.
func (p *Profile) String() string { return strings.TrimSpace(fmt.Sprintf("%d tasks", p.Tasks)) }
