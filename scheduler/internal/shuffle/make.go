package shuffle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/specs"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// makeRun creates the run of a shuffle in Python, which alone can read the spec in the barrier task.
func (s *Shuffles) makeRun(ctx context.Context, p *planned) (*Run, error) {
	spec, err := specs.Read(p.spec)
	if err != nil {
		return nil, fmt.Errorf("barrier of shuffle %s: %w", p.id, err)
	}
	frames := [][]byte{slices.Concat(p.shared, spec.Pickle)}
	spec.Buffers(func(b []byte) { frames = append(frames, b) })
	existing := make([]any, len(p.existing))
	for i, b := range p.existing {
		existing[i] = b
	}
	workers := make([]any, len(p.workers))
	for i, w := range p.workers {
		workers[i] = w
	}
	m, err := s.callPlanner(ctx, p.id, "shuffle-create",
		msgpack.MapOf("run_id", p.run, "workers", workers, "existing", existing), frames)
	if err != nil {
		return nil, fmt.Errorf("plan shuffle %s: %w", p.id, err)
	}
	if len(m.Frames) < 2 {
		return nil, fmt.Errorf("shuffle %s: reply of the helper has %d frames", p.id, len(m.Frames))
	}
	v, err := msgpack.Decode(m.Body)
	if err != nil {
		return nil, err
	}
	answer, _ := v.(msgpack.Map)
	list, _ := answer.Get("workers")
	names, err := val.Texts(wire.Clone(list))
	if err != nil {
		return nil, fmt.Errorf("shuffle %s: workers: %w", p.id, err)
	}
	x := &Run{ID: p.id, Number: p.run, Barrier: p.barrier, workerFor: m.Frames[0], Workers: map[string]bool{},
		Spec: &wire.Pickled{Data: m.Frames[1]}}
	for _, f := range m.Frames[2:] {
		x.Spec.Buffers = append(x.Spec.Buffers, wire.HeapFrame(f))
	}
	for _, w := range names {
		x.Workers[w] = true
	}
	return x, nil
}

// callPlanner calls a function of millstream.shuffle: in the process that has opened the graph, which has imported the
// modules of the spec, if it is idle; otherwise in the helper for shuffles, whose start takes a second of CPU time.
func (s *Shuffles) callPlanner(ctx context.Context, id, op string, body any, frames [][]byte) (*pyproc.Message, error) {
	if p, release := s.Planner(id); p != nil {
		defer release()
		reply, err := p.Call(ctx, op, body, frames)
		switch {
		case ctx.Err() != nil: // the next graph must not wait for a canceled plan
			p.Kill(errors.New("killed: planning of the shuffle was canceled"))
			return nil, context.Cause(ctx)
		case p.Err() == nil:
			return reply, helpers.Raised(err)
		}
		s.Log.Warn("Python process ended while planning a shuffle; using another one", "shuffle", id,
			"error", p.Err())
	}
	return s.Python(ctx, op, body, frames)
}
