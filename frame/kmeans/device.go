package kmeans

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/clique"
	"go.millstream.dev/cuda"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/device/kernels/gpulloyd"
	"go.millstream.dev/internal/device/kernels/lloydfit"
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
		out, err := lloydfit.Fit(ctx, ranks{r}, e.engine, parts.Total, p.fit())
		if err != nil {
			return nil, result{}, withNames(err, p.Columns)
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
		if err := lloydfit.Relabel(ctx, e.engine, a.Centers); err != nil {
			return nil, err
		}
		return e.labels(0)
	})

// device is the rows of batches on a GPU, and their engine.
type device struct {
	r      *gpulloyd.Rows
	engine lloydfit.Engine
	free   func()
	stream *cuda.Stream
}

func newDevice(ctx context.Context, dev *task.Device, batches []*frame.DeviceBatch, index []int, columns []string,
	k int) (_ *device, err error) {
	e := new(device)
	all := len(batches) > 0 // float32
	for _, b := range batches {
		narrow, err := isFloat32(b.Schema(), columns)
		if err != nil {
			return nil, err
		}
		all = all && narrow
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
	if e.r, err = gpulloyd.New(ctx, cfg, len(columns), k, all); err != nil {
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
	e.engine, e.free = lloydfit.NewDevice(e.r, len(columns), all, index)
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
	if e.free != nil {
		e.free()
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
