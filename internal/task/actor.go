package task

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
)

// An actor is the result of a task that stays on the worker where it was created and is changed by method calls.
// Methods are functions whose first parameter is the state of the actor: they are registered under "actor.method" and
// called by actor_execute.

// RegisterMethod registers a method of actors with state of type S.
func RegisterMethod[S, A, R any](name string, f func(context.Context, S, A) (R, error)) *Func {
	return registerMethod[S, R](name, []reflect.Type{codecFor[A]().typ},
		func(ctx context.Context, s S, args []*Value) (any, error) {
			a, err := As[A](args[0])
			if err != nil {
				return nil, err
			}
			return f(ctx, s, a)
		})
}

// RegisterMethod0 registers a method without parameters.
func RegisterMethod0[S, R any](name string, f func(context.Context, S) (R, error)) *Func {
	return registerMethod[S, R](name, nil, func(ctx context.Context, s S, _ []*Value) (any, error) { return f(ctx, s) })
}

// RegisterMethod2 registers a method of two parameters.
func RegisterMethod2[S, A, B, R any](name string, f func(context.Context, S, A, B) (R, error)) *Func {
	types := []reflect.Type{codecFor[A]().typ, codecFor[B]().typ}
	return registerMethod[S, R](name, types, func(ctx context.Context, s S, args []*Value) (any, error) {
		a, err := As[A](args[0])
		if err != nil {
			return nil, err
		}
		b, err := As[B](args[1])
		if err != nil {
			return nil, err
		}
		return f(ctx, s, a, b)
	})
}

// RegisterMethod3 registers a method of three parameters.
func RegisterMethod3[S, A, B, C, R any](name string, f func(context.Context, S, A, B, C) (R, error)) *Func {
	types := []reflect.Type{codecFor[A]().typ, codecFor[B]().typ, codecFor[C]().typ}
	return registerMethod[S, R](name, types, func(ctx context.Context, s S, args []*Value) (any, error) {
		a, err := As[A](args[0])
		if err != nil {
			return nil, err
		}
		b, err := As[B](args[1])
		if err != nil {
			return nil, err
		}
		c, err := As[C](args[2])
		if err != nil {
			return nil, err
		}
		return f(ctx, s, a, b, c)
	})
}

func registerMethod[S, R any](name string, params []reflect.Type,
	f func(context.Context, S, []*Value) (any, error)) *Func {
	state := reflect.TypeFor[S]()
	return register(&Func{name: name, params: append([]reflect.Type{state}, params...), result: reflect.TypeFor[R](),
		run: func(context.Context, *Call, []*Value) (any, error) {
			return nil, &SpecError{Reason: name + " is a method of an actor and cannot be called as a task"}
		},
		method: func(ctx context.Context, s any, args []*Value) (any, error) {
			st, ok := s.(S)
			if !ok {
				return nil, &TypeError{Func: name, Want: state.String(), Got: fmt.Sprintf("a %T", s)}
			}
			if len(args) != len(params) {
				return nil, &SpecError{Reason: fmt.Sprintf("call of method %s with %d arguments, want %d",
					name, len(args), len(params))}
			}
			return f(ctx, st, args)
		}})
}

// CallMethod runs a method of an actor, for actor_execute of a worker. state is the live value of the actor, args are
// the arguments of the call. Calls of one actor must not overlap. A panic is returned as a *PanicError.
func CallMethod(ctx context.Context, name string, state any, args []*Value) (result any, err error) {
	f, ok := Lookup(name)
	if !ok {
		return nil, &UnknownFuncError{Name: name}
	}
	if f.method == nil {
		return nil, &SpecError{Reason: name + " is a function, not a method of an actor"}
	}
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, &PanicError{Func: name, Value: p, Stack: debug.Stack()}
		}
	}()
	return f.method(ctx, state, args)
}
