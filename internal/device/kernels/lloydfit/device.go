package lloydfit

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/internal/device/kernels/gpulloyd"
)

// device is the Engine of rows on a GPU.
type device struct {
	r      *gpulloyd.Rows
	d      int
	narrow bool
	index  []int
	far    *gpulloyd.Distances // of farthest, kept for reuse
}

var _ Engine = (*device)(nil)

// NewDevice returns the Engine of rows of d columns on a GPU, of float32 if narrow is set, and a function that frees
// its memory, but not the rows. index has the number of each part among the partitions of all ranks.
func NewDevice(r *gpulloyd.Rows, d int, narrow bool, index []int) (Engine, func()) {
	e := &device{r: r, d: d, narrow: narrow, index: index}
	return e, func() {
		if e.far != nil {
			e.far.Release()
		}
	}
}

func (e *device) columns() int { return e.d }

func (e *device) partitions() []partition {
	out := make([]partition, len(e.index))
	for i, n := range e.index {
		out[i] = partition{n, e.r.Rows(i)}
	}
	return out
}

func (e *device) round(v float64) float64 {
	if e.narrow {
		return float64(float32(v))
	}
	return v
}

func (e *device) pass(ctx context.Context, shift, centers, all []float64) error {
	got, err := e.r.Pass(ctx, shift, centers)
	for i, v := range got {
		all[i] += v
	}
	return err
}

func (e *device) relabel(ctx context.Context, shift, centers []float64) error {
	return e.r.Relabel(ctx, shift, centers)
}

func (e *device) inertia(ctx context.Context, centers []float64) (float64, error) {
	return e.r.Inertia(ctx, centers)
}

func (e *device) moments(ctx context.Context, shift, out []float64) error {
	return e.r.Moments(ctx, shift, out)
}

func (e *device) farthest(ctx context.Context, centers []float64, n int) (all []far, err error) {
	if e.far == nil {
		if e.far, err = e.r.NewDistances(ctx); err != nil {
			return nil, err
		}
	}
	if err := e.far.ToCenters(ctx, centers); err != nil {
		return nil, err
	}
	for i, index := range e.index {
		v, err := e.far.Host(ctx, i)
		if err != nil {
			return nil, err
		}
		for row, x := range v {
			all = among(all, far{x, index, row}, n)
		}
	}
	return all, nil
}

// part returns the index among the partitions of the rank of a partition of the frame.
func (e *device) part(partition int) (int, error) {
	i := slices.Index(e.index, partition)
	if i < 0 {
		return 0, fmt.Errorf("kmeans: partition %d belongs to another rank", partition)
	}
	return i, nil
}

func (e *device) row(ctx context.Context, partition, row int, out []float64) (int32, error) {
	i, err := e.part(partition)
	if err != nil {
		return 0, err
	}
	return e.r.Row(ctx, i, row, out)
}

func (e *device) bad(ctx context.Context) (int, error) {
	i, j, err := e.r.Finite(ctx)
	if err != nil || i < 0 {
		return -1, err
	}
	return e.index[i]*e.d + j, nil
}

// deviceSeeds has the squared distances of rows on a GPU.
type deviceSeeds struct {
	e       *device
	closest *gpulloyd.Distances
	tried   []*gpulloyd.Distances
}

func (e *device) seeds(ctx context.Context, first []float64, trials int) (seeds, error) {
	s := &deviceSeeds{e: e}
	all := []*gpulloyd.Distances{}
	for range 1 + trials {
		d, err := e.r.NewDistances(ctx)
		if err != nil {
			for _, d := range all {
				d.Release()
			}
			return nil, err
		}
		all = append(all, d)
	}
	s.closest, s.tried = all[0], all[1:]
	return s, s.closest.ToPoint(ctx, first, nil)
}

func (s *deviceSeeds) close() {
	for _, d := range append(s.tried, s.closest) {
		d.Release()
	}
}

func (s *deviceSeeds) potentials(ctx context.Context, out []float64) error {
	for i, n := range s.e.index {
		v, err := s.closest.Sum(ctx, i)
		if err != nil {
			return err
		}
		out[n] += v
	}
	return nil
}

func (s *deviceSeeds) find(ctx context.Context, partition int, value float64) (int, error) {
	i, err := s.e.part(partition)
	if err != nil {
		return 0, err
	}
	return s.closest.Find(ctx, i, value)
}

func (s *deviceSeeds) try(ctx context.Context, points, left []float64) error {
	for t, d := range s.tried { // start all before waiting for the first
		if err := d.ToPoint(ctx, points[t*s.e.d:(t+1)*s.e.d], s.closest); err != nil {
			return err
		}
	}
	for t, d := range s.tried {
		for i := range s.e.index {
			v, err := d.Sum(ctx, i)
			if err != nil {
				return err
			}
			left[t] += v
		}
	}
	return nil
}

func (s *deviceSeeds) keep(trial int) { s.closest, s.tried[trial] = s.tried[trial], s.closest }
