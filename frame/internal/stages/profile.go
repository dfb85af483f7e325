package stages

import (
	"fmt"
	"slices"
	"time"

	"go.millstream.dev/frame/internal/plan"
)

// Profile has the measurements of a run by operator of the plan.
type Profile struct {
	ops map[profileKey]*sums
}

type profileKey struct {
	node  int
	phase string
}

// sums has the sums over the tasks of an operator.
type sums struct {
	order       int
	tasks       int
	rows, bytes int64
	time        time.Duration
}

func newProfile() *Profile { return &Profile{ops: map[profileKey]*sums{}} }

// record adds the measurements of a task.
func (r *Runner) record(s Stats) {
	for i, o := range s.Ops {
		if i == 0 {
			continue
		}
		k := profileKey{o.Node, o.Phase}
		m := r.profile.ops[k]
		if m == nil {
			m = &sums{order: len(r.profile.ops)}
			r.profile.ops[k] = m
		}
		m.tasks++
		m.rows += o.Rows
		m.bytes += o.Bytes
		m.time += time.Duration(o.Nanos)
	}
}

// Describe returns the plan with the measurements of the run, and the number of its tasks.
func (r *Runner) Describe(n plan.Node) string {
	return plan.Tree(n, r.lines) + fmt.Sprintf("%d tasks\n", r.tasks)
}

// lines returns the measurements of an operator, one line for each part of its work.
func (r *Runner) lines(n plan.Node) []string {
	id, ok := r.ids[n]
	if !ok {
		return nil
	}
	type line struct {
		*sums
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
