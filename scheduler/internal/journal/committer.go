package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// open takes the lock, replays the files, truncates a torn end and starts a segment.
func (j *Journal) open(replay func(Record) error) error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	err := checkFolder(j.dir)
	if err != nil {
		return err
	}
	if j.lock, err = takeLock(j.dir); err != nil {
		return err
	}
	if j.folder, err = os.Open(j.dir); err != nil {
		return err
	}
	j.spare.Open()
	c, err := list(j.dir)
	if err != nil {
		return err
	}
	for _, name := range c.garbage {
		if err := os.Remove(filepath.Join(j.dir, name)); err != nil {
			return err
		}
	}
	record := func(r Record) error {
		j.stats.Replayed++
		if replay == nil {
			return nil
		}
		return replay(r)
	}
	if c.snapshot > 0 {
		s, err := readFile(j.dir, fileName(snapshotPrefix, c.snapshot), header{typ: typeSnapshot, number: c.snapshot},
			j.opts.MaxRecord, record)
		if err != nil {
			return err
		}
		if !s.sealed {
			return fmt.Errorf("%w: %s at byte %d: file ends before its seal", ErrCorrupt,
				fileName(snapshotPrefix, c.snapshot), s.end)
		}
		j.epoch, j.stats.SnapshotBytes = s.header.epoch, s.end
	}
	for i, n := range c.logs {
		if err := j.replayLog(n, i == len(c.logs)-1, record); err != nil {
			return err
		}
	}
	j.base = c.snapshot
	j.oldest = max(c.snapshot, 1)
	j.epoch = max(j.epoch+1, j.opts.MinEpoch)
	j.stats.Epoch = j.epoch
	next := uint64(1)
	if len(c.logs) > 0 {
		next = c.logs[len(c.logs)-1] + 1
	}
	j.salt = newSalt()
	return j.begin(next, j.salt)
}

// replayLog reads one segment. Only the last may have a torn end, which is truncated here and sealed like all others.
func (j *Journal) replayLog(n uint64, last bool, record func(Record) error) error {
	name := fileName(logPrefix, n)
	s, err := readFile(j.dir, name, header{typ: typeLog, number: n}, j.opts.MaxRecord, record)
	if err != nil {
		return err
	}
	if s.header.epoch < j.epoch {
		return fmt.Errorf("%w: %s has epoch %d, an earlier file has %d", ErrCorrupt, name, s.header.epoch, j.epoch)
	}
	j.epoch = s.header.epoch
	if !s.sealed {
		if !last {
			return fmt.Errorf("%w: %s at byte %d: file ends before its seal and is not the last", ErrCorrupt, name,
				s.end)
		}
		if err := truncate(j.dir, name, s); err != nil {
			return err
		}
		j.stats.TornBytes = s.torn
		s.end += markSize
	}
	j.stats.Segments++
	j.stats.LogBytes += s.end
	return nil
}

// truncate removes the torn end of a segment and seals it.
func truncate(dir, name string, s scanned) error {
	f, err := openFile(dir, name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(s.end); err != nil {
		return err
	}
	if _, err := f.WriteAt(appendOwn(nil, s.header.salt, kindSeal, s.records), s.end); err != nil {
		return err
	}
	return f.Sync()
}

// begin creates the segment that is written from now on.
func (j *Journal) begin(number, salt uint64) error {
	name := fileName(logPrefix, number)
	f, err := createFile(j.dir, name+tmpSuffix)
	if err != nil {
		return err
	}
	_, err = f.Write(header{typ: typeLog, epoch: j.epoch, number: number, salt: salt}.encode())
	if err == nil {
		err = j.publish(name+tmpSuffix, name, f)
	}
	if err != nil {
		f.Close()
		return err
	}
	j.seg = segment{file: f, number: number, salt: salt, size: headerSize}
	j.mu.Lock()
	j.stats.Segments++
	j.stats.LogBytes += headerSize
	j.mu.Unlock()
	return nil
}

// next starts the next segment. If the process is out of descriptors it waits for one: committed records are on disk,
// and appends wait as for a slow disk.
func (j *Journal) next(salt uint64) error {
	j.spare.Close() // the descriptor of the new file
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		old := j.seg.file
		err := j.begin(j.seg.number+1, salt)
		if err == nil {
			old.Close()
			j.spare.Open()
			return nil
		}
		if !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) {
			return err
		}
		j.mu.Lock()
		j.stats.Held++
		first, closing := j.stats.Held == 1, j.closing
		j.mu.Unlock()
		if first && j.opts.OnHold != nil {
			j.opts.OnHold(err)
		}
		if closing {
			return err
		}
		time.Sleep(pause)
	}
}

