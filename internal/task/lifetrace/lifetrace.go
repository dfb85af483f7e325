// Package lifetrace reports the lives of tasks to a tracing library: clients, schedulers and workers call the observer
// of their process, if it has one. The trace context travels from the client to the worker as the annotation
// traceparent of a task, in the form of W3C Trace Context, which Dask's processes pass on.
package lifetrace

import (
	"context"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// Name is the name of the annotation.
const Name = "traceparent"

// Observer observes the lives of tasks in a process. Any goroutine may call its methods, which must not block: Arrived
// and Assigned run in the loop of a scheduler.
type Observer interface {
	// Submitted is called by a client that submits n tasks of a function; key is that of a single one. It returns the
	// trace context of the tasks, "" if they are not traced.
	Submitted(ctx context.Context, function, key string, n int) string
	// Arrived is called by a scheduler that receives a traced task, Assigned when it sends the task to a worker.
	Arrived(trace, key string, at time.Time)
	Assigned(trace, key, worker string, at time.Time)
	// Compute is called by a worker before it calls the function of a traced task. It returns the context for the
	// function, and a span for Ran.
	Compute(ctx context.Context, trace, key, function string) (context.Context, any)
	// Ran is called by a worker after each run of a traced task; span is nil if there was no call of Compute.
	Ran(trace string, span any, r Run)
}

// Run describes one run of a task on a worker.
type Run struct {
	Key, Function, Worker string
	// Status is OK, error, cancelled or reschedule; Error is the text of the error.
	Status, Error string
	// Bytes is the size of the result, Thread the number of the thread.
	Bytes, Thread int64
	// Ready is when all dependencies were on the worker, TransferStart and TransferStop the time of their transfer
	// (zero if there was none), Start and Stop those of the function, Stored when the result was stored.
	Ready, TransferStart, TransferStop, Start, Stop, Stored time.Time
}

var current atomic.Pointer[Observer]

// Set sets the observer of the process, nil for none, and returns the previous one.
func Set(o Observer) (before Observer) {
	var p *Observer
	if o != nil {
		p = &o
	}
	if old := current.Swap(p); old != nil {
		return *old
	}
	return nil
}

// Get returns the observer of the process, nil for none.
func Get() Observer {
	if p := current.Load(); p != nil {
		return *p
	}
	return nil
}

// Of returns the trace context in annotations (msgpack); "" if there is none, or one that is invalid: clients choose
// it.
func Of(annotations []byte) string {
	if len(annotations) == 0 {
		return ""
	}
	m := msgpack.NewReader(annotations)
	n, err := m.ReadMapLen()
	for ; err == nil && n > 0; n-- {
		var k []byte
		if k, err = m.ReadName(); err != nil {
			break
		}
		if string(k) != Name {
			err = m.Skip()
			continue
		}
		if m.Kind() != msgpack.Str {
			return ""
		}
		s, err := m.ReadString()
		if err != nil || !Valid(s) {
			return ""
		}
		return s
	}
	return ""
}

// Valid reports whether s is a trace context of version 00: 00-<32 digits>-<16 digits>-<2 digits>.
func Valid(s string) bool {
	if len(s) != 55 || s[:3] != "00-" || s[35] != '-' || s[52] != '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; i != 2 && i != 35 && i != 52 && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
