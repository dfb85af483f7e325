package frame

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/clique"
	"go.millstream.dev/clique/native"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// Parts are the partitions of one rank of a native algorithm. B is arrow.RecordBatch or *DeviceBatch.
type Parts[B any] struct {
	// Batches are the partitions of this rank, in their order in the frame. They are borrowed: other tasks use them as
	// well.
	Batches []B
	// Index has their numbers in the frame, Total is the number of partitions of the frame.
	Index []int
	Total int
	// Threads is the number of tasks that the worker of the rank runs at once: the algorithm has the worker
	// exclusively, and may use as many threads.
	Threads int
	// Device is the GPU of the rank, for an algorithm on devices; nil otherwise.
	Device *task.Device
}

// Native is an algorithm that works on all partitions of a frame at once: on every worker that has partitions it runs
// with these and a rank of a clique, with which the workers communicate, and returns partitions. P is the type of its
// parameters, R that of the additional result of each rank.
type Native[P, R any] struct {
	name   string
	host   *algorithm[arrow.RecordBatch, P, R]
	device *algorithm[wire.Dict, P, R]
}

// NewNative registers an algorithm under a name. Like client.Func it is called in a package-level variable, in a
// package that client and workers share. B is arrow.RecordBatch for an algorithm on frames in host memory and
// *DeviceBatch for one on frames on devices; NewNative panics for other types. The function returns either one batch
// for each batch of its Parts, in the same order and location, or none. If it fails on one rank, all get an error that
// names that rank.
func NewNative[B, P, R any](name string,
	f func(ctx context.Context, r *clique.Rank, parts Parts[B], params P) ([]B, R, error)) *Native[P, R] {
	switch f := any(f).(type) {
	case func(context.Context, *clique.Rank, Parts[arrow.RecordBatch], P) ([]arrow.RecordBatch, R, error):
		return &Native[P, R]{name: name, host: newAlgorithm(name, func(ctx context.Context, r *clique.Rank,
			in nativeIn[arrow.RecordBatch, P], batches []arrow.RecordBatch) ([]arrow.RecordBatch, R, error) {
			parts := Parts[arrow.RecordBatch]{Batches: batches, Index: in.Index, Total: in.Total,
				Threads: max(1, in.Threads)}
			return f(ctx, r, parts, in.Params)
		})}
	case func(context.Context, *clique.Rank, Parts[*DeviceBatch], P) ([]*DeviceBatch, R, error):
		return &Native[P, R]{name: name, device: newAlgorithm(name, deviceAlgorithm(f))}
	}
	panic(unknownBatch[B](name))
}

// deviceAlgorithm adapts an algorithm on devices for newAlgorithm.
func deviceAlgorithm[P, R any](
	f func(context.Context, *clique.Rank, Parts[*DeviceBatch], P) ([]*DeviceBatch, R, error),
) func(context.Context, *clique.Rank, nativeIn[wire.Dict, P], []wire.Dict) ([]wire.Dict, R, error) {
	return func(ctx context.Context, r *clique.Rank, in nativeIn[wire.Dict, P], values []wire.Dict) (_ []wire.Dict,
		result R,
		err error) {
		dev, err := task.CurrentDevice(ctx)
		if err != nil {
			return nil, result, err
		}
		p := Parts[*DeviceBatch]{Index: in.Index, Total: in.Total, Threads: max(1, in.Threads), Device: dev}
		var made []*wire.DeviceArray // copies of arrays that were not on the device; a result retains them
		defer func() {
			for _, a := range made {
				a.Release()
			}
		}()
		for _, v := range values {
			b, m, err := loadBatch(ctx, v)
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
			b.retain(made)
			if out[i], err = b.value(); err != nil {
				return nil, result, err
			}
		}
		return out, result, nil
	}
}

// NativeOptions specifies how a native algorithm runs. The zero value is useful.
type NativeOptions struct {
	// Clique is the clique of the workers that run the algorithm (default: one that is formed for the run, of all
	// workers that have partitions). Partitions on other workers are moved to its workers.
	Clique *clique.Clique
	// Schema is the schema of the returned partitions; nil if none are returned.
	Schema *arrow.Schema
	// Form are the options of a clique that is formed for the run. Its Workers are set by Run.
	Form clique.Options
}

// Run runs the algorithm on a frame in its location and waits for it. It returns the result of each rank, in the order
// of ranks, and with a schema the frame of the returned partitions, in the order of the frame. A clique that is formed
// for a frame on devices consists of workers with a GPU.
func (a *Native[P, R]) Run(ctx context.Context, f *Frame, params P, opts NativeOptions) (*Frame, []R, error) {
	if err := f.usable(); err != nil {
		return nil, nil, err
	}
	var out *Frame
	var results []R
	switch {
	case f.loc == Host && a.host != nil:
		parts, did, err := a.host.run(ctx, f.c, f.parts, params, opts, nil)
		if err != nil || opts.Schema == nil {
			return nil, did, err
		}
		if out, err = newChecked(ctx, f.c, opts.Schema, parts); err != nil {
			return nil, nil, err
		}
		results = did
	case f.loc == Device && a.device != nil:
		parts, did, err := a.device.run(ctx, f.c, f.device, params, opts, f.workers)
		if err != nil || opts.Schema == nil {
			return nil, did, err
		}
		if out, err = newCheckedDevice(ctx, f.c, opts.Schema, parts, f.workers); err != nil {
			return nil, nil, err
		}
		results = did
	default:
		return nil, nil, fmt.Errorf("%w: %s does not support a frame in %s memory; use ToHost or ToDevice", ErrLocation,
			a.name,
			f.loc.name())
	}
	if err := out.Persist(ctx); err != nil {
		out.Release()
		return nil, nil, err
	}
	return out, results, nil
}

// withRunKind restores the kind of the error of a run: that of the rank where it began.
func withRunKind(err error) error {
	if run, ok := errors.AsType[*clique.RunError](err); ok {
		for _, e := range run.Ranks {
			if r, ok := withKind(e).(*remoteError); ok {
				return &remoteError{kind: r.kind, err: err}
			}
		}
	}
	return err
}

// nativeKinds are the kinds of Arrow types for algorithms of shared libraries.
var nativeKinds = map[arrow.Type]clique.Kind{
	arrow.INT8: clique.KindOf[int8](), arrow.INT16: clique.KindOf[int16](), arrow.INT32: clique.KindOf[int32](),
	arrow.INT64: clique.KindOf[int64](), arrow.UINT8: clique.KindOf[uint8](), arrow.UINT16: clique.KindOf[uint16](),
	arrow.UINT32: clique.KindOf[uint32](), arrow.UINT64: clique.KindOf[uint64](),
	arrow.FLOAT16: clique.KindOf[clique.F16](),
	arrow.FLOAT32: clique.KindOf[float32](), arrow.FLOAT64: clique.KindOf[float64](),
}

// Native returns the named columns of the batch, or all without names, as arguments of an algorithm of a shared library
// (package clique/native): device pointers, which are borrowed from the batch until release is called. The columns must
// be numbers without nulls.
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
			reason = fmt.Sprintf("has type %v; algorithms of libraries take numbers", f.Type)
		case c.Validity != nil:
			reason = "may have nulls, which algorithms of libraries do not support"
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
