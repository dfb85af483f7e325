package recovery

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/journal"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/wire"
)

// Changes calls a function with changes that recreate the primitives and settings of a scheduler.
type Changes func(f func(op string, args msgpack.Map))

// Replayer applies records. The loop calls it; nothing is recorded meanwhile.
type Replayer interface {
	// ReplayGraph submits a graph: the map of its message and its expression, which borrow from the record.
	ReplayGraph(client string, raw []byte, expr *wire.Serialized) error
	// ReplayChange changes a primitive or a setting.
	ReplayChange(op string, args msgpack.Map) error
	// ReplayClient registers a client or removes it.
	ReplayClient(name string, there bool)
	// ReplayDesire holds keys for a client or, if release is set, releases them.
	ReplayDesire(client string, keys []task.Key, release bool)
	// ReplayData declares scattered data that a client holds and workers may have.
	ReplayData(client string, keys []task.Key)
}

// Host is the part of the scheduler that Recovery uses. Its functions run in the loop.
type Host struct {
	Loop  loop.Loop
	Log   *slog.Logger
	State *state.State
	Apply func(state.Event)
	// Replayer applies the records of the journal, Panicked is called if it has panicked.
	Replayer Replayer
	Panicked func()
	// Workers returns the addresses of registered workers, Clients the IDs of clients by name, and Changes the
	// primitives and settings: the contents of a snapshot.
	Workers func() []string
	Clients func() map[string]state.ClientID
	Changes Changes
	// Context ends background work.
	Context context.Context
	// Dir is the folder of the journal and MaxRecord bounds its records, 0 for the default.
	Dir       string
	MaxRecord int
	// OnSync, if not nil, is called with the duration of each commit of the journal.
	OnSync func(time.Duration)
	// Reattach is how long workers may take to reconnect after a restart.
	Reattach time.Duration
}

// Recovery reads a journal when a scheduler starts, and holds tasks back for a while afterwards, while workers
// reconnect with their results. It also replaces a journal that has grown by a snapshot. The loop owns it.
type Recovery struct {
	host Host
	log  *Log

	holding    bool
	missing    map[string]bool // addresses of workers of the previous scheduler
	until      time.Time
	compacting bool
}

// New returns a Recovery that has read nothing yet.
func New(h Host, log *Log) *Recovery { return &Recovery{host: h, log: log} }

// Open reads the journal into the scheduler and makes the log write to it. It runs in the loop. The caller continues
// with Begin.
func (r *Recovery) Open() error {
	replay := r.Replay()
	dir, err := journal.Folder(r.host.Dir, true)
	if err != nil {
		return fmt.Errorf("scheduler: journal in %s: %w", r.host.Dir, err)
	}
	if dir != r.host.Dir {
		r.host.Log.Info("journal uses a subfolder: the given folder is a volume or writable by others",
			"journal", dir)
	}
	j, err := journal.Open(dir, journal.Options{MaxRecord: r.host.MaxRecord, OnSync: r.host.OnSync,
		OnCommit: func(_ journal.Ticket, err error) {
			if err != nil {
				r.log.failed(err)
			}
		}, OnHold: func(err error) {
			r.host.Log.Warn("journal waits for a file descriptor",
				"error", err)
		}}, replay)
	if err != nil {
		return fmt.Errorf("scheduler: journal in %s: %w; `millstream journal check %[1]s` lists what cannot be read, "+
			"`millstream journal repair %[1]s` leaves it out", dir, err)
	}
	if n := j.Stats().TornBytes; n > 0 {
		r.host.Log.Warn("journal ended within a record; truncated", "bytes", n, "journal", dir)
	}
	r.log.SetJournal(j)
	r.host.State.SetEpoch(j.Epoch())
	r.log.Resume()
	return nil
}

// Replay prepares for reading a journal and returns the function that applies each record.
func (r *Recovery) Replay() func(journal.Record) error {
	r.log.Pause()
	r.missing = map[string]bool{}
	r.host.Apply(&state.Hold{On: true})
	return joinRecords(r.replaySafe)
}

// Begin starts the time in which workers reconnect. It runs in the loop, after Open.
func (r *Recovery) Begin() {
	r.holding = true
	r.until = r.host.Loop.Now().Add(r.host.Reattach)
	r.Tick()
}

// Missing returns the number of workers that have not reconnected.
func (r *Recovery) Missing() int { return len(r.missing) }

