package task

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
)

// An actor is the result of a task that stays where it was made and is changed by calls of
// its methods. Methods are functions like others, whose first parameter is the actor's state:
// they are registered under "actor.method" and called by actor_execute.

// RegisterMethod registers a method of actors whose state is an S.
func RegisterMethod[S, A, R any](name string, f func(context.Context, S, A) (R, error)) *Func {
	ca := codecFor[A]()
	state := reflect.TypeFor[S]()
	return register(&Func{name: name, params: []reflect.Type{state, ca.typ}, result: reflect.TypeFor[R](),
		run: func(context.Context, *Call, []*Value) (any, error) {
			return nil, &SpecError{Reason: name + " is a method of an actor, and not called as a task"}
		},
		method: func(ctx context.Context, s any, args []*Value) (any, error) {
			st, ok := s.(S)
			if !ok {
				return nil, &TypeError{Func: name, Want: state.String(), Got: fmt.Sprintf("a %T", s)}
			}
			if len(args) != 1 {
				return nil, &SpecError{Reason: fmt.Sprintf("a call of method %s with %d arguments, and it takes 1", name, len(args))}
			}
			a, err := As[A](args[0])
			if err != nil {
				return nil, err
			}
			return f(ctx, st, a)
		}})
}

// CallMethod runs a method of an actor: the worker's part of actor_execute. state is the
// actor's live value, args the call's arguments. Calls of one actor must follow each other.
// Panics are a *PanicError.
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
