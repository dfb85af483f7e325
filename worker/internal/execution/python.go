package execution

import (
	"time"

	"go.millstream.dev/internal/task/taskid/keysplit"
	"go.millstream.dev/worker/internal/sidecar"
)

// callPython runs the task in the sidecar and waits for its end.
func (r *Run) callPython(parts [][]byte) error {
	p := r.p
	if p.cfg.Sidecar == nil {
		return p.w.NoPython()
	}
	r.inSidecar.Store(true)
	r.name = keysplit.Prefix(keysplit.Group(r.key))
	limited := p.memory.Limited() && !r.actor
	if limited {
		if err := r.reserve(); err != nil {
			return err
		}
		defer r.unreserve()
	}
	call := sidecar.Call{Key: r.key, Spec: parts, Annotations: r.annotations, Actor: r.actor, Deps: r.deps, Task: r}
	out, err := p.cfg.Sidecar.Run(&call)
	if out.Stop > 0 {
		r.start, r.stop, r.thread = out.Start, out.Stop, out.Thread
	}
	r.lost = out.Lost
	if err != nil {
		return err
	}
	r.result, r.nbytes, r.typeName = out.Value, out.NBytes, out.TypeName
	if limited {
		r.unreserve()
		if err := p.memory.Keep(r.c, r.key, r.name, r.nbytes); err != nil {
			r.result.Release()
			return err
		}
	}
	return nil
}

// Begin records that the task is sent to the sidecar.
func (r *Run) Begin() { r.start = time.Now().UnixNano() }
