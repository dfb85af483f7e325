package client

import (
	"context"

	"go.millstream.dev/internal/task"
)

// Arg is an argument for a parameter of type T: a Val, a Future[T], a List, a Dict or a Ref[T].
type Arg[T any] = task.Arg[T]

// Ref is a field of an argument that is replaced by the result of a task: see Future.Ref.
type Ref[T any] = task.Ref[T]

// Key identifies a task and its result.
type Key = task.Key

// Val returns an argument with a literal value.
func Val[T any](v T) Arg[T] { return task.Val(v) }

// List returns an argument for a parameter of type []T; its elements may be futures.
func List[T any](args ...Arg[T]) Arg[[]T] { return task.List(args...) }

// ListOf returns an argument for a parameter of type []T from futures of its elements.
func ListOf[T any](futures []*Future[T]) Arg[[]T] { return task.List(Args(futures)...) }

// Args converts futures to arguments of MapArgs.
func Args[T any](futures []*Future[T]) []Arg[T] {
	args := make([]Arg[T], len(futures))
	for i, f := range futures {
		args[i] = f
	}
	return args
}

// Dict returns an argument for a parameter of type map[string]T; its values may be futures.
func Dict[T any](args map[string]Arg[T]) Arg[map[string]T] { return task.Dict(args) }

// Fn0 is a registered function without parameters: see Func0.
type Fn0[R any] struct{ f *task.Func }

// Fn1 is a registered function of one parameter: see Func.
type Fn1[A, R any] struct {
	f *task.Func
	a task.Param[A]
}

// Fn2 is a registered function of two parameters: see Func2.
type Fn2[A, B, R any] struct {
	f *task.Func
	a task.Param[A]
	b task.Param[B]
}

// Fn3 is a registered function of three parameters: see Func3.
type Fn3[A, B, C, R any] struct {
	f *task.Func
	a task.Param[A]
	b task.Param[B]
	c task.Param[C]
}

// Fn4 is a registered function of four parameters: see Func4.
type Fn4[A, B, C, D, R any] struct {
	f *task.Func
	a task.Param[A]
	b task.Param[B]
	c task.Param[C]
	d task.Param[D]
}

// Func registers a function of one parameter under a name. Call it in a package-level variable, in a package that
// client and workers import. It panics if the name is taken.
func Func[A, R any](name string, f func(context.Context, A) (R, error)) *Fn1[A, R] {
	return &Fn1[A, R]{task.Register1(name, f), task.NewParam[A]()}
}

// Func0 registers a function without parameters: see Func.
func Func0[R any](name string, f func(context.Context) (R, error)) *Fn0[R] {
	return &Fn0[R]{task.Register0(name, f)}
}

// Func2 registers a function of two parameters: see Func.
func Func2[A, B, R any](name string, f func(context.Context, A, B) (R, error)) *Fn2[A, B, R] {
	return &Fn2[A, B, R]{task.Register2(name, f), task.NewParam[A](), task.NewParam[B]()}
}

// Func3 registers a function of three parameters: see Func.
func Func3[A, B, C, R any](name string, f func(context.Context, A, B, C) (R, error)) *Fn3[A, B, C, R] {
	return &Fn3[A, B, C, R]{task.Register3(name, f), task.NewParam[A](), task.NewParam[B](), task.NewParam[C]()}
}

// Func4 registers a function of four parameters: see Func.
func Func4[A, B, C, D, R any](name string, f func(context.Context, A, B, C, D) (R, error)) *Fn4[A, B, C, D, R] {
	return &Fn4[A, B, C, D, R]{task.Register4(name, f), task.NewParam[A](), task.NewParam[B](), task.NewParam[C](),
		task.NewParam[D]()}
}

// Name returns the name under which the function is registered.
func (f *Fn0[R]) Name() string { return f.f.Name() }

// Name returns the name under which the function is registered.
func (f *Fn1[A, R]) Name() string { return f.f.Name() }

// Name returns the name under which the function is registered.
func (f *Fn2[A, B, R]) Name() string { return f.f.Name() }

// Name returns the name under which the function is registered.
func (f *Fn3[A, B, C, R]) Name() string { return f.f.Name() }

// Name returns the name under which the function is registered.
func (f *Fn4[A, B, C, D, R]) Name() string { return f.f.Name() }

func (f *Fn0[R]) build(b *task.Builder) error {
	b.Begin(f.f)
	return nil
}

func (f *Fn1[A, R]) build(b *task.Builder, x Arg[A]) error {
	b.Begin(f.f)
	return f.a.Arg(b, x)
}

func (f *Fn2[A, B, R]) build(b *task.Builder, x Arg[A], y Arg[B]) error {
	b.Begin(f.f)
	if err := f.a.Arg(b, x); err != nil {
		return err
	}
	return f.b.Arg(b, y)
}

func (f *Fn3[A, B, C, R]) build(b *task.Builder, x Arg[A], y Arg[B], z Arg[C]) error {
	b.Begin(f.f)
	if err := f.a.Arg(b, x); err != nil {
		return err
	}
	if err := f.b.Arg(b, y); err != nil {
		return err
	}
	return f.c.Arg(b, z)
}

func (f *Fn4[A, B, C, D, R]) build(b *task.Builder, x Arg[A], y Arg[B], z Arg[C], u Arg[D]) error {
	b.Begin(f.f)
	if err := f.a.Arg(b, x); err != nil {
		return err
	}
	if err := f.b.Arg(b, y); err != nil {
		return err
	}
	if err := f.c.Arg(b, z); err != nil {
		return err
	}
	return f.d.Arg(b, u)
}

