package scheduler

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/wire"
	"go.millstream.dev/wire/msgpack"
)

// makeRun lets Python make the run of a shuffle: only it knows what the spec in the barrier
// task is.
func (s *Scheduler) makeRun(ctx context.Context, p *shufflePlan) (*shuffle, error) {
	spec, err := readSpec(p.spec)
	if err != nil {
		return nil, fmt.Errorf("the barrier of shuffle %s: %w", p.id, err)
	}
	frames := [][]byte{slices.Concat(p.shared, spec.pickle)}
	spec.each(func(b []byte) { frames = append(frames, b) })
	existing := make([]any, len(p.existing))
	for i, b := range p.existing {
		existing[i] = b
	}
	workers := make([]any, len(p.workers))
	for i, w := range p.workers {
		workers[i] = w
	}
	m, err := s.callHelper(ctx, moduleShuffle, "shuffle-create", msgpack.MapOf("run_id", p.run, "workers", workers, "existing", existing), frames)
	if err != nil {
		return nil, fmt.Errorf("shuffle %s cannot be planned: %w", p.id, err)
	}
	if len(m.Frames) < 2 {
		return nil, fmt.Errorf("shuffle %s: the helper's answer has %d frames", p.id, len(m.Frames))
	}
	v, err := msgpack.Decode(m.Body)
	if err != nil {
		return nil, err
	}
	answer, _ := v.(msgpack.Map)
	list, _ := answer.Get("workers")
	names, err := texts(wire.Clone(list))
	if err != nil {
		return nil, fmt.Errorf("shuffle %s: workers: %w", p.id, err)
	}
	x := &shuffle{id: p.id, run: p.run, barrier: p.barrier, workerFor: m.Frames[0], workers: map[string]bool{}, spec: &wire.Pickled{Data: m.Frames[1]}}
	for _, f := range m.Frames[2:] {
		x.spec.Buffers = append(x.spec.Buffers, wire.HeapFrame(f))
	}
	for _, w := range names {
		x.workers[w] = true
	}
	return x, nil
}
