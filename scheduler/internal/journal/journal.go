package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.millstream.dev/internal/comm/closed"
)

// Errors of this package; returned errors wrap them with the file and the remedy.
var (
	// ErrLocked is returned if another process, or another Journal of this one, has the folder open.
	ErrLocked = errors.New("journal is in use")
	// ErrCorrupt is returned if committed data cannot be read.
	ErrCorrupt = errors.New("journal is damaged")
	// ErrClosed is returned by operations on a closed Journal.
	ErrClosed = closed.New("journal is closed")
)

// Record is a replayed record.
type Record struct {
	// Kind is the kind that was passed to Append.
	Kind Kind
	// Data borrows a buffer of the reader and must be copied to be kept.
	Data []byte
}

// Ticket identifies a record of this Journal by its order: 1 is the first that was appended since Open. A ticket is
// committed when it is at most [Journal.Committed].
type Ticket uint64

// Options are the options of Open. The zero value is ready for use.
type Options struct {
	// SegmentBytes is the size at which a segment is sealed and the next begins (default 64 MiB).
	SegmentBytes int64
	// MaxRecord is the largest record in bytes (default and maximum 1 GiB).
	MaxRecord int
	// CompactBytes is the size of the log from which WantsCompaction reports true (default 256 MiB).
	CompactBytes int64
	// OnCommit, if not nil, is called from the journal's goroutine after each sync with the last ticket that is on
	// disk, and once with the error when the journal has failed. It must not block and must not call Close or Wait.
	OnCommit func(upTo Ticket, err error)
	// OnSync, if not nil, is called from the journal's goroutine with the duration of each write with its sync. It must
	// not block.
	OnSync func(time.Duration)
	// OnHold, if not nil, is called once from the journal's goroutine when the process has no descriptor for the next
	// segment. Commits wait until there is one.
	OnHold func(err error)
	// MinEpoch is the minimum epoch of the journal. A copy must not reuse epochs of the original.
	MinEpoch uint32
	// NoSync omits fsync, for measurements: the records survive the process, not the machine.
	NoSync bool
}

func (o *Options) fill() {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.MaxRecord <= 0 || o.MaxRecord > 1<<30 {
		o.MaxRecord = 1 << 30
	}
	if o.CompactBytes <= 0 {
		o.CompactBytes = 256 << 20
	}
}

// Journal is an open journal. Its methods may be called from any goroutine.
type Journal struct {
	dir   string
	opts  Options
	epoch uint32
	lock  *os.File

	folder *os.File  // dir, to sync it
	spare  spareFile // owner: the committer

	// mu guards the fields that Append and the committer share. It is never held during a write or a sync.
	mu        sync.Mutex
	work      sync.Cond // wakes the committer
	done      sync.Cond // wakes Wait, Compact and Close
	pending   []byte    // frames to be written, encoded with the salt of the current segment
	pendingN  uint64    // records in pending
	appended  Ticket
	committed Ticket
	failed    error // sticky: after a failed write or sync nothing more is committed
	closing   bool
	stopped   bool // the committer has ended
	stats     Stats
	salt      uint64 // of the segment that pending belongs to

	snapshot bool   // a Snapshot is open
	cuts     []cut  // not yet written, in order; they come before pending
	lastCut  uint64 // number of the newest cut
	cutAt    uint64 // number of the segment after the newest cut, 0 while it is being made
	cutBytes int64  // size of the segments before it
	base     uint64 // number of the newest snapshot, 0: none
	oldest   uint64 // number of the first segment

	seg segment // the segment that is being written; owner: the committer
}

// cut is the end of a segment at which a compaction has started.
type cut struct {
	frames []byte // records before it that are not on disk yet
	n      uint64 // their count
	salt   uint64 // of the segment after it
	number uint64
}

// Stats are counts of a journal since Open, and its current size.
type Stats struct {
	// Epoch counts the times that the journal was opened, from 1.
	Epoch uint32
	// Records and Bytes are the numbers of appended records and bytes (including frames).
	Records, Bytes uint64
	// Syncs is the number of group commits: Records/Syncs is the mean size of a group.
	Syncs uint64
	// Replayed is the number of records that Open has read.
	Replayed uint64
	// Held is the number of times that a segment could not be created because of a missing descriptor.
	Held uint64
	// TornBytes is the number of bytes that Open has truncated at the end of the last segment.
	TornBytes int64
	// Segments is the number of log files, LogBytes their size.
	Segments int
	LogBytes int64
	// SnapshotBytes is the size of the snapshot below them; 0 if there is none.
	SnapshotBytes int64
}