// spareFile is a descriptor that is reserved for the next segment.
type spareFile struct{ file *os.File }

// Open reserves a descriptor, if one is available.
func (s *spareFile) Open() { s.file, _ = os.Open(os.DevNull) }

// Close releases the descriptor.
func (s *spareFile) Close() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

// group is the work that the committer writes at once.
type group struct {
	frames []byte
	n      uint64
	cut    uint64 // number of the cut that ends the segment, 0: none
	rotate bool   // the segment ends with this group
	salt   uint64 // of the next segment, if rotate is set
	last   bool   // the journal is being closed
}

// take waits for work and takes all of it.
func (j *Journal) take(free []byte) group {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.pendingN == 0 && len(j.cuts) == 0 && !j.closing {
		j.work.Wait()
	}
	if len(j.cuts) > 0 {
		c := j.cuts[0]
		j.cuts = j.cuts[1:]
		return group{frames: c.frames, n: c.n, cut: c.number, rotate: true, salt: c.salt}
	}
	g := group{frames: j.pending, n: j.pendingN, last: j.closing}
	j.pending, j.pendingN = free[:0], 0
	if !g.last && j.seg.size+int64(len(g.frames)) >= j.opts.SegmentBytes {
		g.rotate, g.salt = true, newSalt()
		j.salt = g.salt // later appends belong to the next segment
	}
	return g
}

// commit runs the committer's goroutine, the only one that writes the log.
func (j *Journal) commit() {
	var buf, free []byte
	for {
		g := j.take(free)
		var err error
		begun := time.Now()
		buf, err = j.write(g, buf[:0])
		if err == nil && g.n > 0 && j.opts.OnSync != nil {
			j.opts.OnSync(time.Since(begun))
		}
		if err == nil && g.rotate {
			err = j.next(g.salt)
		}
		if err != nil {
			err = fmt.Errorf("journal %s: %s: %w; records since the last commit may be lost; free space or replace "+
				"the disk, then restart",
				j.dir, fileName(logPrefix, j.seg.number), err)
		}
		free = g.frames
		if cap(free) > 16<<20 {
			free = nil // do not keep the buffer of a large graph
		}
		if j.report(g, err) {
			return
		}
	}
}

// write appends one group to the segment and syncs it.
func (j *Journal) write(g group, buf []byte) ([]byte, error) {
	s := &j.seg
	start := s.size
	if g.n > 0 {
		buf = appendOwn(buf, s.salt, kindMark, uint64(s.size))
	}
	s.records += g.n
	var tail []byte
	if g.rotate || g.last {
		tail = appendOwn(make([]byte, 0, markSize), s.salt, kindSeal, s.records)
	}
	for _, part := range [][]byte{buf, g.frames, tail} {
		n, err := s.file.WriteAt(part, s.size)
		s.size += int64(n)
		if err != nil {
			return buf, err
		}
	}
	j.mu.Lock()
	j.stats.LogBytes += s.size - start
	j.mu.Unlock()
	if s.size == start || j.opts.NoSync {
		return buf, nil
	}
	return buf, fdatasync(s.file)
}

// fdatasync syncs the data and the length of the file, which is sufficient for reading it.
func fdatasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// report publishes the result of a group, and reports whether the committer ends.
func (j *Journal) report(g group, err error) (end bool) {
	j.mu.Lock()
	if err != nil {
		j.failed = err
		j.pending, j.pendingN, j.cuts = nil, 0, nil
	} else {
		j.committed += Ticket(g.n)
		if g.n > 0 {
			j.stats.Syncs++
		}
		if g.cut != 0 && g.cut == j.lastCut { // not that of an aborted compaction
			j.cutAt, j.cutBytes = j.seg.number, j.stats.LogBytes-headerSize
		}
	}
	end = err != nil || g.last
	if end {
		j.seg.file.Close()
		j.spare.Close()
		j.folder.Close()
		j.stopped = true
	}
	upTo := j.committed
	j.done.Broadcast()
	j.mu.Unlock()
	if j.opts.OnCommit != nil && (err != nil || g.n > 0) {
		j.opts.OnCommit(upTo, err)
	}
	return end
}
