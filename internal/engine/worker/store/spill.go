package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// SpillError is returned when a result could not be written to disk. The result is still in memory.
type SpillError struct {
	// Key is the key of the result, NBytes its size in memory, Dir the directory of the file.
	Key    task.Key
	NBytes int64
	Dir    string
	// Err is the cause; it may match syscall.ENOSPC, ErrMaxSpill and others.
	Err error
}

// Error returns the cause and the fix.
func (e *SpillError) Error() string {
	text := fmt.Sprintf("worker/store: cannot spill %v (%d bytes), which stays in memory: %v", e.Key, e.NBytes,
		e.Err)
	switch {
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EDQUOT):
		text += fmt.Sprintf("; free some space below %s or choose another --local-directory", e.Dir)
	case errors.Is(e.Err, ErrMaxSpill):
		text += "; raise distributed.worker.memory.max-spill or the worker's memory limit"
	}
	return text
}

// Unwrap returns Err.
func (e *SpillError) Unwrap() error { return e.Err }

// ErrMaxSpill is returned when Config.MaxSpill is reached.
var ErrMaxSpill = errors.New("worker/store: limit of spilled data reached (distributed.worker.memory.max-spill)")

var errOnDevice = errors.New("value in GPU memory")

// retryAfter is the delay before the next write after the disk failed.
const retryAfter = time.Second

// over returns the number of bytes in memory above the target. The caller holds mu.
func (s *Store) over() int64 {
	if s.cfg.Target <= 0 {
		return 0
	}
	return s.memory + s.reserved - s.cfg.Target
}

// spillIfOver wakes the spiller if memory is above the target. The caller holds mu.
func (s *Store) spillIfOver() {
	if s.over() > 0 && (s.large.first != nil || s.small.first != nil) && !time.Now().Before(s.retry) {
		s.stuck = false
		s.wakeSpiller()
	}
}

// notify wakes the goroutines that wait for room. The caller holds mu.
func (s *Store) notify() {
	if s.waiting > 0 {
		close(s.progress)
		s.progress = make(chan struct{})
	}
}

// wakeSpiller wakes the spiller, and starts it the first time. The caller holds mu.
func (s *Store) wakeSpiller() {
	if !s.running {
		if s.closed {
			return
		}
		s.running = true
		s.work.Add(1)
		go s.spiller()
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// spiller removes files, and spills results while memory is above the target.
func (s *Store) spiller() {
	defer s.work.Done()
	for range s.wake {
		s.mu.Lock()
		for !s.closed {
			if len(s.trash) > 0 {
				trash := s.trash
				s.trash = nil
				s.mu.Unlock()
				for _, file := range trash {
					_ = os.Remove(file) // otherwise removed with the directory
				}
				s.mu.Lock()
				continue
			}
			if s.over() <= 0 || time.Now().Before(s.retry) {
				break
			}
			if n, err := s.spillOne(); n == 0 && err == nil {
				break // no result can be spilled
			}
		}
		s.stuck = s.over() > 0
		s.notify()
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return
		}
	}
}

// Evict spills one result and returns its size in memory: 0 if none can be spilled. It is for a worker whose process
// uses too much memory, independent of the share of the results.
func (s *Store) Evict() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || time.Now().Before(s.retry) {
		return 0
	}
	s.work.Add(1) // Close waits for it
	defer s.work.Done()
	for {
		n, err := s.spillOne()
		if n > 0 || err == nil || s.err != nil {
			return n
		}
	}
}

// MakeRoom waits until nbytes more fit below Config.Target, or no result is left that can be spilled: producers of data
// call it before Put. The error is that of ctx, or, if the data would exceed Config.Ceiling, why nothing can be
// spilled.
func (s *Store) MakeRoom(ctx context.Context, nbytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.makeRoom(ctx, nbytes)
}

// Reserve is MakeRoom for data that does not exist yet: the room is reserved until Unreserve, which is called after
// Put, or when there is no data after all. It fails only with ctx, and then nothing is reserved.
func (s *Store) Reserve(ctx context.Context, nbytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.makeRoom(ctx, nbytes)
	if err != nil && ctx.Err() != nil {
		return err
	}
	s.reserved += nbytes
	return nil
}

// Unreserve releases reserved room.
func (s *Store) Unreserve(nbytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= nbytes
	s.notify()
}

// makeRoom implements MakeRoom. The caller holds mu, which is released during the wait.
func (s *Store) makeRoom(ctx context.Context, nbytes int64) error {
	if s.cfg.Target <= 0 || s.memory+s.reserved+nbytes <= s.cfg.Target {
		return nil
	}
	s.reserved += nbytes
	s.waiting++
	defer func() { s.reserved -= nbytes; s.waiting-- }()
	s.stuck = false
	s.wakeSpiller()
	for !s.closed && s.over() > 0 && !s.stuck {
		wait := s.progress
		s.mu.Unlock()
		var err error
		select {
		case <-wait:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		s.mu.Lock()
		if err != nil {
			return err
		}
	}
	if s.err != nil && s.cfg.Ceiling > 0 && s.memory+nbytes > s.cfg.Ceiling {
		s.full = true
		return s.err
	}
	return nil
}

// Full reports whether MakeRoom has returned an error, and would do so again: a full worker takes no tasks. It also
// makes the store retry the disk periodically.
func (s *Store) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.full {
		return false
	}
	s.spillIfOver()
	s.full = s.err != nil && s.memory > s.cfg.Target
	return s.full
}

