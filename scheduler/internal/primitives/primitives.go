// Package primitives has what clients and tasks of a scheduler coordinate with: variables, queues, semaphores and
// locks, events, multi-locks, published datasets and metadata, with the requests of Dask's extensions of the same
// names.
//
// All state belongs to the loop of the scheduler. Requests run in goroutines of their own and enter the loop to look at
// it or to change it.
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
	// made when an error is returned.
	Change(op string, args msgpack.Map) error
	// Note is Change for changes that carry names only, which can always be kept.
	Note(op string, args msgpack.Map)
	// Position returns that of the last record.
	Position() uint64
	// Kept waits until the journal is on disk up to a position.
	Kept(ctx context.Context, position uint64) error
}

// Clients are those who want keys, by name. A variable, a queue and a dataset are clients, too. All methods are called
// in the loop.
type Clients interface {
	// Desire makes a client want keys, Release takes that back.
	Desire(name string, keys ...task.Key)
	Release(name string, keys ...task.Key)
	// Forget removes a client with all that it wants.
	Forget(name string)
	// Registered reports whether a client is known.
	Registered(name string) bool
}

// Host is what primitives need of the scheduler.
type Host struct {
	Loop    loop.Loop
	Log     *slog.Logger
	Journal Journal
	Clients Clients
	// Known reports whether there is a task, Describe returns Dask's fields of a future of it: state, exception,
	// traceback. Both run in the loop.
	Known    func(task.Key) bool
	Describe func(task.Key) msgpack.Map
	// Tasks is fired when tasks have become known.
	Tasks *loop.Signal
	// Budget counts the bytes that are kept.
	Budget *Budget
	// LeaseTimeout is how long a lease of a semaphore lives that is not refreshed, where its owner has not said, and
	// LeaseInterval how often that is looked at.
	LeaseTimeout, LeaseInterval time.Duration
}

// base is what all primitives have.
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

// New returns primitives without any content.
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

// Tick takes back leases that are not refreshed.
func (s *Primitives) Tick() { s.semaphores.checkLeases() }

// Metadata returns what clients have set. It is never changed.
func (s *Primitives) Metadata() msgpack.Map { return s.metadata.tree }

// Semaphores returns the counts of at most n semaphores, by name.
func (s *Primitives) Semaphores(n int) map[string]SemaphoreStats { return s.semaphores.stats(n) }

// Counts are the numbers of primitives that are known.
type Counts struct {
	Variables, Queues, Semaphores, Events, Datasets int
	// Locks are those of multi-locks that are held or waited for, LockUsers who holds or waits.
	Locks, LockUsers int
}

// Counts returns the numbers of primitives.
func (s *Primitives) Counts() Counts {
	return Counts{
		Variables: len(s.variables.byName), Queues: len(s.queues.byName), Semaphores: len(s.semaphores.byName),
		Events: len(s.events.byName), Datasets: len(s.datasets.byName),
		Locks: len(s.locks.rows), LockUsers: len(s.locks.users),
	}
}

// Op does a message about a primitive on the stream of a client, or of a worker, whose client is "".
func (s *Primitives) Op(ops *message.Ops, client string) error {
	switch string(ops.Op()) {
	case "variable-future-received-confirm":
		var f message.VariableReceived
		if err := f.Read(ops); err != nil {
			return err
		}
		s.variables.received(kept(f.Name), task.Key(kept(f.Key)), strings.Clone(f.Token), client)
	case "variable_delete":
		var f message.VariableDelete
		if err := f.Read(ops); err != nil {
			return err
		}
		s.variables.remove(kept(f.Name))
	case "queue-future-release":
		var f message.QueueReceived
		if err := f.Read(ops); err != nil {
			return err
		}
		s.queues.futureReceived(kept(f.Name), task.Key(kept(f.Key)), client)
	case "queue_release":
		var f message.QueueRelease
		if err := f.Read(ops); err != nil {
			return err
		}
		s.queues.release(kept(f.Name))
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

// kept returns a name or key that outlives its message.
func kept(k message.Key) string { return strings.Clone(string(k)) }

// change runs f in the loop and returns when the journal has what it did. f also runs if the caller has left, as in
// Dask: a lock whose release was lost would stay.
func (s *base) change(ctx context.Context, f func() error) error {
	return Change(ctx, s.Loop, s.Journal, f)
}

// Change runs f in the loop and returns when the journal has what it did. f also runs if the caller has left.
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

// size is what a record under a name counts for, in bytes.
func (r *record) size(name string) int64 {
	return r.bytes + val.NameSize(string(r.key)) + val.NameSize(name)
}

// args are the fields of a record in a request.
func (r record) args(name string) msgpack.Map {
	if r.key != "" {
		return msgpack.MapOf("name", val.Raw(name), "key", r.key.Raw())
	}
	return msgpack.MapOf("name", val.Raw(name), "data", r.data)
}

// recordReply is Dask's form of a record.
func (s *base) recordReply(r record) msgpack.Map {
	if r.key == "" {
		return msgpack.MapOf("type", "msgpack", "value", r.data)
	}
	return append(msgpack.MapOf("type", "Future", "value", r.key.Raw()), s.Describe(r.key)...)
}
