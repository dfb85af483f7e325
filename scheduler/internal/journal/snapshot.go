package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const snapshotTmp = "snapshot" + tmpSuffix

// Snapshot is a compaction in progress: its records will replace all those that were appended before [Journal.Compact].
// Its methods are for one goroutine, which need not be that of the journal's owner. It must end with Commit or Abort.
type Snapshot struct {
	j       *Journal
	file    *os.File
	out     *bufio.Writer
	salt    uint64
	records uint64
	size    int64
	buf     []byte
	err     error // sticky
	over    bool
}

// Compact starts a compaction: records that are appended after it returns are not part of the snapshot, earlier ones
// are replaced by it. It does not wait for the disk, so the owner of a state may call it and then write that state.
// Only one can be in progress.
func (j *Journal) Compact() (*Snapshot, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.errLocked(); err != nil {
		return nil, err
	}
	if j.snapshot {
		return nil, fmt.Errorf("journal %s: compaction already in progress", j.dir)
	}
	// Pending records end the current segment. A cut of an aborted compaction may still wait before it.
	j.salt = newSalt()
	j.lastCut++
	j.cuts = append(j.cuts, cut{frames: j.pending, n: j.pendingN, salt: j.salt, number: j.lastCut})
	j.pending, j.pendingN = nil, 0
	j.snapshot, j.cutAt = true, 0
	j.work.Signal()
	return &Snapshot{j: j, salt: newSalt()}, nil
}

// sealed waits until the segments that the snapshot replaces are sealed, and returns the number of the first segment
// after them.
func (s *Snapshot) sealed(ctx context.Context) (number uint64, err error) {
	if s.over {
		return 0, errors.New("journal: snapshot already committed or aborted")
	}
	err = s.j.wait(ctx, func() bool { number = s.j.cutAt; return number != 0 })
	return number, err
}

// Prefix replays the records that the snapshot will replace, in order. They do not change any more, so this may run
// concurrently with the journal's owner. Data borrows, as in Open.
func (s *Snapshot) Prefix(ctx context.Context, replay func(Record) error) error {
	end, err := s.sealed(ctx)
	if err != nil {
		return err
	}
	j := s.j
	j.mu.Lock()
	base, first := j.base, j.oldest
	j.mu.Unlock()
	record := func(r Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return replay(r)
	}
	read := func(name string, want header) error {
		got, err := readFile(j.dir, name, want, j.opts.MaxRecord, record)
		if err == nil && !got.sealed {
			err = fmt.Errorf("%w: %s at byte %d: file ends before its seal", ErrCorrupt, name, got.end)
		}
		if err != nil {
			return fmt.Errorf("journal %s: %w", j.dir, err)
		}
		return nil
	}
	if base > 0 {
		if err := read(fileName(snapshotPrefix, base), header{typ: typeSnapshot, number: base}); err != nil {
			return err
		}
	}
	for n := first; n < end; n++ {
		if err := read(fileName(logPrefix, n), header{typ: typeLog, number: n}); err != nil {
			return err
		}
	}
	return nil
}

// Append adds a record to the snapshot. Errors are sticky: Commit returns them too.
func (s *Snapshot) Append(kind Kind, parts ...[]byte) error {
	if s.err != nil {
		return s.err
	}
	if s.over {
		return errors.New("journal: snapshot already committed or aborted")
	}
	if err := s.j.check(kind, parts); err != nil {
		return s.fail(err)
	}
	if err := s.start(); err != nil {
		return s.fail(err)
	}
	s.buf = appendFrame(s.buf[:0], s.salt, kind, parts...)
	n, err := s.out.Write(s.buf)
	s.size += int64(n)
	s.records++
	return s.fail(err)
}

func (s *Snapshot) fail(err error) error {
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("journal %s: snapshot: %w", s.j.dir, err)
	}
	return s.err
}

