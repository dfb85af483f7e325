package execution

import (
	"strings"
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/sidecar"
)

// callPython runs the task in the sidecar and waits for its end.
func (r *Run) callPython(parts [][]byte) error {
	p := r.p
	if p.cfg.Sidecar == nil {
		return p.w.NoPython()
	}
	r.inSidecar.Store(true)
	r.name = keyPrefix(r.key)
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
		if err := p.memory.Keep(r.ctx, r.key, r.name, r.nbytes); err != nil {
			r.result.Release()
			return err
		}
	}
	return nil
}

// Begin records that the task is sent to the sidecar.
func (r *Run) Begin() { r.start = time.Now().UnixNano() }

// keyPrefix returns approximately Dask's prefix of a key: the part before the token.
func keyPrefix(k task.Key) string {
	var text string
	switch v := k.Value().(type) {
	case string:
		text = v
	case wire.Tuple:
		if len(v) > 0 {
			text, _ = v[0].(string)
		}
	case []any:
		if len(v) > 0 {
			text, _ = v[0].(string)
		}
	}
	if i := strings.LastIndexByte(text, '-'); i > 0 {
		return text[:i]
	}
	return text
}
