package task

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"

	"go.millstream.dev/internal/comm/closed"
)

// Info describes a running task and its worker. The worker adds it to the context of each call.
type Info struct {
	// Key is the key of the task.
	Key Key
	// Host is the worker, shared by its tasks.
	Host *Host
	// Thread is the thread of the worker that the task uses; nil if it uses none.
	Thread Thread
}

// Thread is the thread of a worker that a task uses.
type Thread interface {
	// Secede reports to the worker that the task no longer uses the thread, because it waits for other tasks: another
	// task starts in its place.
	Secede(ctx context.Context) error
	// Rejoin waits for a thread again.
	Rejoin(ctx context.Context) error
}

// Host has the properties of a worker that its tasks share. The worker creates it and closes it when it ends.
type Host struct {
	// Scheduler is the address of the scheduler, Worker that of the worker, Name the name of the worker.
	Scheduler, Worker, Name string
	// Peers has the connections of the worker to other processes, for packages client and clique; it may be nil. Close
	// closes it.
	Peers io.Closer
	// Resolve, if not nil, returns results in the memory of this worker.
	Resolve func(Key) (*Value, bool)
	// DataConnections reports whether the worker has data connections, which are not encrypted, and Trusted whether
	// these may go to other hosts (--data-connections=trusted). Boot identifies the machine since its start.
	DataConnections, Trusted bool
	Boot                     string
	// Device is the GPU of the worker; nil without one. Tasks call CurrentDevice.
	Device *Device

	mu      sync.Mutex // owns all below
	shared  map[any]*sharedThing
	reports map[string]func() any
	closed  bool
}

type sharedThing struct {
	once  sync.Once
	v     any
	close func() error
	err   error
}

// ErrHostClosed is returned by methods of the Host of a worker that has ended. It matches net.ErrClosed with errors.Is.
var ErrHostClosed = closed.New("task: worker has ended")

// SetReport sets a function whose result is part of the worker's heartbeats under a name, as a value of msgpack.
func (h *Host) SetReport(name string, f func() any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reports == nil {
		h.reports = map[string]func() any{}
	}
	h.reports[name] = f
}

// Reports returns the reports for a heartbeat; nil if there are none.
func (h *Host) Reports() map[string]any {
	h.mu.Lock()
	reports := maps.Clone(h.reports)
	h.mu.Unlock()
	var out map[string]any
	for name, f := range reports {
		if out == nil {
			out = map[string]any{}
		}
		out[name] = f()
	}
	return out
}

// Shared returns the object of a key that the tasks of the worker share, and creates it on the first call. closer, if
// not nil, is called when the worker ends. An error is not kept: the next caller tries again.
func (h *Host) Shared(key any, create func() (v any, closer func() error, err error)) (any, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, ErrHostClosed
	}
	if h.shared == nil {
		h.shared = map[any]*sharedThing{}
	}
	s := h.shared[key]
	if s == nil {
		s = new(sharedThing)
		h.shared[key] = s
	}
	h.mu.Unlock()
	s.once.Do(func() { s.v, s.close, s.err = create() })
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.err != nil {
		if h.shared[key] == s {
			delete(h.shared, key)
		}
		return nil, s.err
	}
	return s.v, nil
}

// Close closes the shared objects. It may be called more than once.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	things := h.shared
	h.shared = nil
	h.mu.Unlock()
	var errs []error
	if h.Peers != nil {
		errs = append(errs, h.Peers.Close())
	}
	for _, s := range things {
		s.once.Do(func() { s.err = ErrHostClosed }) // or waits for the caller that creates it
		if s.close != nil {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(errs...)
}

type infoKey struct{}

// WithInfo returns the context of a running task.
func WithInfo(ctx context.Context, i *Info) context.Context {
	return context.WithValue(ctx, infoKey{}, i)
}

// IsInfoKey reports whether key is the key of the Info among the values of a context, for contexts that are not from
// WithInfo.
func IsInfoKey(key any) bool { return key == infoKey{} }

// FromContext returns the Info of the running task whose context is ctx, nil outside of a task.
func FromContext(ctx context.Context) *Info {
	i, _ := ctx.Value(infoKey{}).(*Info)
	return i
}

// ErrOutside is returned when a task-only function is called outside a running task.
var ErrOutside = errors.New("task: not the context of a running task")

// Secede releases the thread of the running task whose context is ctx, for tasks that wait for others.
func Secede(ctx context.Context) error {
	if i := FromContext(ctx); i != nil && i.Thread != nil {
		return i.Thread.Secede(ctx)
	}
	return ErrOutside
}

// Rejoin waits for a thread again after Secede.
func Rejoin(ctx context.Context) error {
	if i := FromContext(ctx); i != nil && i.Thread != nil {
		return i.Thread.Rejoin(ctx)
	}
	return ErrOutside
}

// CurrentKey returns the key of the running task whose context is ctx, "" outside of a task.
func CurrentKey(ctx context.Context) Key {
	if i := FromContext(ctx); i != nil {
		return i.Key
	}
	return ""
}