// start creates the file; its header has no number yet.
func (s *Snapshot) start() error {
	if s.file != nil {
		return nil
	}
	f, err := createFile(s.j.dir, snapshotTmp)
	if err != nil {
		return err
	}
	if _, err := f.Seek(headerSize, 0); err != nil {
		f.Close()
		return err
	}
	s.file, s.out, s.size = f, bufio.NewWriterSize(f, 1<<20), headerSize
	return nil
}

// MaxRecord returns the largest record that Append accepts, in bytes.
func (s *Snapshot) MaxRecord() int { return s.j.opts.MaxRecord }

// Verify reads the appended records back and passes every record to check, whose error it returns. Data borrows, as in
// Open. The owner calls it before Commit, which deletes the files that the snapshot replaces.
func (s *Snapshot) Verify(ctx context.Context, check func(Record) error) error {
	if s.err != nil {
		return s.err
	}
	if s.over {
		return errors.New("journal: snapshot already committed or aborted")
	}
	if err := s.start(); err != nil {
		return s.fail(err)
	}
	if err := s.out.Flush(); err != nil {
		return s.fail(err)
	}
	h := header{typ: typeSnapshot, epoch: s.j.epoch, salt: s.salt}
	if _, err := s.file.WriteAt(h.encode(), 0); err != nil {
		return s.fail(err)
	}
	got, err := scan(snapshotTmp, s.file, s.size, s.j.opts.MaxRecord, func(r Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return check(r)
	})
	if err == nil && (got.records != s.records || got.torn > 0) {
		err = fmt.Errorf("%w: %s: %d of %d records can be read back", ErrCorrupt, snapshotTmp, got.records, s.records)
	}
	return s.fail(err)
}

// Commit makes the snapshot durable and removes the files that it replaces. If it fails, the journal is as before
// Compact and can be used.
func (s *Snapshot) Commit(ctx context.Context) error {
	number, err := s.sealed(ctx)
	if err != nil {
		s.Abort()
		return err
	}
	if s.fail(s.finish(number)) != nil {
		s.Abort()
		return s.err
	}
	j := s.j
	j.mu.Lock()
	base, first := j.base, j.oldest
	j.base, j.oldest = number, number
	j.stats.SnapshotBytes = s.size
	j.stats.LogBytes -= j.cutBytes
	j.stats.Segments -= int(number - first)
	j.mu.Unlock()
	// From here on the snapshot is valid; Open would also remove the files that it replaces.
	if base > 0 {
		err = os.Remove(filepath.Join(j.dir, fileName(snapshotPrefix, base)))
	}
	for n := first; n < number; n++ {
		err = errors.Join(err, os.Remove(filepath.Join(j.dir, fileName(logPrefix, n))))
	}
	s.end()
	if err != nil {
		return fmt.Errorf("journal %s: snapshot committed, but old files cannot be removed: %w", j.dir, err)
	}
	return nil
}

func (s *Snapshot) finish(number uint64) error {
	if s.err != nil {
		return s.err
	}
	if err := s.start(); err != nil { // a snapshot without records
		return err
	}
	seal := appendOwn(nil, s.salt, kindSeal, s.records)
	s.size += int64(len(seal))
	if _, err := s.out.Write(seal); err != nil {
		return err
	}
	if err := s.out.Flush(); err != nil {
		return err
	}
	h := header{typ: typeSnapshot, epoch: s.j.epoch, number: number, salt: s.salt}
	if _, err := s.file.WriteAt(h.encode(), 0); err != nil {
		return err
	}
	return s.j.publish(snapshotTmp, fileName(snapshotPrefix, number), s.file)
}

// Abort cancels the compaction; the journal keeps all its records. After Commit it does nothing.
func (s *Snapshot) Abort() {
	if s.over {
		return
	}
	if s.file != nil {
		os.Remove(filepath.Join(s.j.dir, snapshotTmp)) // otherwise the next Open removes it
	}
	s.end()
}

func (s *Snapshot) end() {
	s.over = true
	if s.file != nil {
		s.file.Close()
	}
	s.j.mu.Lock()
	s.j.snapshot = false
	s.j.mu.Unlock()
}