// Returning reports whether a worker is expected to reconnect.
func (r *Recovery) Returning(address string) bool { return r.holding && r.missing[address] }

// replaySafe calls replay and returns its panics as errors: a record that cannot be replayed can be left out.
func (r *Recovery) replaySafe(rec journal.Record) (err error) {
	defer func() {
		if v := recover(); v != nil {
			r.host.Panicked()
			err = fmt.Errorf("%w: kind %d: replay panicked: %v", ErrRecord, rec.Kind, v)
		}
	}()
	return r.replay(rec)
}

// replay applies one record.
func (r *Recovery) replay(rec journal.Record) error {
	switch rec.Kind {
	case recordGraph:
		client, raw, expr, err := readGraphRecord(rec.Data)
		if err != nil {
			return err
		}
		return r.host.Replayer.ReplayGraph(client, raw, expr)
	case recordOp:
		op, args, err := readOpRecord(rec.Data)
		if err != nil {
			return err
		}
		return r.host.Replayer.ReplayChange(op, args)
	}
	name, keys, err := readNameRecord(rec.Data)
	if err != nil {
		return err
	}
	switch rec.Kind {
	case recordClient, recordClientGone:
		r.host.Replayer.ReplayClient(name, rec.Kind == recordClient)
	case recordDesire, recordRelease:
		r.host.Replayer.ReplayDesire(name, keys, rec.Kind == recordRelease)
	case recordData:
		r.host.Replayer.ReplayData(name, keys)
	case recordWorker:
		r.missing[name] = true
	case recordWorkerGone:
		delete(r.missing, name)
	default:
		return fmt.Errorf("%w: kind %d was written by a newer release", ErrRecord, rec.Kind)
	}
	return nil
}

// announceTime is how long the last worker that has reconnected may take to announce its results.
const announceTime = 200 * time.Millisecond

// Back records that a worker has reconnected.
func (r *Recovery) Back(address string) {
	if !r.holding {
		return
	}
	delete(r.missing, address)
	if soon := r.host.Loop.Now().Add(announceTime); len(r.missing) == 0 && soon.Before(r.until) {
		r.until = soon
	}
}

// Tick ends the wait when its time is over, and compacts the journal when it has grown.
func (r *Recovery) Tick() {
	r.endHold()
	r.compact()
}

// endHold lets tasks run again when no more workers are expected.
func (r *Recovery) endHold() {
	early := r.host.Loop.Now().Before(r.until)
	if !r.holding || early && (len(r.missing) > 0 || len(r.host.Workers()) > 0) {
		return
	}
	r.holding = false
	if len(r.missing) > 0 {
		r.host.Log.Warn("workers have not reconnected; recomputing their results", "workers", len(r.missing))
	}
	for address := range r.missing {
		r.log.Worker(address, false)
	}
	r.missing = nil
	r.host.Apply(&state.Hold{On: false})
}

// compact replaces the records of the journal by a snapshot. The loop collects it; another goroutine writes it.
func (r *Recovery) compact() {
	if j := r.log.Journal(); j == nil || r.compacting || !j.WantsCompaction() {
		return
	}
	snap, err := r.Snapshot()
	if err != nil {
		r.host.Log.Warn("journal compaction not started", "error", err)
		return
	}
	r.compacting = true
	go func() {
		if err := snap.Write(r.host.Context); err != nil {
			r.host.Log.Warn("journal compaction failed", "error", err)
		}
		_ = r.host.Loop.Do(context.WithoutCancel(r.host.Context), func() { r.compacting = false })
	}()
}

// Snapshot is the current content of a journal. Write replaces all earlier records with it.
type Snapshot struct {
	content *content
	to      *journal.Snapshot
}

// Snapshot takes a snapshot of the scheduler. It runs in the loop; the caller must Write it.
func (r *Recovery) Snapshot() (*Snapshot, error) {
	to, err := r.log.Journal().Compact()
	if err != nil {
		return nil, err
	}
	k, err := contentOf(r.host.State, r.host.Clients(), r.host.Workers(), r.host.Changes)
	if err != nil {
		to.Abort()
		return nil, err
	}
	return &Snapshot{k, to}, nil
}

// Write writes the snapshot. Any goroutine may call it.
func (s *Snapshot) Write(ctx context.Context) error {
	err := s.content.write(ctx, s.to)
	if err != nil {
		s.to.Abort()
	}
	return err
}
