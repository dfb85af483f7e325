package kmeans

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/clique"
	"go.millstream.dev/cuda"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/device/kernels/gpulloyd"
	"go.millstream.dev/internal/task"
)

var deviceAlgorithm = frame.NewNative("millstream.kmeans.device",
	func(ctx context.Context, r *clique.Rank, parts frame.Parts[*frame.DeviceBatch], p params) (_ []*frame.DeviceBatch,
		_ result, err error) {
		e, err := newDevice(ctx, parts.Device, parts.Batches, parts.Index, p.Columns, p.K)
		if err != nil {
			return nil, result{}, err
		}
		defer e.close()
		out, err := newFitter(ranks{r}, e, parts.Total, p).fit(ctx)
		if err != nil {
			return nil, result{}, err
		}
		if !p.Labels {
			return nil, *out, nil
		}
		var labels []*frame.DeviceBatch
		for i := range parts.Batches {
			b, err := e.labels(i)
			if err != nil {
				return nil, result{}, err
			}
			labels = append(labels, b)
		}
		return labels, *out, nil
	})

var devicePredict = frame.NewMapWith("millstream.kmeans.device.predict",
	func(ctx context.Context, b *frame.DeviceBatch, a assignment) (*frame.DeviceBatch, error) {
		d, err := task.CurrentDevice(ctx)
		if err != nil {
			return nil, err
		}
		if n := len(a.Columns); n == 0 || len(a.Centers) == 0 || len(a.Centers)%n != 0 {
			return nil, fmt.Errorf("kmeans: %d coordinates of centers with %d columns", len(a.Centers), n)
		}
		e, err := newDevice(ctx, d, []*frame.DeviceBatch{b}, []int{-1}, a.Columns, len(a.Centers)/len(a.Columns))
		if err != nil {
			return nil, err
		}
		defer e.close()
		if err := e.relabel(ctx, shiftOf(e, a.Centers, e.d), cast(e, a.Centers)); err != nil {
			return nil, err
		}
		return e.labels(0)
	})

// device is the engine of rows on a GPU.
type device struct {
	r      *gpulloyd.Rows
	d      int
	narrow bool
	index  []int
	stream *cuda.Stream
	far    *gpulloyd.Distances // of farthest, kept for reuse
}

var _ engine = (*device)(nil)

func newDevice(ctx context.Context, dev *task.Device, batches []*frame.DeviceBatch, index []int, columns []string,
	k int) (_ *device, err error) {
	e := &device{d: len(columns), index: index, narrow: len(batches) > 0}
	for _, b := range batches {
		narrow, err := isFloat32(b.Schema(), columns)
		if err != nil {
			return nil, err
		}
		e.narrow = e.narrow && narrow
	}
	if e.stream, err = cuda.NewStream(dev.Ordinal, cuda.StreamConfig{}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	cfg := gpulloyd.Config{Device: dev.Ordinal, Memory: dev.Memory, Pinned: dev.Pinned, Stream: e.stream}
	if e.r, err = gpulloyd.New(ctx, cfg, e.d, k, e.narrow); err != nil {
		return nil, err
	}
	for i, b := range batches {
		cols := make([]gpulloyd.Column, len(columns))
		for j, name := range columns {
			if cols[j], err = deviceColumn(ctx, b, name, index[i]); err != nil {
				return nil, err
			}
		}
		if err := e.r.Add(ctx, b.NumRows(), cols); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// deviceTypes are the names of Arrow types in the kernels.
var deviceTypes = map[arrow.Type]string{
	arrow.FLOAT32: "f32", arrow.FLOAT64: "f64",
	arrow.INT8: "i8", arrow.INT16: "i16", arrow.INT32: "i32", arrow.INT64: "i64",
	arrow.UINT8: "u8", arrow.UINT16: "u16", arrow.UINT32: "u32", arrow.UINT64: "u64",
}

// deviceColumn returns the column of a batch with a name. It must have no nulls.
func deviceColumn(ctx context.Context, b *frame.DeviceBatch, name string, partition int) (out gpulloyd.Column,
	err error) {
	c, err := b.Named(name)
	if err != nil {
		return out, err
	}
	n, err := c.Nulls(ctx, b.NumRows())
	if err != nil {
		return out, err
	}
	if n > 0 {
		return out, nullsError(partition, name, n)
	}
	at := b.Schema().FieldIndices(name)[0]
	out.Type = deviceTypes[b.Schema().Field(at).Type.ID()]
	if out.Buffer = c.Values; out.Buffer == nil || out.Type == "" {
		return out, fmt.Errorf("kmeans: column %q is not on a device, or of an unsupported type", name)
	}
	return out, nil
}

func (e *device) close() {
	if e.far != nil {
		e.far.Release()
	}
	if e.r != nil {
		e.r.Close()
	}
	if e.stream != nil {
		_ = e.stream.Close() // enqueued work still runs
	}
}

// labels returns the labels of a partition as a batch on the device.
func (e *device) labels(part int) (*frame.DeviceBatch, error) {
	return frame.NewDeviceBatch(LabelSchema, e.r.Rows(part), []frame.DeviceColumn{{Values: e.r.Labels(part)}})
}

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
