package ucxbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/device/cucount"
)

// countEnv returns the environment in which the children of a mapping case count driver calls. The library is compiled
// once per run.
func (r *runner) countEnv(ctx context.Context) ([]string, error) {
	if r.counter == "" {
		dir, err := os.MkdirTemp("", "millstream-bench-")
		if err != nil {
			return nil, err
		}
		r.counterDir = dir
		if r.counter, err = cucount.Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	return cucount.Env(r.starter.Environ, r.counter, r.counterDir), nil
}

// mapping measures the first and the second transfer. Times are the best of all rounds, mappings the maximum.
func (r *runner) mapping(ctx context.Context, j Job) error {
	spec, err := r.pair.calibrate(ctx, j, r.options)
	if err != nil {
		return err
	}
	names := []string{"first", "second"}
	seconds := make([]benchfmt.Rounds, len(names))
	most := make([]uint64, len(names))
	for range r.options.Rounds {
		spec.Seed = rand.Uint64()
		s, err := r.pair.Run(ctx, spec)
		if err != nil {
			return err
		}
		if len(s.Steps) != 1+len(names) {
			return fmt.Errorf("%s: measured %d transfers, want %d", j, len(s.Steps), 1+len(names))
		}
		for i, step := range s.Steps[1:] {
			seconds[i].Better = benchfmt.Lower
			seconds[i].Add(benchfmt.Micros(step.Seconds))
			most[i] = max(most[i], step.Mappings)
		}
	}
	r.progress.Clear()
	for i, name := range names {
		f := r.pair.figure(j)
		f.Case, f.Ours = j.Case.Name+"-"+name, seconds[i].Best()
		if err := r.sink.Add(f); err != nil {
			return err
		}
		f.Case += "-mappings"
		f.Unit, f.Ours = benchfmt.UnitMappings, float64(most[i])
		if j.Mem == MemPool { // the pool was warmed up by a transfer from another buffer
			f.Bar = &benchfmt.Bar{Value: 0}
		}
		if err := r.sink.Add(f); err != nil {
			return err
		}
	}
	return nil
}
