package frame

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/clique"
	"go.millstream.dev/clique/native"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// DeviceParts is what one rank of a DeviceNative works on.
type DeviceParts struct {
	// Batches are the partitions that this rank has, on its GPU, in their order in the frame.
	// They are borrowed: others use them too.
	Batches []*DeviceBatch
	// Index says which partitions of the frame they are, Total how many the frame has.
	Index []int
	Total int
	// Device is the rank's GPU.
	Device *task.Device
}

// DeviceNative is Native for frames on devices.
type DeviceNative[P, R any] struct {
	a *algorithm[wire.Dict, P, R]
}

// NewDeviceNative registers an algorithm under a name, as NewNative does. The batches that it
// returns are in memory of the rank's GPU.
func NewDeviceNative[P, R any](name string, f func(ctx context.Context, r *clique.Rank, parts DeviceParts, params P) ([]*DeviceBatch, R, error)) *DeviceNative[P, R] {
	return &DeviceNative[P, R]{newAlgorithm(name, func(ctx context.Context, r *clique.Rank, in nativeIn[wire.Dict, P], values []wire.Dict) (_ []wire.Dict, result R, err error) {
		dev, err := task.CurrentDevice(ctx)
		if err != nil {
			return nil, result, err
		}
		p := DeviceParts{Index: in.Index, Total: in.Total, Device: dev}
		var made []*wire.DeviceArray // what came through host memory; a result does not keep it
		defer func() {
			for _, a := range made {
				a.Release()
			}
		}()
		for _, v := range values {
			b, err := deviceBatch(v)
			if err != nil {
				return nil, result, err
			}
			m, err := b.onDevice(ctx, dev)
			made = append(made, m...)
			if err != nil {
				return nil, result, err
			}
			p.Batches = append(p.Batches, b)
		}
		batches, result, err := f(ctx, r, p, in.Params)
		if err != nil {
			return nil, result, err
		}
		out := make([]wire.Dict, len(batches))
		for i, b := range batches {
			for j := range b.columns {
				for _, a := range b.columns[j].arrays() {
					for _, m := range made {
						if *a == m {
							*a = m.Retain()
						}
					}
				}
			}
			if out[i], err = b.value(); err != nil {
				return nil, result, err
			}
		}
		return out, result, nil
	})}
}

// Run runs the algorithm on a frame: see Native.Run. The clique, if none is given, is of workers
// with a GPU that have partitions.
func (a *DeviceNative[P, R]) Run(ctx context.Context, f *DeviceFrame, params P, opts NativeOptions) (*DeviceFrame, []R, error) {
	if err := f.usable(); err != nil {
		return nil, nil, err
	}
	parts, results, err := a.a.run(ctx, f.c, f.parts, params, opts, f.workers)
	if err != nil || opts.Schema == nil {
		return nil, results, err
	}
	out, err := deviceVerified(ctx, f.c, opts.Schema, parts, f.workers)
	if err != nil {
		return nil, nil, err
	}
	if err := out.Persist(ctx); err != nil {
		out.Release()
		return nil, nil, err
	}
	return out, results, nil
}

// nativeKinds are the kinds of Arrow's types for algorithms of shared libraries.
var nativeKinds = map[arrow.Type]clique.Kind{
	arrow.INT8: clique.KindOf[int8](), arrow.INT16: clique.KindOf[int16](), arrow.INT32: clique.KindOf[int32](),
	arrow.INT64: clique.KindOf[int64](), arrow.UINT8: clique.KindOf[uint8](), arrow.UINT16: clique.KindOf[uint16](),
	arrow.UINT32: clique.KindOf[uint32](), arrow.UINT64: clique.KindOf[uint64](), arrow.FLOAT16: clique.KindOf[clique.F16](),
	arrow.FLOAT32: clique.KindOf[float32](), arrow.FLOAT64: clique.KindOf[float64](),
}

// Native is columns of the batch, all without names, as an algorithm of a shared library takes
// them (package clique/native): device pointers, which are borrowed from the batch until
// release. They must be numbers and have no nulls.
func (b *DeviceBatch) Native(names ...string) (_ native.Partition, release func(), err error) {
	if len(names) > 0 {
		if b, err = b.Project(names...); err != nil {
			return nil, nil, err
		}
	}
	out := make(native.Partition, 0, len(b.columns))
	release = func() {
		for _, c := range out {
			c.Data.Release()
		}
	}
	for i, c := range b.columns {
		f := b.schema.Field(i)
		kind, ok := nativeKinds[f.Type.ID()]
		var reason string
		switch {
		case !ok:
			reason = fmt.Sprintf("is %v, and algorithms of libraries take numbers", f.Type)
		case c.Validity != nil:
			reason = "may have nulls, which algorithms of libraries do not know"
		case c.Values.Buffer() == nil:
			reason = "is not on a device"
		}
		if reason != "" {
			release()
			return nil, nil, schemaErrorf(-1, "column %q %s", f.Name, reason)
		}
		out = append(out, native.Column{Kind: kind, Data: c.Values.Buffer().Slice(0, b.rows*kind.Size())})
	}
	return out, release, nil
}