// Submit runs the function on a worker and returns a future of its result. ctx limits only the submission: a submitted
// task continues when ctx ends. A task is ended by Client.Cancel, by the option WithTimeout and by the release of its
// last future. Errors in the arguments are returned by the methods of the future.
func (f *Fn0[R]) Submit(ctx context.Context, c *Client, opts ...Option) *Future[R] {
	return submit[R](ctx, c, f.f, opts, f.build)
}

// Submit runs the function on a worker: see [Fn0.Submit].
func (f *Fn1[A, R]) Submit(ctx context.Context, c *Client, a Arg[A], opts ...Option) *Future[R] {
	return submit[R](ctx, c, f.f, opts, func(b *task.Builder) error { return f.build(b, a) })
}

// Submit runs the function on a worker: see [Fn0.Submit].
func (f *Fn2[A, B, R]) Submit(ctx context.Context, c *Client, x Arg[A], y Arg[B], opts ...Option) *Future[R] {
	return submit[R](ctx, c, f.f, opts, func(b *task.Builder) error { return f.build(b, x, y) })
}

// Submit runs the function on a worker: see [Fn0.Submit].
func (f *Fn3[A, B, C, R]) Submit(ctx context.Context, c *Client, x Arg[A], y Arg[B], z Arg[C],
	opts ...Option) *Future[R] {
	return submit[R](ctx, c, f.f, opts, func(b *task.Builder) error { return f.build(b, x, y, z) })
}

// Submit runs the function on a worker: see [Fn0.Submit].
func (f *Fn4[A, B, C, D, R]) Submit(ctx context.Context, c *Client, x Arg[A], y Arg[B], z Arg[C], u Arg[D],
	opts ...Option) *Future[R] {
	return submit[R](ctx, c, f.f, opts, func(b *task.Builder) error { return f.build(b, x, y, z, u) })
}

// Map runs the function once for each input. If an input cannot be encoded, its future returns the error.
func (f *Fn1[A, R]) Map(ctx context.Context, c *Client, inputs []A, opts ...Option) []*Future[R] {
	return mapCalls[R](ctx, c, f.f, len(inputs), opts, func(b *task.Builder, i int) error {
		b.Begin(f.f)
		return f.a.Val(b, inputs[i])
	})
}

// MapArgs is Map for arguments such as futures: see Args.
func (f *Fn1[A, R]) MapArgs(ctx context.Context, c *Client, inputs []Arg[A], opts ...Option) []*Future[R] {
	return mapCalls[R](ctx, c, f.f, len(inputs), opts, func(b *task.Builder, i int) error {
		return f.build(b, inputs[i])
	})
}

// Map runs the function once for each pair of inputs, up to the length of the shorter slice.
func (f *Fn2[A, B, R]) Map(ctx context.Context, c *Client, as []A, bs []B, opts ...Option) []*Future[R] {
	return mapCalls[R](ctx, c, f.f, min(len(as), len(bs)), opts, func(b *task.Builder, i int) error {
		b.Begin(f.f)
		if err := f.a.Val(b, as[i]); err != nil {
			return err
		}
		return f.b.Val(b, bs[i])
	})
}

// MapArgs is Map for arguments such as futures: see Args.
func (f *Fn2[A, B, R]) MapArgs(ctx context.Context, c *Client, as []Arg[A], bs []Arg[B], opts ...Option) []*Future[R] {
	return mapCalls[R](ctx, c, f.f, min(len(as), len(bs)), opts, func(b *task.Builder, i int) error {
		return f.build(b, as[i], bs[i])
	})
}

// Map runs the function once for each triple of inputs, up to the length of the shortest slice.
func (f *Fn3[A, B, C, R]) Map(ctx context.Context, c *Client, as []A, bs []B, cs []C, opts ...Option) []*Future[R] {
	return mapCalls[R](ctx, c, f.f, min(len(as), len(bs), len(cs)), opts, func(b *task.Builder, i int) error {
		b.Begin(f.f)
		if err := f.a.Val(b, as[i]); err != nil {
			return err
		}
		if err := f.b.Val(b, bs[i]); err != nil {
			return err
		}
		return f.c.Val(b, cs[i])
	})
}

// MapArgs is Map for arguments such as futures: see Args.
func (f *Fn3[A, B, C, R]) MapArgs(ctx context.Context, c *Client, as []Arg[A], bs []Arg[B], cs []Arg[C],
	opts ...Option) []*Future[R] {
	return mapCalls[R](ctx, c, f.f, min(len(as), len(bs), len(cs)), opts, func(b *task.Builder, i int) error {
		return f.build(b, as[i], bs[i], cs[i])
	})
}

// Map runs the function once for each quadruple of inputs, up to the length of the shortest slice.
func (f *Fn4[A, B, C, D, R]) Map(ctx context.Context, c *Client, as []A, bs []B, cs []C, ds []D,
	opts ...Option) []*Future[R] {
	n := min(len(as), len(bs), len(cs), len(ds))
	return mapCalls[R](ctx, c, f.f, n, opts, func(b *task.Builder, i int) error {
		b.Begin(f.f)
		if err := f.a.Val(b, as[i]); err != nil {
			return err
		}
		if err := f.b.Val(b, bs[i]); err != nil {
			return err
		}
		if err := f.c.Val(b, cs[i]); err != nil {
			return err
		}
		return f.d.Val(b, ds[i])
	})
}

// MapArgs is Map for arguments such as futures: see Args.
func (f *Fn4[A, B, C, D, R]) MapArgs(ctx context.Context, c *Client, as []Arg[A], bs []Arg[B], cs []Arg[C],
	ds []Arg[D], opts ...Option) []*Future[R] {
	n := min(len(as), len(bs), len(cs), len(ds))
	return mapCalls[R](ctx, c, f.f, n, opts, func(b *task.Builder, i int) error {
		return f.build(b, as[i], bs[i], cs[i], ds[i])
	})
}
