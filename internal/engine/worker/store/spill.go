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

// SpillError is why a result could not be written to disk. It is in memory still.
type SpillError struct {
	// Key is the result, NBytes its size in memory, Dir where it was to go.
	Key    task.Key
	NBytes int64
	Dir    string
	// Err is the reason; errors.Is finds syscall.ENOSPC, ErrMaxSpill and others.
	Err error
}

// Error says what can be done about it.
func (e *SpillError) Error() string {
	text := fmt.Sprintf("worker/store: cannot move %v (%d bytes) to disk: %v; it stays in memory", e.Key, e.NBytes,
		e.Err)
	switch {
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EDQUOT):
		text += fmt.Sprintf(": free some space below %s or choose another --local-directory", e.Dir)
	case errors.Is(e.Err, ErrMaxSpill):
		text += ": raise distributed.worker.memory.max-spill or the worker's memory limit"
	}
	return text
}

// Unwrap is Err.
func (e *SpillError) Unwrap() error { return e.Err }

// ErrMaxSpill: Config.MaxSpill is reached.
var ErrMaxSpill = errors.New("no more may be on disk (distributed.worker.memory.max-spill)")

var errOnDevice = errors.New("it is memory of a GPU")

// retryAfter is how long the disk is left alone after it could not be written.
const retryAfter = time.Second

// over is how much too much is in memory. The caller holds mu.
func (s *Store) over() int64 {
	if s.cfg.Target <= 0 {
		return 0
	}
	return s.memory + s.reserved - s.cfg.Target
}

// press has the spiller look if there is too much in memory. The caller holds mu.
func (s *Store) press() {
	if s.over() > 0 && (s.large.first != nil || s.small.first != nil) && !time.Now().Before(s.retry) {
		s.stuck = false
		s.kick()
	}
}

// changed tells those who wait in MakeRoom. The caller holds mu.
func (s *Store) changed() {
	if s.waiting > 0 {
		close(s.progress)
		s.progress = make(chan struct{})
	}
}

// kick wakes the spiller, and starts it the first time. The caller holds mu.
func (s *Store) kick() {
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

// spiller removes files, and moves results to disk while there are too many in memory.
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
					_ = os.Remove(file) // what is left goes with the directory
				}
				s.mu.Lock()
				continue
			}
			if s.over() <= 0 || time.Now().Before(s.retry) {
				break
			}
			if n, err := s.spillOne(); n == 0 && err == nil {
				break // nothing is left that can go
			}
		}
		s.stuck = s.over() > 0
		s.changed()
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return
		}
	}
}

// Evict moves one result to disk and returns its size in memory: 0 if none can be moved. It
// is for a worker whose process uses too much memory, whatever the results have of it.
func (s *Store) Evict() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || time.Now().Before(s.retry) {
		return 0
	}
	s.work.Add(1) // Close waits
	defer s.work.Done()
	for {
		n, err := s.spillOne()
		if n > 0 || err == nil || s.err != nil {
			return n
		}
	}
}

// MakeRoom waits until so many bytes more fit below Config.Target, or nothing is left that
// can go to disk: it is called by those who make data, before they Put it. The error is that
// of ctx, or, if the data would be above Config.Ceiling, why nothing goes to disk.
func (s *Store) MakeRoom(ctx context.Context, nbytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.makeRoom(ctx, nbytes)
}

// Reserve is MakeRoom for data that is still to be made: the room counts as taken until
// Unreserve gives it back, which is after the data was Put, or was not made after all. It
// fails only with ctx, and then nothing is reserved.
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

// Unreserve gives back what was reserved.
func (s *Store) Unreserve(nbytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= nbytes
	s.changed()
}

// makeRoom is MakeRoom. The caller holds mu, which is given up during the wait.
func (s *Store) makeRoom(ctx context.Context, nbytes int64) error {
	if s.cfg.Target <= 0 || s.memory+s.reserved+nbytes <= s.cfg.Target {
		return nil
	}
	s.reserved += nbytes
	s.waiting++
	defer func() { s.reserved -= nbytes; s.waiting-- }()
	s.stuck = false
	s.kick()
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

// Full tells that MakeRoom has turned somebody away, and that it would do so again: a worker
// that is full takes no tasks. It has the disk tried again from time to time.
func (s *Store) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.full {
		return false
	}
	s.press()
	s.full = s.err != nil && s.memory > s.cfg.Target
	return s.full
}

// spillOne moves the least recently used result to disk. It returns 0 and no error if there
// is none. The caller holds mu, which is given up while the file is written.
func (s *Store) spillOne() (int64, error) {
	e := s.large.first
	if e == nil {
		e = s.small.first
	}
	if e == nil {
		return 0, nil
	}
	if e.file != "" { // it was read back and has not changed
		s.letGo(e)
		s.changed()
		return e.nbytes, nil
	}
	e.refs++
	e.writing = true
	s.settle(e)
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
		s.failed(e, err)
	}
	e.writing = false
	if e.old != nil {
		e.old.Release()
		e.old = nil
	}
	e.refs--
	moved := int64(0)
	if err == nil && e.refs == 1 && !e.gone && !e.up { // nobody has taken it meanwhile
		s.letGo(e)
		moved = e.nbytes
	}
	e.refs++
	s.unref(e)
	s.changed()
	if err == nil && moved == 0 {
		moved = 1 // something was done, and the next one may be tried
	}
	return moved, err
}

// letGo drops the value of an entry that is on disk. The caller holds mu.
func (s *Store) letGo(e *Entry) {
	e.value.Release()
	e.value = nil
	s.memory -= e.nbytes
	s.spilled.Keys++
	s.spilled.Memory += e.nbytes
	s.settle(e)
}

// failed notes that a result could not be written. The caller holds mu.
func (s *Store) failed(e *Entry, err error) {
	var cannot *task.EncodeError
	if errors.As(err, &cannot) || errors.Is(err, errOnDevice) {
		e.pinned = true // it never will be
		s.log.Warn("a result has no form outside of the process and stays in memory", "key", e.key.String(), "bytes",
			e.nbytes, "error", err)
		return
	}
	if s.err == nil {
		s.log.Error("data cannot be moved to disk", "error", err)
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

// newFile is the path of a file of some size, in the directory that is made if need be.
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
		if made != nil { // Evict and the spiller were equally fast
			_ = made.remove()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return dir.name(), nil
}

// dropCopies removes the files of what is in memory as well. The caller holds mu.
func (s *Store) dropCopies() {
	for _, e := range s.entries {
		if e.value != nil && e.file != "" {
			s.dropFile(e)
		}
	}
}

// read brings a result back to memory. The caller holds the entry and its load lock.
func (s *Store) read(e *Entry) (*task.Value, error) {
	s.mu.Lock()
	path, disk, raw, closed := e.file, e.disk, e.raw, s.closed
	s.mu.Unlock()
	if closed || path == "" {
		return nil, fmt.Errorf("worker/store: %v: %w", e.key, os.ErrClosed)
	}
	// Other data goes first, or there would be both. What cannot go is not waited for.
	if err := s.Reserve(context.Background(), e.nbytes); err != nil {
		return nil, err
	}
	defer s.Unreserve(e.nbytes)
	start := time.Now()
	data, err := readFile(path, disk, e.key, raw)
	if err != nil {
		return nil, fmt.Errorf("worker/store: %v cannot be read back from disk: %w", e.key, err)
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
