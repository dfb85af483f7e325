// Package primitives implements the primitives with which clients and tasks of a scheduler coordinate: variables,
// queues, semaphores and locks, events, multi-locks, published datasets and metadata, with the requests of Dask's
// extensions of the same names.
//
// The loop of the scheduler owns all state. Requests run in goroutines of their own and enter the loop to read or
// change it.
package primitives

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

// Journal keeps changes for the next start of the scheduler. All methods but Kept are called in the loop.
type Journal interface {
	// Change records a change before it is made: the request that makes it, with its values. The change must not be
	// made if an error is returned.
	Change(op string, args msgpack.Map) error
	// Note records a change that has names only, which cannot fail.
	Note(op string, args msgpack.Map)
	// Position returns the position of the last record.
	Position() uint64
	// Kept waits until the journal is on disk up to a position.
	Kept(ctx context.Context, position uint64) error
}

// Clients hold keys, by name. A variable, a queue and a dataset are clients, too. All methods are called in the loop.
type Clients interface {
	// Desire holds keys for a client, Release releases them.
	Desire(name string, keys ...task.Key)
	Release(name string, keys ...task.Key)
	// Forget removes a client and releases its keys.
	Forget(name string)
	// Registered reports whether a client is known.
	Registered(name string) bool
}

// Host is the part of the scheduler that Primitives uses.
type Host struct {
	Loop    loop.Loop
	Log     *slog.Logger
	Journal Journal
	Clients Clients
	// Known reports whether a task exists, Describe returns the fields that Dask has in a future of it: state,
	// exception, traceback. Both run in the loop.
	Known    func(task.Key) bool
	Describe func(task.Key) msgpack.Map
	// Tasks is fired when tasks are added.
	Tasks *loop.Signal
	// Budget counts the bytes that are kept.
	Budget *Budget
	// LeaseTimeout is how long a lease of a semaphore is valid without a refresh, unless its owner specifies a timeout,
	// and LeaseInterval the interval at which leases are checked.
	LeaseTimeout, LeaseInterval time.Duration
}

// base is the common part of all primitives.
type base struct{ Host }

// Primitives are all primitives of a scheduler. The loop owns them: only methods named RPC, which serve requests, and
// Register run outside of it.
type Primitives struct {
	variables  *variables
	queues     *queues
	semaphores *semaphores
	events     *events
	locks      *multiLocks
	datasets   *datasets
	metadata   *metadata
}

// New returns Primitives without any content.
func New(h Host) *Primitives {
	b := &base{h}
	return &Primitives{
		newVariables(b), newQueues(b), newSemaphores(b), newEvents(b), newMultiLocks(b), newDatasets(b), newMetadata(b),
	}
}

// Register sets the handlers of requests.
func (s *Primitives) Register(r *rpc.Server) {
	s.variables.register(r)
	s.queues.register(r)
	s.semaphores.register(r)
	s.events.register(r)
	s.locks.register(r)
	s.datasets.register(r)
	s.metadata.register(r)
}

// Tick releases leases that were not refreshed in time.
func (s *Primitives) Tick() { s.semaphores.checkLeases() }

// Metadata returns the metadata of clients. The returned map never changes.
func (s *Primitives) Metadata() msgpack.Map { return s.metadata.tree }

// Semaphores returns the counts of at most n semaphores, by name.
func (s *Primitives) Semaphores(n int) map[string]SemaphoreStats { return s.semaphores.stats(n) }

// Counts are the numbers of known primitives.
type Counts struct {
	Variables, Queues, Semaphores, Events, Datasets int
	// Locks are the multi-locks that are held or waited for, LockUsers their holders and waiters.
	Locks, LockUsers int
}

// Counts returns the numbers of primitives.
func (s *Primitives) Counts() Counts {
	return Counts{
		Variables: len(s.variables.byName), Queues: len(s.queues.byName), Semaphores: len(s.semaphores.byName),
		Events: len(s.events.byName), Datasets: len(s.datasets.byName),
		Locks: len(s.locks.queues), LockUsers: len(s.locks.users),
	}
}

// Op applies a message about a primitive on the stream of a client, or of a worker, whose client is "".
func (s *Primitives) Op(ops *message.Ops, client string) error {
	switch string(ops.Op()) {
	case "variable-future-received-confirm":
		var f message.VariableReceived
		if err := f.Read(ops); err != nil {
			return err
		}
		s.variables.received(clone(f.Name), task.Key(clone(f.Key)), strings.Clone(f.Token), client)
	case "variable_delete":
		var f message.VariableDelete
		if err := f.Read(ops); err != nil {
			return err
		}
		s.variables.remove(clone(f.Name))
	case "queue-future-release":
		var f message.QueueReceived
		if err := f.Read(ops); err != nil {
			return err
		}
		s.queues.futureReceived(clone(f.Name), task.Key(clone(f.Key)), client)
	case "queue_release":
		var f message.QueueRelease
		if err := f.Read(ops); err != nil {
			return err
		}
		s.queues.release(clone(f.Name))
	case "publish_flush_batched_send":
		var f message.PublishFlush
		if err := f.Read(ops); err != nil {
			return err
		}
		var uid any
		if f.UID != nil {
			var err error
			if uid, err = msgpack.Decode(f.UID); err != nil {
				return err
			}
		}
		s.datasets.flushReceived(fmt.Sprint(uid))
	default:
		return rpc.ErrUnknownOp
	}
	return nil
}

// clone returns a name or key that outlives its message.
func clone(k message.Key) string { return strings.Clone(string(k)) }

// change runs f in the loop and returns when its changes are in the journal. f also runs if the caller has
// disconnected, as in Dask: a lock whose release is lost would stay held.
func (s *base) change(ctx context.Context, f func() error) error {
	return Change(ctx, s.Loop, s.Journal, f)
}

// Change runs f in the loop and returns when its changes are in the journal. f also runs if the caller has
// disconnected.
func Change(ctx context.Context, l loop.Loop, j Journal, f func() error) error {
	var position uint64
	_, err := loop.Ask(context.WithoutCancel(ctx), l, func() (struct{}, error) {
		err := f()
		position = j.Position()
		return struct{}{}, err
	})
	if err != nil {
		return err
	}
	return j.Kept(ctx, position)
}

// record is an entry of a variable or a queue: a future, or plain data.
type record struct {
	key   task.Key // "" for data
	data  any
	bytes int64 // of data
}

// size returns the size of a record under a name for the budget, in bytes.
func (r *record) size(name string) int64 {
	return r.bytes + val.NameSize(string(r.key)) + val.NameSize(name)
}

// args returns the fields of a record in a request.
func (r record) args(name string) msgpack.Map {
	if r.key != "" {
		return msgpack.MapOf("name", val.Raw(name), "key", r.key.Raw())
	}
	return msgpack.MapOf("name", val.Raw(name), "data", r.data)
}

// recordReply returns a record in the form of Dask.
func (s *base) recordReply(r record) msgpack.Map {
	if r.key == "" {
		return msgpack.MapOf("type", "msgpack", "value", r.data)
	}
	return append(msgpack.MapOf("type", "Future", "value", r.key.Raw()), s.Describe(r.key)...)
}
