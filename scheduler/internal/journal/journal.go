package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"go.millstream.dev/internal/comm/closed"
)

// Errors of this package; those that are returned wrap them with the file and what to do.
var (
	// ErrLocked: another process, or another Journal of this one, has the folder open.
	ErrLocked = errors.New("the journal has an owner already")
	// ErrCorrupt: data that had been committed cannot be read back.
	ErrCorrupt = errors.New("the journal is damaged")
	// ErrClosed: the journal was closed.
	ErrClosed = closed.New("the journal is closed")
)

// Record is one record as it is replayed.
type Record struct {
	// Kind is what the owner gave to Append.
	Kind Kind
	// Data borrows a buffer of the reader: copy what is kept.
	Data []byte
}

// Ticket names a record of this Journal by its order: 1 is the first that was appended since Open.
// A ticket is committed when it is at most [Journal.Committed].
type Ticket uint64

// Options of Open. The zero value is ready for use.
type Options struct {
	// SegmentBytes is the size at which a segment is sealed and the next begins. Default 64 MiB.
	SegmentBytes int64
	// MaxRecord is the largest record in bytes. Default and maximum 1 GiB.
	MaxRecord int
	// CompactBytes is the size of the log from which WantsCompaction says so. Default 256 MiB.
	CompactBytes int64
	// OnCommit, if not nil, is called from the journal's goroutine after each sync with the last ticket
	// that is now on disk, and once with the error when the journal has failed. It must not block and must
	// not call Close or Wait.
	OnCommit func(upTo Ticket, err error)
	// OnHold, if not nil, is called from the journal's goroutine when the process has no descriptor for the next
	// segment, once. Commits wait until there is one.
	OnHold func(err error)
	// MinEpoch is the least epoch of the journal: for a copy, which must not begin with those of the original again.
	MinEpoch uint32
	// NoSync leaves out fsync: the records survive the process, not the machine. For measurements.
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
	spare  spareFile // of the committer

	// The mutex guards what Append and the committer share. It is never held during a write or a sync.
	mu        sync.Mutex
	work      sync.Cond // the committer sleeps here
	done      sync.Cond // Wait, Compact and Close sleep here
	pending   []byte    // frames to be written, encoded with the salt of the current segment
	pendingN  uint64    // records in pending
	appended  Ticket
	committed Ticket
	failed    error // sticky: after a failed write or sync nothing more is promised
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

	seg segment // the segment that is being written: the committer's alone
}

// cut is the end of a segment at which a compaction has begun.
type cut struct {
	frames []byte // the records before it that are not on disk yet
	n      uint64 // their count
	salt   uint64 // of the segment after it
	number uint64
}

// Stats are counts of a journal since Open, and its size now.
type Stats struct {
	// Epoch counts the times that the journal was opened, from 1.
	Epoch uint32
	// Records and Bytes were appended (bytes with their frames).
	Records, Bytes uint64
	// Syncs is the number of group commits: Records/Syncs is the mean size of a group.
	Syncs uint64
	// Replayed is the number of records that Open has read.
	Replayed uint64
	// Held is how often a segment could not be begun for want of a descriptor.
	Held uint64
	// TornBytes is what Open has cut off at the end of the last segment.
	TornBytes int64
	// Segments is the number of log files, LogBytes their size.
	Segments int
	LogBytes int64
	// SnapshotBytes is the size of the snapshot below them; 0 if there is none.
	SnapshotBytes int64
}

// Open opens the journal in dir, which is made if it is not there, takes its lock, hands every record to
// replay in the order of the appends (snapshot first) and begins a new segment. An error of replay ends
// Open with that error. replay may be nil. If the folder is in use the error wraps [ErrLocked], if it is
// damaged [ErrCorrupt].
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

// Epoch counts the times that this journal was opened, from 1: it is larger than that of every earlier
// life of the scheduler.
func (j *Journal) Epoch() uint32 { return j.epoch }

// Append adds a record whose data is the parts one after another, and returns its ticket. The data is
// copied; the disk is not waited for. It fails when the journal is closed, has failed, or the record is
// larger than Options.MaxRecord.
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
		return fmt.Errorf("journal %s: kind %d: use 1 to %d", j.dir, kind, MaxKind)
	}
	var n int
	for _, p := range parts {
		n += len(p)
	}
	if n > j.opts.MaxRecord {
		return fmt.Errorf("journal %s: a record of %d bytes; the limit is %d: submit it in parts", j.dir, n,
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

// MaxRecord is the largest record that Append takes, in bytes.
func (j *Journal) MaxRecord() int { return j.opts.MaxRecord }

// Committed is the last ticket that is on disk.
func (j *Journal) Committed() Ticket {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.committed
}

// Pending is the number of bytes that are appended and not yet handed to the disk: what a scheduler looks
// at to read less from clients that submit faster than the disk writes.
func (j *Journal) Pending() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.pending)
}

// Err is the error of a write or sync after which the journal promises nothing more; nil while it works.
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

// WantsCompaction is true when the log has outgrown Options.CompactBytes and the snapshot below it, so
// that the cost of compaction stays a fraction of that of the appends.
func (j *Journal) WantsCompaction() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.snapshot && j.failed == nil && !j.closing &&
		j.stats.LogBytes > max(j.opts.CompactBytes, j.stats.SnapshotBytes)
}

// Wait returns when the ticket is on disk, when the journal has failed or was closed before that, or when
// the context ends.
func (j *Journal) Wait(ctx context.Context, t Ticket) error {
	return j.wait(ctx, func() bool { return j.committed >= t })
}

// wait returns nil when reached is true, which is asked under the mutex.
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

// Close commits what was appended, seals the segment and gives up the lock. Later calls return the
// same error.
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
		lock.Close() // gives up the flock
	}
	return err
}
