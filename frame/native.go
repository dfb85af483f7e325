package frame

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/clique"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// Parts is what one rank of a native algorithm works on. B is arrow.RecordBatch or *DeviceBatch.
type Parts[B any] struct {
	// Batches are the partitions that this rank has, in their order in the frame. They are
	// borrowed: others use them too.
	Batches []B
	// Index says which partitions of the frame they are, Total how many the frame has.
	Index []int
	Total int
	// Threads is how many tasks the rank's worker runs at once: the algorithm has the worker
	// for itself, and may use as many.
	Threads int
	// Device is the rank's GPU, for an algorithm on devices; nil otherwise.
	Device *task.Device
}

// Native is an algorithm that works on all partitions of a frame at once: on every worker that
// has some it gets them, and a rank of a clique by which the workers talk to each other, and
// returns partitions. P are its parameters, R is what each rank returns besides.
type Native[P, R any] struct {
	name   string
	host   *algorithm[arrow.RecordBatch, P, R]
	device *algorithm[wire.Dict, P, R]
}

// NewNative registers an algorithm under a name. Like client.Func it is called in a
// package-level variable, in a package that client and workers share. B is arrow.RecordBatch for an algorithm on frames
// in host memory and *DeviceBatch for one on frames on devices; NewNative panics if it is another type. The function
// returns either one batch for each that it was given, in the same order and location, or none. If it fails on one
// rank, all get an error that names that rank.
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

// deviceAlgorithm is an algorithm on devices as it is registered.
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
		var made []*wire.DeviceArray // what came through host memory; a result does not keep it
		defer func() {
			for _, a := range made {
				a.Release()
			}
		}()
		for _, v := range values {
			b, m, err := arrive(ctx, v)
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

// NativeOptions say how a native algorithm runs. The zero value is useful.
type NativeOptions struct {
	// Clique is that of the workers which run it (default: one that is formed for the run, of
	// all workers that have partitions). Partitions that are elsewhere move to its workers.
	Clique *clique.Clique
	// Schema is that of the partitions which it returns; nil if it returns none.
	Schema *arrow.Schema
	// Form are the options of a clique that is formed for the run; its workers are set.
	Form clique.Options
}

// Run runs the algorithm on a frame in its location. It returns what each rank did, in the order of ranks, and
// with a schema the frame of the partitions that were returned, in the order of those that
// went in. It waits for the algorithm. A clique that is formed for a frame on devices is of workers with a GPU.
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
		if out, err = verified(ctx, f.c, opts.Schema, parts); err != nil {
			return nil, nil, err
		}
		results = did
	case f.loc == Device && a.device != nil:
		parts, did, err := a.device.run(ctx, f.c, f.device, params, opts, f.workers)
		if err != nil || opts.Schema == nil {
			return nil, did, err
		}
		if out, err = deviceVerified(ctx, f.c, opts.Schema, parts, f.workers); err != nil {
			return nil, nil, err
		}
		results = did
	default:
		return nil, nil, fmt.Errorf("%w: %s does not work on a frame in %s memory: use ToHost or ToDevice", ErrLocation,
			a.name,
			f.loc.name())
	}
	if err := out.Persist(ctx); err != nil {
		out.Release()
		return nil, nil, err
	}
	return out, results, nil
}

// typedRun gives the error of a round its kind: that of the rank where it began.
func typedRun(err error) error {
	if run, ok := errors.AsType[*clique.RunError](err); ok {
		for _, e := range run.Ranks {
			if r, ok := typed(e).(*remoteError); ok {
				return &remoteError{kind: r.kind, err: err}
			}
		}
	}
	return err
}
