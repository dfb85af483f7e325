package learn

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/clique"
	"go.millstream.dev/cmd/libmillstream/internal/member"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/kernels/gputsqr"
	"go.millstream.dev/internal/device/kernels/tsqr"
)

// Summarize reduces the tables of all ranks to their number of rows, the means of the columns and a triangle, the same
// on every rank. It is a collective.
func Summarize(m *member.Member, t Table) (out *tsqr.Summary, err error) {
	err = m.Run(func(ctx context.Context, r *clique.Rank) error {
		device, why := t.check()
		if why == "" && t.Columns > tsqr.MaxColumns {
			why = fmt.Sprintf("%d columns, want at most %d", t.Columns, tsqr.MaxColumns)
		}
		if err := agree(ctx, r, "tall", why, float64(t.Columns), float64(t.Total)); err != nil {
			return err
		}
		if device >= 0 {
			out, err = t.tallOnDevice(ctx, r, device)
		} else {
			out, err = tsqr.Summarize(ctx, world{r}, t.tallOnHost())
		}
		if errors.Is(err, tsqr.ErrNoRows) || errors.Is(err, tsqr.ErrTooLarge) {
			return fmt.Errorf("learn: %w: %w", member.ErrInvalid, err)
		}
		if e, ok := errors.AsType[*tsqr.NotFiniteError](err); ok {
			return fmt.Errorf("learn: %w: %w", member.ErrInvalid, e)
		}
		return err
	})
	return out, err
}

// tallOnHost returns the engine of parts in host memory.
func (t *Table) tallOnHost() tsqr.Engine {
	parts := make([]tsqr.Part, len(t.Parts))
	for i, p := range t.Parts {
		parts[i] = tsqr.Part{Index: int(p.Index), Rows: int(p.Rows)}
		for j := range t.Columns {
			if t.narrow() {
				parts[i].Columns = append(parts[i].Columns, tsqr.Slice[float32](column[float32](p, j)))
			} else {
				parts[i].Columns = append(parts[i].Columns, tsqr.Slice[float64](column[float64](p, j)))
			}
		}
	}
	return tsqr.NewHost(parts, t.Columns, max(1, t.Threads))
}

// tallOnDevice reduces parts on a GPU.
func (t *Table) tallOnDevice(ctx context.Context, r *clique.Rank, device int) (*tsqr.Summary, error) {
	s, err := cuda.NewStream(device, cuda.StreamConfig{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	e, err := gputsqr.New(gputsqr.Config{Device: device, Memory: cuda.NewDeviceResource(device), Stream: s}, t.Columns)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	for _, p := range t.Parts {
		columns := make([]gputsqr.Column, t.Columns)
		for j := range columns {
			columns[j] = gputsqr.Column{Buffer: t.deviceColumn(device, p, j), Type: t.suffix()}
			defer columns[j].Buffer.Release()
		}
		if err := e.Add(ctx, int(p.Index), int(p.Rows), columns); err != nil {
			return nil, err
		}
	}
	out, err := tsqr.Summarize(ctx, world{r}, e)
	if wait := s.Wait(ctx); err == nil { // the memory of the caller is in use until then
		err = wait
	}
	return out, err
}
