// Package recovery keeps the state of a scheduler in a journal, and restores a scheduler from it: records, snapshots
// and the time after a restart in which workers reconnect.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/journal"
	"go.millstream.dev/wire"
)

// Log records events in a scheduler's journal; without a journal it records nothing. The loop owns it: only Commit,
// Kept, Room, Enabled and Epoch may be called by other goroutines, once the journal is open.
type Log struct {
	log    *slog.Logger
	failed func(error)

	journal  *journal.Journal // nil without one
	position uint64           // of the last record
	paused   bool
	scratch  []byte
}

// NewLog returns a Log without a journal. failed is called, by any goroutine, when the journal cannot be written.
func NewLog(log *slog.Logger, failed func(error)) *Log { return &Log{log: log, failed: failed} }

// SetJournal sets the journal that the log writes to.
func (l *Log) SetJournal(j *journal.Journal) { l.journal = j }

// Journal returns the journal, nil without one.
func (l *Log) Journal() *journal.Journal { return l.journal }

// Pause stops recording: replayed events, and events caused by the shutdown of the scheduler, are not recorded.
func (l *Log) Pause() { l.paused = true }

// Resume resumes recording.
func (l *Log) Resume() { l.paused = false }

// Enabled reports whether there is a journal.
func (l *Log) Enabled() bool { return l.journal != nil }

func (l *Log) recording() bool { return l.journal != nil && !l.paused }

// Position returns the position of the last record. Messages to clients wait for it, see Commit.
func (l *Log) Position() uint64 { return l.position }

// Epoch returns the number of starts of a scheduler with this journal, from 1; 0 without one.
func (l *Log) Epoch() int64 {
	if l.journal == nil {
		return 0
	}
	return int64(l.journal.Epoch())
}

// Client records a client that was registered or removed.
func (l *Log) Client(name string, there bool) {
	kind := recordClientGone
	if there {
		kind = recordClient
	}
	l.name(kind, name, nil)
}

// Worker records the address of a worker that was added or removed.
func (l *Log) Worker(address string, there bool) {
	kind := recordWorkerGone
	if there {
		kind = recordWorker
	}
	l.name(kind, address, nil)
}

// Desire records keys that a client holds.
func (l *Log) Desire(client string, keys []task.Key) { l.name(recordDesire, client, keys) }

// Release records keys that a client has released.
func (l *Log) Release(client string, keys []task.Key) { l.name(recordRelease, client, keys) }

// Data records keys of scattered data that workers hold for a client.
func (l *Log) Data(client string, keys []task.Key) { l.name(recordData, client, keys) }

// Graph records a graph as received: the map of its message and its expression.
func (l *Log) Graph(client string, raw []byte, expr *wire.Serialized) {
	if l.recording() {
		l.append(recordGraph, graphParts(client, raw, expr)...)
	}
}

// name appends a record of a name and keys.
func (l *Log) name(kind journal.Kind, name string, keys []task.Key) {
	if !l.recording() {
		return
	}
	l.scratch = appendNameRecord(l.scratch[:0], name, keys)
	l.append(kind, l.scratch)
}

func (l *Log) append(kind journal.Kind, parts ...[]byte) {
	err := splitRecord(l.journal.MaxRecord(), kind, parts, func(kind journal.Kind, parts ...[]byte) error {
		t, err := l.journal.Append(kind, parts...)
		if err == nil {
			l.position = uint64(t)
		}
		return err
	})
	if err != nil {
		l.failed(err)
	}
}

// Change appends a change of a primitive: the request that makes it, with its values. It is called before the change is
// made, which must not be made if it returns an error: the record could not be read back.
func (l *Log) Change(op string, args msgpack.Map) error {
	if !l.recording() {
		return nil
	}
	parts, err := opParts(op, args)
	if err == nil {
		_, _, err = readOpRecord(slices.Concat(parts...))
	}
	if err != nil {
		l.log.Warn("change rejected: not encodable in the journal", "op", op, "error", err)
		return &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("%s: value not encodable in the journal: %v", op,
			err)}
	}
	l.append(recordOp, parts...)
	return nil
}

// Note appends a change that has only names, which cannot fail.
func (l *Log) Note(op string, args msgpack.Map) {
	if err := l.Change(op, args); err != nil {
		l.log.Error("change missing in the journal", "op", op, "error", err)
	}
}

// Commit waits until the journal is on disk up to a position.
func (l *Log) Commit(ctx context.Context, position uint64) error {
	err := l.journal.Wait(ctx, journal.Ticket(position))
	if err != nil && !errors.Is(err, journal.ErrClosed) && ctx.Err() == nil {
		l.failed(err)
	}
	return err
}

// Kept waits until the journal has all earlier changes of the loop, so that a reply is durable. Without a journal, or
// for position 0, it returns immediately.
func (l *Log) Kept(ctx context.Context, position uint64) error {
	if l.journal == nil || position == 0 {
		return nil
	}
	return l.Commit(ctx, position)
}

// pending is the number of bytes that may wait for the disk before clients are no longer read: clients that submit
// faster than the disk writes wait for it.
const pending = 64 << 20

// Room waits until the journal can accept more from clients.
func (l *Log) Room(ctx context.Context) error {
	for l.journal != nil && l.journal.Pending() > pending {
		if err := l.Commit(ctx, uint64(l.journal.Committed()+1)); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the journal.
func (l *Log) Close() error {
	if l.journal == nil {
		return nil
	}
	return l.journal.Close()
}
