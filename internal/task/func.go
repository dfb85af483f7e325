package task

import (
	"context"
	"maps"
	"reflect"
	"slices"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Param encodes the arguments of one parameter of a typed function. It uses no reflection for common types.
type Param[T any] struct{ c *codec[T] }

// NewParam returns the Param of a type.
func NewParam[T any]() Param[T] { return Param[T]{codecFor[T]()} }

// Arg encodes the next argument of a call.
func (p Param[T]) Arg(b *Builder, a Arg[T]) error {
	if v, ok := a.(val[T]); ok {
		return p.Val(b, v.v)
	}
	if a == nil {
		return &EncodeError{Type: p.c.typ, Reason: "the argument is nil; use Val"}
	}
	b.nargs++
	return a.AppendArg(b)
}

// Val encodes a value as the next argument of a call.
func (p Param[T]) Val(b *Builder, v T) error {
	b.nargs++
	b.args = append(b.args, nodeValue)
	return p.c.append(b, v)
}

// Register0 registers a function without parameters. Like the other Register functions it is called at package level,
// and panics if the name is taken.
func Register0[R any](name string, f func(context.Context) (R, error)) *Func {
	return register(&Func{name: name, result: reflect.TypeFor[R](),
		run: func(ctx context.Context, _ *Call, _ []*Value) (any, error) { return f(ctx) }})
}

// Register1 registers a function of one parameter.
func Register1[A, R any](name string, f func(context.Context, A) (R, error)) *Func {
	ca := codecFor[A]()
	return register(&Func{name: name, params: []reflect.Type{ca.typ}, result: reflect.TypeFor[R](),
		run: func(ctx context.Context, c *Call, deps []*Value) (any, error) {
			r := c.reader(deps)
			a, err := readNode(&r, ca)
			if err != nil {
				return nil, c.argError(0, err)
			}
			return f(ctx, a)
		}})
}

// Register2 registers a function of two parameters.
func Register2[A, B, R any](name string, f func(context.Context, A, B) (R, error)) *Func {
	ca, cb := codecFor[A](), codecFor[B]()
	return register(&Func{name: name, params: []reflect.Type{ca.typ, cb.typ}, result: reflect.TypeFor[R](),
		run: func(ctx context.Context, c *Call, deps []*Value) (any, error) {
			r := c.reader(deps)
			a, err := readNode(&r, ca)
			if err != nil {
				return nil, c.argError(0, err)
			}
			b, err := readNode(&r, cb)
			if err != nil {
				return nil, c.argError(1, err)
			}
			return f(ctx, a, b)
		}})
}

// Register3 registers a function of three parameters.
func Register3[A, B, C, R any](name string, f func(context.Context, A, B, C) (R, error)) *Func {
	ca, cb, cc := codecFor[A](), codecFor[B](), codecFor[C]()
	return register(&Func{name: name, params: []reflect.Type{ca.typ, cb.typ, cc.typ}, result: reflect.TypeFor[R](),
		run: func(ctx context.Context, c *Call, deps []*Value) (any, error) {
			r := c.reader(deps)
			a, err := readNode(&r, ca)
			if err != nil {
				return nil, c.argError(0, err)
			}
			b, err := readNode(&r, cb)
			if err != nil {
				return nil, c.argError(1, err)
			}
			x, err := readNode(&r, cc)
			if err != nil {
				return nil, c.argError(2, err)
			}
			return f(ctx, a, b, x)
		}})
}

// Register4 registers a function of four parameters.
func Register4[A, B, C, D, R any](name string, f func(context.Context, A, B, C, D) (R, error)) *Func {
	ca, cb, cc, cd := codecFor[A](), codecFor[B](), codecFor[C](), codecFor[D]()
	return register(&Func{name: name, params: []reflect.Type{ca.typ, cb.typ, cc.typ, cd.typ},
		result: reflect.TypeFor[R](),
		run: func(ctx context.Context, c *Call, deps []*Value) (any, error) {
			r := c.reader(deps)
			a, err := readNode(&r, ca)
			if err != nil {
				return nil, c.argError(0, err)
			}
			b, err := readNode(&r, cb)
			if err != nil {
				return nil, c.argError(1, err)
			}
			x, err := readNode(&r, cc)
			if err != nil {
				return nil, c.argError(2, err)
			}
			y, err := readNode(&r, cd)
			if err != nil {
				return nil, c.argError(3, err)
			}
			return f(ctx, a, b, x, y)
		}})
}
