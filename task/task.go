// Package task has functions and types for the function of a running task: its key, the GPU of its worker, the release
// of memory, and the errors of calls. Functions are registered and called with package client or the root package.
//
//	var wait = millstream.Func("wait", func(ctx context.Context, n int) (int, error) {
//		if err := task.Secede(ctx); err != nil { // lets another task take the thread
//			return 0, err
//		}
//		...
//	})
package task

import (
	"context"

	"go.millstream.dev/internal/task"
)

// Key identifies a task and its result in the whole cluster. Equal keys are equal strings: a Key can be compared and
// used as a map key. It is a string, bytes, a number or a tuple of these, as in Dask. Its String method returns the
// text of the key, its Value method the key as a Go value.
type Key = task.Key

// NewKey returns the key of a text. Bytes that are not UTF-8 are replaced.
func NewKey(text string) Key { return task.NewKey(text) }

// KeyOf returns the key of a value: a string, []byte, an integer, a float64, or []any for a tuple of these.
func KeyOf(v any) (Key, error) { return task.KeyOf(v) }

// CurrentKey returns the key of the running task whose context is ctx, "" outside a task.
func CurrentKey(ctx context.Context) Key { return task.CurrentKey(ctx) }

// Secede releases the thread of the running task whose context is ctx, so that another task can start: for tasks that
// wait for others. It returns ErrOutside outside a task.
func Secede(ctx context.Context) error { return task.Secede(ctx) }

// Rejoin waits for a thread again after Secede.
func Rejoin(ctx context.Context) error { return task.Rejoin(ctx) }

// Release releases the counted memory that a value holds: device arrays and buffers, also within slices, maps and
// structs. Call it once for results that were gathered. Values without such memory are not changed.
func Release(v any) { task.Release(v) }

// RegisterType registers a type whose values are sent in fields, elements or results of interface types. Call it at
// package level, in a package that client and worker import.
func RegisterType[T any]() { task.RegisterType[T]() }

// BuildID returns the build ID of this process: equal in processes of one executable file, and different after any
// change of its code. It is the content part of the go command's build ID, or a hash of the file if there is none, or
// the text of -ldflags "-X go.millstream.dev/client.build=TEXT".
func BuildID() string { return task.BuildID() }
