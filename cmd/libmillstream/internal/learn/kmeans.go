package learn

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.millstream.dev/clique"
	"go.millstream.dev/cmd/libmillstream/internal/member"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/kernels/gpulloyd"
	"go.millstream.dev/internal/device/kernels/lloyd"
	"go.millstream.dev/internal/device/kernels/lloydfit"
	"go.millstream.dev/mem"
)

// KMeans specifies a fit. Centers are the initial centers, row by row, and nil for k-means++.
type KMeans struct {
	K, MaxIter int
	Tol        float64
	Seed       uint32
	Centers    []float64
}

// check returns why the arguments are invalid.
func (o *KMeans) check(t *Table) string {
	const most = 1 << 20
	switch {
	case o.K < 1 || o.K > most:
		return fmt.Sprintf("%d clusters, want 1 to %d", o.K, most)
	case o.MaxIter < 1:
		return fmt.Sprintf("%d iterations, want at least one", o.MaxIter)
	case !(o.Tol >= 0) || math.IsInf(o.Tol, 1):
		return fmt.Sprintf("tolerance %v, want a finite number that is not negative", o.Tol)
	case o.Centers != nil && len(o.Centers) != o.K*t.Columns:
		return fmt.Sprintf("%d coordinates of %d centers with %d columns", len(o.Centers), o.K, t.Columns)
	}
	for i, p := range t.Parts {
		if p.Labels == 0 && p.Rows > 0 {
			return fmt.Sprintf("part %d has no memory for labels", i)
		}
	}
	for _, c := range o.Centers {
		if math.IsNaN(c) || math.IsInf(c, 0) {
			return "an initial center is not finite"
		}
	}
	return ""
}

// Fit runs k-means on the tables of all ranks, and sets the labels of their rows. It is a collective.
func Fit(m *member.Member, t Table, o KMeans) (out *lloydfit.Result, err error) {
	err = m.Run(func(ctx context.Context, r *clique.Rank) error {
		device, why := t.check()
		if why == "" {
			why = o.check(&t)
		}
		given := 0.0
		if o.Centers != nil {
			given = 1
		}
		if err := agree(ctx, r, "kmeans", why, float64(t.Columns), float64(t.Total), float64(o.K), float64(o.MaxIter),
			o.Tol, float64(o.Seed), given); err != nil {
			return err
		}
		p := lloydfit.Params{K: o.K, MaxIter: o.MaxIter, Tol: o.Tol, Init: o.Centers, Seed: o.Seed}
		out, err = t.kmeans(ctx, device, o.K, func(e lloydfit.Engine) (*lloydfit.Result, error) {
			return lloydfit.Fit(ctx, world{r}, e, t.Total, p)
		})
		if _, ok := errors.AsType[*lloydfit.DataError](err); ok {
			return fmt.Errorf("learn: %w: %w", member.ErrInvalid, err)
		}
		if _, ok := errors.AsType[*lloydfit.NotFiniteError](err); ok {
			return fmt.Errorf("learn: %w: %w", member.ErrInvalid, err)
		}
		return err
	})
	return out, err
}

// Predict sets the labels of the rows to the nearest of the centers, on this rank only.
func Predict(ctx context.Context, t Table, centers []float64) error {
	o := KMeans{K: len(centers) / max(t.Columns, 1), MaxIter: 1, Centers: centers}
	device, why := t.check()
	if why == "" {
		why = o.check(&t)
	}
	if why != "" {
		return fmt.Errorf("learn: %w: kmeans: %s", member.ErrInvalid, why)
	}
	_, err := t.kmeans(ctx, device, o.K, func(e lloydfit.Engine) (*lloydfit.Result, error) {
		return nil, lloydfit.Relabel(ctx, e, centers)
	})
	return err
}

// kmeans calls f with the engine of the parts.
func (t *Table) kmeans(ctx context.Context, device, k int, f func(e lloydfit.Engine) (*lloydfit.Result, error)) (
	*lloydfit.Result, error) {
	switch {
	case device >= 0:
		return t.onDevice(ctx, device, k, f)
	case t.narrow():
		return f(hostEngine[float32](t, k))
	}
	return f(hostEngine[float64](t, k))
}

// hostEngine returns the engine of parts in host memory. It works on the memory of the caller.
func hostEngine[T lloyd.Float](t *Table, k int) lloydfit.Engine {
	parts := make([]*lloydfit.Part[T], len(t.Parts))
	for i, p := range t.Parts {
		columns := make([][]T, t.Columns)
		for j := range columns {
			columns[j] = column[T](p, j)
		}
		parts[i] = lloydfit.NewPart(int(p.Index), columns, numbers[int32](p.Labels, p.Rows))
	}
	return lloydfit.NewHost(parts, max(1, t.Threads), k, t.Columns)
}

// onDevice calls f with the engine of parts on a GPU, and copies the labels to the memory of the caller.
func (t *Table) onDevice(ctx context.Context, device, k int, f func(e lloydfit.Engine) (*lloydfit.Result, error)) (
	*lloydfit.Result, error) {
	s, err := cuda.NewStream(device, cuda.StreamConfig{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	cfg := gpulloyd.Config{Device: device, Memory: cuda.NewDeviceResource(device),
		Pinned: cuda.NewPinnedResource(device), Stream: s}
	rows, err := gpulloyd.New(ctx, cfg, t.Columns, k, t.narrow())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	index := make([]int, len(t.Parts))
	for i, p := range t.Parts {
		index[i] = int(p.Index)
		columns := make([]gpulloyd.Column, t.Columns)
		for j := range columns {
			columns[j] = gpulloyd.Column{Buffer: t.deviceColumn(device, p, j), Type: t.suffix()}
			defer columns[j].Buffer.Release()
		}
		if err := rows.Add(ctx, int(p.Rows), columns); err != nil {
			return nil, err
		}
	}
	e, free := lloydfit.NewDevice(rows, t.Columns, t.narrow(), index)
	defer free()
	out, err := f(e)
	for i, p := range t.Parts {
		if err == nil && p.Rows > 0 {
			err = copyLabels(ctx, device, rows.Labels(i), p)
		}
	}
	if wait := s.Wait(ctx); err == nil { // the memory of the caller is in use until then
		err = wait
	}
	return out, err
}

// copyLabels copies the labels of a part to the memory of the caller, and releases them.
func copyLabels(ctx context.Context, device int, labels *mem.Buffer, p Part) error {
	defer labels.Release()
	to := buffer(device, p.Labels, 4*p.Rows)
	defer to.Release()
	from := labels.Slice(0, int(4*p.Rows))
	defer from.Release()
	return cuda.Copy(ctx, to, from)
}