// spillOne spills the least recently used result. It returns 0 and no error if there is none. The caller holds mu,
// which is released while the file is written.
func (s *Store) spillOne() (int64, error) {
	e := s.large.first
	if e == nil {
		e = s.small.first
	}
	if e == nil {
		return 0, nil
	}
	if e.file != "" { // unchanged since it was read back
		s.dropValue(e)
		s.notify()
		return e.nbytes, nil
	}
	e.refs++
	e.writing = true
	s.updateList(e)
	v := e.value
	s.mu.Unlock()
	start := time.Now()
	path, disk, raw, err := s.writeFile(e, v)
	stop := time.Now()
	if err == nil && s.cfg.OnDisk != nil {
		s.cfg.OnDisk(Transfer{true, e.key, e.nbytes, disk, start, stop})
	}
	s.mu.Lock()
	switch {
	case err == nil && (e.gone || s.closed):
		s.trash = append(s.trash, path)
	case err == nil:
		e.file, e.disk, e.raw = path, disk, raw
		s.spilled.Disk += disk
		s.err = nil
	default:
		s.spillFailed(e, err)
	}
	e.writing = false
	if e.old != nil {
		e.old.Release()
		e.old = nil
	}
	e.refs--
	moved := int64(0)
	if err == nil && e.refs == 1 && !e.gone && !e.up { // not held by another goroutine meanwhile
		s.dropValue(e)
		moved = e.nbytes
	}
	e.refs++
	s.unref(e)
	s.notify()
	if err == nil && moved == 0 {
		moved = 1 // progress was made: the caller may try the next one
	}
	return moved, err
}

// dropValue drops the value of an entry that is on disk. The caller holds mu.
func (s *Store) dropValue(e *Entry) {
	e.value.Release()
	e.value = nil
	s.freed(e.nbytes)
	s.memory -= e.nbytes
	s.spilled.Keys++
	s.spilled.Memory += e.nbytes
	s.updateList(e)
}

// spillFailed records that a result could not be written. The caller holds mu.
func (s *Store) spillFailed(e *Entry, err error) {
	var cannot *task.EncodeError
	if errors.As(err, &cannot) || errors.Is(err, errOnDevice) {
		e.pinned = true // later attempts would fail too
		s.log.Warn("result cannot be encoded and stays in memory", "key", e.key.String(), "bytes",
			e.nbytes, "error", err)
		return
	}
	if s.err == nil {
		s.log.Error("cannot spill results", "error", err)
	}
	s.err = err
	s.retry = time.Now().Add(retryAfter)
}

// writeFile writes the value of an entry that the caller holds.
func (s *Store) writeFile(e *Entry, v *task.Value) (path string, disk, raw int64, err error) {
	fail := func(dir string, err error) (string, int64, int64, error) {
		return "", 0, 0, &SpillError{e.key, e.nbytes, dir, err}
	}
	data, err := v.Retained()
	if err != nil {
		return fail("", err)
	}
	defer data.Release()
	if path, err = s.newFile(data.Size()); err != nil {
		return fail(s.cfg.Dir, err)
	}
	f, err := s.create(path)
	if err != nil {
		return fail(s.cfg.Dir, err)
	}
	disk, err = writeTo(f, e.key, data, s.codec)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(path)
		return fail(s.cfg.Dir, err)
	}
	return path, disk, data.Size(), nil
}

// newFile returns the path of a file of some size. It creates the directory on first use.
func (s *Store) newFile(size int64) (string, error) {
	s.mu.Lock()
	if s.cfg.MaxSpill > 0 && s.spilled.Disk+size > s.cfg.MaxSpill {
		s.dropCopies()
		if s.spilled.Disk+size > s.cfg.MaxSpill {
			s.mu.Unlock()
			return "", ErrMaxSpill
		}
	}
	dir := s.dir
	s.mu.Unlock()
	if dir == nil {
		made, err := openDirectory(s.cfg.Dir)
		if err != nil {
			return "", err
		}
		s.mu.Lock()
		if s.dir == nil {
			s.dir, made = made, nil
		}
		dir = s.dir
		s.mu.Unlock()
		if made != nil { // Evict and the spiller were concurrent
			_ = made.remove()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return dir.name(), nil
}

// dropCopies removes the files of results that are also in memory. The caller holds mu.
func (s *Store) dropCopies() {
	for e := range s.entries.All() {
		if e.value != nil && e.file != "" {
			s.dropFile(e)
		}
	}
}

// read reads a result back into memory. The caller holds the entry and its load lock.
func (s *Store) read(e *Entry) (*task.Value, error) {
	s.mu.Lock()
	path, disk, raw, closed := e.file, e.disk, e.raw, s.closed
	s.mu.Unlock()
	if closed || path == "" {
		return nil, fmt.Errorf("worker/store: %v: %w", e.key, os.ErrClosed)
	}
	// Other data is spilled first, otherwise both would be in memory. Data that cannot be spilled is not waited for.
	if err := s.Reserve(context.Background(), e.nbytes); err != nil {
		return nil, err
	}
	defer s.Unreserve(e.nbytes)
	start := time.Now()
	data, err := readFile(path, disk, e.key, raw)
	if err != nil {
		return nil, fmt.Errorf("worker/store: cannot read %v back from disk: %w", e.key, err)
	}
	stop := time.Now()
	v := task.NewEncoded(data)
	s.mu.Lock()
	e.value = v
	s.memory += e.nbytes
	s.spilled.Keys--
	s.spilled.Memory -= e.nbytes
	s.mu.Unlock()
	if s.cfg.OnDisk != nil {
		s.cfg.OnDisk(Transfer{false, e.key, e.nbytes, disk, start, stop})
	}
	return v, nil
}

func readFile(path string, disk int64, key task.Key, limit int64) (*wire.Serialized, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readFrom(f, disk, key, limit)
}
