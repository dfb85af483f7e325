package frame

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/wire"
)

// PartFunc is a function of partitions in one location, see NewPart. R is its result.
type PartFunc[R any] struct {
	name string
	host func(ctx context.Context, f *Frame, p *client.Future[arrow.RecordBatch],
		opts []client.Option) *client.Future[R]
	device func(ctx context.Context, f *Frame, p *client.Future[wire.Dict], opts []client.Option) *client.Future[R]
}

// NewPart registers a function of partitions, for Reduce, under a name. Like client.Func it is called in a
// package-level variable, in a package that client and workers share. B is arrow.RecordBatch for a function on frames
// in host memory and *DeviceBatch for one on frames on devices; NewPart panics for other types. The function borrows
// its batch, which other tasks use as well. On devices task.CurrentDevice returns its GPU.
func NewPart[B, R any](name string, f func(ctx context.Context, b B) (R, error)) *PartFunc[R] {
	switch f := any(f).(type) {
	case func(context.Context, arrow.RecordBatch) (R, error):
		return hostPart(name, client.Func(name, f).Submit)
	case func(context.Context, *DeviceBatch) (R, error):
		return devicePart(name, client.Func(name, func(ctx context.Context, d wire.Dict) (out R, err error) {
			err = withBatch(ctx, d, func(b *DeviceBatch) (err error) {
				out, err = f(ctx, b)
				return err
			})
			return out, err
		}).Submit)
	}
	panic(unknownBatch[B](name))
}

func hostPart[R any](name string, submit func(context.Context, *client.Client, client.Arg[arrow.RecordBatch],
	...client.Option) *client.Future[R]) *PartFunc[R] {
	return &PartFunc[R]{name: name, host: func(ctx context.Context, f *Frame, p *client.Future[arrow.RecordBatch],
		opts []client.Option) *client.Future[R] {
		return submit(ctx, f.c, p, opts...)
	}}
}

func devicePart[R any](name string, submit func(context.Context, *client.Client, client.Arg[wire.Dict],
	...client.Option) *client.Future[R]) *PartFunc[R] {
	return &PartFunc[R]{name: name, device: func(ctx context.Context, f *Frame, p *client.Future[wire.Dict],
		opts []client.Option) *client.Future[R] {
		return submit(ctx, f.c, p, opts...)
	}}
}

func unknownBatch[B any](name string) string {
	return fmt.Sprintf("frame: %s: partitions must be arrow.RecordBatch or *frame.DeviceBatch, not %T", name, *new(B))
}

// submit calls the function on every partition of a frame.
func (fn *PartFunc[R]) submit(ctx context.Context, f *Frame, opts []client.Option) ([]*client.Future[R], error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	var out []*client.Future[R]
	switch {
	case f.loc == Host && fn.host != nil:
		for _, p := range f.parts {
			out = append(out, fn.host(ctx, f, p, opts))
		}
	case f.loc == Device && fn.device != nil:
		opts = append([]client.Option{client.WithWorkers(f.workers...)}, opts...)
		for _, p := range f.device {
			out = append(out, fn.device(ctx, f, p, opts))
		}
	case f.loc == Host:
		return nil, fmt.Errorf("%w: %s is a function on devices, the frame is in host memory; call ToDevice first",
			ErrLocation,
			fn.name)
	default:
		return nil, fmt.Errorf("%w: %s is a function on host memory, the frame is on devices; call ToHost first",
			ErrLocation,
			fn.name)
	}
	return out, nil
}

// MapFunc is a function from partitions to partitions, see NewMap.
type MapFunc struct {
	host   *PartFunc[arrow.RecordBatch]
	device *PartFunc[wire.Dict]
}

// NewMap registers a function from partitions to partitions, for Frame.Map, under a name, as NewPart does. The function
// gives up its result; to return (a part of) its arrow.RecordBatch it must retain it, while columns of a *DeviceBatch
// may be used in the result without that.
func NewMap[B any](name string, f func(ctx context.Context, b B) (B, error)) *MapFunc {
	switch f := any(f).(type) {
	case func(context.Context, arrow.RecordBatch) (arrow.RecordBatch, error):
		return &MapFunc{host: hostPart(name, client.Func(name, f).Submit)}
	case func(context.Context, *DeviceBatch) (*DeviceBatch, error):
		return &MapFunc{device: devicePart(name, client.Func(name,
			func(ctx context.Context, d wire.Dict) (wire.Dict, error) {
				return deviceCall(ctx, d, f)
			}).Submit)}
	}
	panic(unknownBatch[B](name))
}

