package ucxbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
)

// Cell is one quick measurement outside a benchmark, for the demo.
type Cell struct {
	Case, Setting, Mode, Mem string
	Size                     int64
}

// Measure measures one cell on an open pair, in one round.
func (p *Pair) Measure(ctx context.Context, c Cell, roundTime time.Duration) (benchfmt.Figure, error) {
	bench, err := FindCase(c.Case)
	if err != nil {
		return benchfmt.Figure{}, err
	}
	o := Options{RoundTime: roundTime}
	if err := o.Complete(); err != nil {
		return benchfmt.Figure{}, err
	}
	j := Job{Case: bench, Setting: c.Setting, Mode: c.Mode, Mem: c.Mem, Endpoint: EndpointLifeline, Size: c.Size}
	spec, err := p.calibrate(ctx, j, o)
	if err != nil {
		return benchfmt.Figure{}, err
	}
	s, err := p.Run(ctx, spec)
	if err != nil {
		return benchfmt.Figure{}, err
	}
	f := p.figure(j)
	f.Ours, err = value(j, s)
	return f, err
}

// figure returns the figure of a measurement on this pair, without numbers.
func (p *Pair) figure(j Job) benchfmt.Figure {
	f := benchfmt.Figure{
		Bench: Bench, Case: j.Case.Name, Setting: j.Setting, Transport: p.Transport(j.Mem), Mode: j.Mode, Size: j.Size,
		Unit: j.Case.Unit(), Better: j.Case.Better(), Mem: j.Mem,
	}
	if j.Endpoint != EndpointLifeline {
		f.Endpoint = j.Endpoint
	}
	return f
}

// Bounds of the number of iterations in a round. Small messages have a higher minimum: on a shared machine the short
// runs of the calibration can take a thousand times too long, and a round of a few messages would only measure its
// start.
const (
	minIterations      = 10
	minSmallIterations = 1000
	maxIterations      = 2_000_000
)

// calibrate determines how many iterations fill one round, with two short runs; the first one also warms up caches and
// memory registrations.
func (p *Pair) calibrate(ctx context.Context, j Job, o Options) (Spec, error) {
	spec := Spec{
		Case: j.Case.Name, Size: j.Size, Mem: j.Mem, Window: o.Window, Goroutines: o.Goroutines,
		Seconds: o.IdleTime.Seconds(), Seed: rand.Uint64(),
	}
	if j.Case.Kind == Idle || j.Case.Kind == Mapping {
		return spec, nil
	}
	spec.Iterations = minIterations
	if j.Case.Kind == Rate {
		spec.Iterations *= spec.Goroutines
	}
	for range 2 {
		s, err := p.Run(ctx, spec)
		if err != nil {
			return Spec{}, err
		}
		if s.Seconds <= 0 || s.Operations <= 0 {
			return Spec{}, fmt.Errorf("empty sample: %+v", s)
		}
		perOperation := s.Seconds / float64(s.Operations)
		// The first run is slow, so limit the growth to a factor of 100.
		wanted := int(o.RoundTime.Seconds() / perOperation)
		spec.Iterations = min(max(wanted, minIterations), maxIterations, spec.Iterations*100)
	}
	if j.Size <= small {
		spec.Iterations = max(spec.Iterations, minSmallIterations)
	}
	spec.Warmup = max(spec.Iterations/10, 1)
	return spec, nil
}
