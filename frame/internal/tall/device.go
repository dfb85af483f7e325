package tall

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/clique"
	"go.millstream.dev/cuda"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/device/kernels/gputsqr"
	"go.millstream.dev/internal/task"
)

var deviceReduce = frame.NewNative("millstream.tall.device",
	func(ctx context.Context, r *clique.Rank, in frame.Parts[*frame.DeviceBatch], p params) ([]*frame.DeviceBatch,
		result, error) {
		t, stop, err := deviceTable(ctx, in.Device, in.Batches, in.Index, p.Columns)
		if err != nil {
			return nil, result{}, err
		}
		defer stop()
		out, err := reduce(ctx, ranks{r}, t, p.Columns)
		return nil, out, err
	})

var deviceMultiply = frame.NewMapWith("millstream.tall.device.multiply",
	func(ctx context.Context, b *frame.DeviceBatch, p Product) (*frame.DeviceBatch, error) {
		if err := p.check(); err != nil {
			return nil, err
		}
		dev, err := task.CurrentDevice(ctx)
		if err != nil {
			return nil, err
		}
		narrow, err := Narrow(b.Schema(), p.Columns)
		if err != nil {
			return nil, err
		}
		t, stop, err := deviceTable(ctx, dev, []*frame.DeviceBatch{b}, []int{-1}, p.Columns)
		if err != nil {
			return nil, err
		}
		defer stop()
		buffers, err := t.Apply(ctx, 0, p.Mean, p.Weights, p.Add, narrow)
		if err != nil {
			return nil, err
		}
		columns := make([]frame.DeviceColumn, len(buffers))
		for i, x := range buffers {
			columns[i].Values = x
		}
		return frame.NewDeviceBatch(p.schema(narrow), b.NumRows(), columns)
	})

// deviceTable returns the rows of batches for the kernels, and a function that frees it.
func deviceTable(ctx context.Context, dev *task.Device, batches []*frame.DeviceBatch, index []int, names []string) (
	_ *gputsqr.Table, stop func(), err error) {
	stream, err := cuda.NewStream(dev.Ordinal, cuda.StreamConfig{})
	if err != nil {
		return nil, nil, err
	}
	stop = func() { _ = stream.Close() } // enqueued work still runs
	t, err := gputsqr.New(gputsqr.Config{Device: dev.Ordinal, Memory: dev.Memory, Stream: stream}, len(names))
	if err != nil {
		stop()
		return nil, nil, err
	}
	stop = func() {
		t.Close()
		_ = stream.Close()
	}
	for i, b := range batches {
		columns := make([]gputsqr.Column, len(names))
		for j, name := range names {
			if columns[j], err = deviceColumn(ctx, b, name, index[i]); err != nil {
				stop()
				return nil, nil, err
			}
		}
		if err := t.Add(ctx, index[i], b.NumRows(), columns); err != nil {
			stop()
			return nil, nil, err
		}
	}
	return t, stop, nil
}

// deviceTypes are the names of Arrow types in the kernels.
var deviceTypes = map[arrow.Type]string{
	arrow.FLOAT32: "f32", arrow.FLOAT64: "f64",
	arrow.INT8: "i8", arrow.INT16: "i16", arrow.INT32: "i32", arrow.INT64: "i64",
	arrow.UINT8: "u8", arrow.UINT16: "u16", arrow.UINT32: "u32", arrow.UINT64: "u64",
}

// deviceColumn returns the column of a batch with a name. It must have no nulls.
func deviceColumn(ctx context.Context, b *frame.DeviceBatch, name string, partition int) (out gputsqr.Column,
	err error) {
	if _, err := Narrow(b.Schema(), []string{name}); err != nil {
		return out, err
	}
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
	out.Type = deviceTypes[b.Schema().Field(b.Schema().FieldIndices(name)[0]).Type.ID()]
	if out.Buffer = c.Values; out.Buffer == nil || out.Type == "" {
		return out, fmt.Errorf("tall: column %q is not on a device, or of an unsupported type", name)
	}
	return out, nil
}