// NewMapWith is NewMap for a function of a partition and another argument, the same for all: a value (client.Val) or a
// future, with which the returned function is called.
func NewMapWith[B, P any](name string, f func(ctx context.Context, b B, p P) (B,
	error)) func(arg client.Arg[P]) *MapFunc {
	switch f := any(f).(type) {
	case func(context.Context, arrow.RecordBatch, P) (arrow.RecordBatch, error):
		fn := client.Func2(name, f)
		return func(arg client.Arg[P]) *MapFunc {
			return &MapFunc{host: hostPart(name, func(ctx context.Context, c *client.Client,
				p client.Arg[arrow.RecordBatch],
				opts ...client.Option) *client.Future[arrow.RecordBatch] {
				return fn.Submit(ctx, c, p, arg, opts...)
			})}
		}
	case func(context.Context, *DeviceBatch, P) (*DeviceBatch, error):
		fn := client.Func2(name, func(ctx context.Context, d wire.Dict, p P) (wire.Dict, error) {
			return deviceCall(ctx, d, func(ctx context.Context, b *DeviceBatch) (*DeviceBatch,
				error) {
				return f(ctx, b, p)
			})
		})
		return func(arg client.Arg[P]) *MapFunc {
			return &MapFunc{device: devicePart(name, func(ctx context.Context, c *client.Client,
				p client.Arg[wire.Dict],
				opts ...client.Option) *client.Future[wire.Dict] {
				return fn.Submit(ctx, c, p, arg, opts...)
			})}
		}
	}
	panic(unknownBatch[B](name))
}

// Map runs a function on every partition, where it is. schema is that of the results; with nil Map waits for the first
// result and uses its schema. A result of another schema is an ErrSchema that names the partition.
func (f *Frame) Map(ctx context.Context, fn *MapFunc, schema *arrow.Schema, opts ...client.Option) (*Frame, error) {
	if schema == nil && f.NumPartitions() == 0 {
		return nil, errors.New("frame: Map of a frame without partitions; specify the schema of the result")
	}
	if fn.host != nil {
		parts, err := fn.host.submit(ctx, f, opts)
		switch {
		case err != nil:
			return nil, err
		case schema == nil:
			return Of(ctx, f.c, parts)
		}
		return newChecked(ctx, f.c, schema, parts)
	}
	parts, err := fn.device.submit(ctx, f, opts)
	switch {
	case err != nil:
		return nil, err
	case schema == nil:
		return newDeviceFrameOf(ctx, f.c, parts)
	}
	return newCheckedDevice(ctx, f.c, schema, parts, f.workers)
}

// Reduce runs part on every partition, where it is, and combines the results, neighbors first, with combine until one
// is left: a tree of tasks on the workers, whose shape, and with it rounding, depends only on the number of partitions.
// part is made by NewPart, combine is registered with client.Func2.
func Reduce[R any](ctx context.Context, f *Frame, part *PartFunc[R], combine *client.Fn2[R, R, R],
	opts ...client.Option) *Result[R] {
	level, err := part.submit(ctx, f, opts)
	if err == nil && len(level) == 0 {
		err = errors.New("frame: Reduce: frame without partitions")
	}
	if err != nil {
		return &Result[R]{err: err}
	}
	for len(level) > 1 {
		var next []*client.Future[R]
		for i := 0; i < len(level); i += 2 {
			if i+1 == len(level) {
				next = append(next, level[i])
				break
			}
			next = append(next, combine.Submit(ctx, f.c, level[i], level[i+1], opts...))
			// The tree holds its inputs; the client needs only the root.
			level[i].Release()
			level[i+1].Release()
		}
		level = next
	}
	return &Result[R]{future: level[0]}
}

// Result is the result of Reduce.
type Result[R any] struct {
	future *client.Future[R]
	err    error
}

// Get waits for the result and returns it.
func (r *Result[R]) Get(ctx context.Context) (R, error) {
	var zero R
	if r.err != nil {
		return zero, r.err
	}
	v, err := r.future.Result(ctx)
	return v, withKind(err)
}

// Future returns the result as an argument of tasks; nil if no task could be submitted, for which Get returns the
// error.
func (r *Result[R]) Future() *client.Future[R] { return r.future }

// Release releases the result. It may be called twice.
func (r *Result[R]) Release() {
	if r.future != nil {
		r.future.Release()
	}
}