// Open opens the journal in dir, which is created if necessary, takes its lock, passes every record to replay in the
// order of the appends (snapshot first) and starts a new segment. An error of replay is returned. replay may be nil. If
// the folder is in use the error wraps [ErrLocked], if it is damaged [ErrCorrupt].
func Open(dir string, opts Options, replay func(Record) error) (*Journal, error) {
	opts.fill()
	j := &Journal{dir: dir, opts: opts}
	j.work.L, j.done.L = &j.mu, &j.mu
	if err := j.open(replay); err != nil {
		if j.lock != nil {
			j.lock.Close()
		}
		if j.folder != nil {
			j.folder.Close()
		}
		j.spare.Close()
		return nil, fmt.Errorf("journal %s: %w", dir, err)
	}
	go j.commit()
	return j, nil
}

// Epoch returns the number of times that this journal was opened, from 1. It is larger than in every earlier run of the
// scheduler.
func (j *Journal) Epoch() uint32 { return j.epoch }

// Append adds a record whose data is the concatenation of parts, and returns its ticket. The data is copied; Append
// does not wait for the disk. It fails if the journal is closed, has failed, or the record is larger than
// Options.MaxRecord.
func (j *Journal) Append(kind Kind, parts ...[]byte) (Ticket, error) {
	if err := j.check(kind, parts); err != nil {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.errLocked(); err != nil {
		return 0, err
	}
	before := len(j.pending)
	j.pending = appendFrame(j.pending, j.salt, kind, parts...)
	j.pendingN++
	j.appended++
	j.stats.Records++
	j.stats.Bytes += uint64(len(j.pending) - before)
	if j.pendingN == 1 {
		j.work.Signal()
	}
	return j.appended, nil
}

func (j *Journal) check(kind Kind, parts [][]byte) error {
	if kind == 0 || kind > MaxKind {
		return fmt.Errorf("journal %s: kind %d; use 1 to %d", j.dir, kind, MaxKind)
	}
	var n int
	for _, p := range parts {
		n += len(p)
	}
	if n > j.opts.MaxRecord {
		return fmt.Errorf("journal %s: record of %d bytes exceeds the limit of %d; submit it in parts", j.dir, n,
			j.opts.MaxRecord)
	}
	return nil
}

func (j *Journal) errLocked() error {
	switch {
	case j.failed != nil:
		return j.failed
	case j.closing:
		return fmt.Errorf("journal %s: %w", j.dir, ErrClosed)
	}
	return nil
}

// MaxRecord returns the largest record that Append accepts, in bytes.
func (j *Journal) MaxRecord() int { return j.opts.MaxRecord }

// Committed returns the last ticket that is on disk.
func (j *Journal) Committed() Ticket {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.committed
}

// Pending returns the number of bytes that are appended and not yet written. A scheduler uses it to read less from
// clients that submit faster than the disk writes.
func (j *Journal) Pending() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.pending)
}

// Err returns the error of the write or sync that has failed the journal; nil while it works.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// Stats returns the counts.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stats
}

// WantsCompaction reports whether the log is larger than Options.CompactBytes and the snapshot below it. The cost of
// compaction so stays a fraction of that of the appends.
func (j *Journal) WantsCompaction() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.snapshot && j.failed == nil && !j.closing &&
		j.stats.LogBytes > max(j.opts.CompactBytes, j.stats.SnapshotBytes)
}

// Wait waits until the ticket is on disk, the journal has failed or is closed, or the context ends.
func (j *Journal) Wait(ctx context.Context, t Ticket) error {
	return j.wait(ctx, func() bool { return j.committed >= t })
}

// wait waits until reached, which is called with the mutex held, returns true.
func (j *Journal) wait(ctx context.Context, reached func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		j.mu.Lock()
		j.done.Broadcast()
		j.mu.Unlock()
	})
	defer stop()
	j.mu.Lock()
	defer j.mu.Unlock()
	for !reached() {
		switch {
		case j.failed != nil:
			return j.failed
		case j.stopped:
			return fmt.Errorf("journal %s: %w", j.dir, ErrClosed)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		j.done.Wait()
	}
	return nil
}

// Close commits pending records, seals the segment and releases the lock. Later calls return the same error.
func (j *Journal) Close() error {
	j.mu.Lock()
	j.closing = true
	j.work.Signal()
	for !j.stopped {
		j.done.Wait()
	}
	lock, err := j.lock, j.failed
	j.lock = nil
	j.mu.Unlock()
	if lock != nil {
		lock.Close() // releases the flock
	}
	return err
}
