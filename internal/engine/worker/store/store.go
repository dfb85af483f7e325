package store

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskid"
)

// Config configures a Store. The zero value keeps everything in memory.
type Config struct {
	// Target is the number of bytes of results in memory above which the least recently used are spilled; 0 means no
	// limit. (distributed.worker.memory.target, a fraction of the limit)
	Target int64
	// Ceiling is the maximum number of bytes of results in memory if they cannot be spilled; 0 means no limit.
	// (distributed.worker.memory.pause, a fraction of the limit)
	Ceiling int64
	// MaxSpill is the maximum number of bytes on disk; 0 means no limit. (distributed.worker.memory.max-spill)
	MaxSpill int64
	// Dir is the parent of the directory of the store (default: that of the system for temporary files).
	// (--local-directory)
	Dir string
	// Compression is lz4, zstd, auto (lz4) or false (no compression; the default).
	// (distributed.worker.memory.spill-compression)
	Compression string
	// Logger receives warnings (default slog.Default()).
	Logger *slog.Logger
	// OnDisk, if not nil, is called for each file that was written or read, by the goroutine that did it: for the
	// timelines of tasks.
	OnDisk func(Transfer)
	// OnFree, if not nil, is called with the size of each result that is removed from host memory. It must not block or
	// call the store.
	OnFree func(nbytes int64)
	// Device, if not nil, configures device memory, which has a limit of its own.
	Device *DeviceConfig
}

// Transfer describes a file that was written or read.
type Transfer struct {
	// Write indicates that the file was written.
	Write bool
	// Key is the key of the result, NBytes its size in memory, Disk the size of the file.
	Key          task.Key
	NBytes, Disk int64
	// Start and Stop are the times of the transfer.
	Start, Stop time.Time
}

// Store keeps results, see the package documentation.
type Store struct {
	cfg   Config
	codec codec
	log   *slog.Logger
	dev   *device // nil without a device
	// create creates a file; tests replace it to simulate a full disk.
	create func(path string) (*os.File, error)

	mu      sync.Mutex // guards the fields below and those of entries; never held during I/O
	entries taskid.Table[*Entry]
	// large and small are the results that can be spilled: in memory, and held only by the store. Small ones are
	// spilled only if there is no large one: a file costs more than it saves.
	large, small lru
	memory       int64 // bytes of results in memory
	spilled      Spilled
	reserved     int64 // bytes of data that is being made or waits in MakeRoom
	waiting      int   // number of waiting goroutines
	dir          *directory
	trash        []string      // files to remove
	err          error         // why the last file could not be written
	retry        time.Time     // time of the next attempt after err
	full         bool          // MakeRoom has returned err
	stuck        bool          // no result can be spilled now
	progress     chan struct{} // closed by notify
	wake         chan struct{} // wakes the spiller
	running      bool          // the spiller is running
	closed       bool
	work         sync.WaitGroup
}

// Spilled describes the results that are on disk only.
type Spilled struct {
	// Keys is the number of results, Memory the bytes that they would take in memory.
	Keys   int
	Memory int64
	// Disk is the size of all files in bytes, including those of results that are also in memory.
	Disk int64
}

// New returns an empty store. The directory is created on first use.
func New(cfg Config) (*Store, error) {
	c, err := codecOf(cfg.Compression)
	if err != nil {
		return nil, err
	}
	dev, err := newDevice(cfg.Device)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, codec: c, dev: dev, log: cfg.Logger, progress: make(chan struct{}),
		wake: make(chan struct{}, 1)}
	if s.log == nil {
		s.log = slog.Default()
	}
	if dev != nil && dev.cfg.Memory != nil {
		dev.cfg.Memory.bind(s)
	}
	s.create = func(path string) (*os.File, error) {
		return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}
	return s, nil
}

// Put adds or replaces a result with a size in memory, and takes over the value.
func (s *Store) Put(key task.Key, v *task.Value, nbytes int64) { s.put(key, v, nbytes, false) }

// PutPinned is Put for a value that is never spilled, such as an actor.
func (s *Store) PutPinned(key task.Key, v *task.Value, nbytes int64) { s.put(key, v, nbytes, true) }

func (s *Store) put(key task.Key, v *task.Value, nbytes int64, pinned bool) {
	onDevice := s.dev != nil && s.dev.cfg.Tier.OnDevice(v) > 0
	var withdraw func()
	if onDevice && s.dev.cfg.Publish != nil && !pinned {
		withdraw = s.dev.cfg.Publish(key, v)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		if withdraw != nil {
			withdraw()
		}
		return
	}
	hash := s.entries.Hash(key)
	if old := s.entries.Find(key, hash); old != nil {
		s.drop(old)
	}
	e := &Entry{s: s, key: key, nbytes: max(nbytes, 0), value: v, refs: 1, pinned: pinned, device: onDevice,
		up: onDevice, withdraw: withdraw}
	s.entries.Put(e, hash)
	*s.counter(e) += e.nbytes
	s.updateList(e)
	s.spillIfOver()
	s.moveIfOver()
}

// Hold returns a result and holds it until Release; nil if there is none.
func (s *Store) Hold(key task.Key) *Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries.Get(key)
	if e != nil {
		e.refs++
		s.updateList(e)
	}
	return e
}

// Has reports whether the store has a result.
func (s *Store) Has(key task.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries.Get(key) != nil
}

// Release releases an entry.
func (s *Store) Release(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unref(e)
	s.spillIfOver()
	s.moveIfOver()
}

// ReleaseAll releases entries.
func (s *Store) ReleaseAll(list []*Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range list {
		s.unref(e)
	}
	s.spillIfOver()
	s.moveIfOver()
}

// Delete removes a result. It stays valid for those that hold it.
func (s *Store) Delete(key task.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries.Get(key); e != nil {
		s.drop(e)
		s.notify()
	}
}

// Keys returns the keys of all results, in no order.
func (s *Store) Keys() []task.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]task.Key, 0, s.entries.Len())
	for e := range s.entries.All() {
		out = append(out, e.key)
	}
	return out
}

// Len returns the number of results.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries.Len()
}

// Memory returns the number of bytes of results in memory.
func (s *Store) Memory() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory
}

// Spilled returns the figures of results on disk.
func (s *Store) Spilled() Spilled {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spilled
}

// Err returns why the last file could not be written, nil if it could.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close removes all results and the directory. Results that are held and on disk only can no longer be opened.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for e := range s.entries.All() {
		s.unlink(e)
	}
	s.entries = taskid.Table[*Entry]{}
	s.trash = nil // removed with the directory
	s.wakeSpiller()
	if s.dev != nil {
		s.dev.stop()
		s.wakeMover()
	}
	s.notify()
	s.mu.Unlock()
	s.work.Wait()
	s.mu.Lock()
	dir := s.dir
	s.dir = nil
	s.mu.Unlock()
	if dir == nil {
		return nil
	}
	return dir.remove()
}

// drop releases the reference of the store. The caller holds mu.
func (s *Store) drop(e *Entry) {
	s.entries.Remove(e)
	s.unlink(e)
}

// unlink releases the reference of the store to an entry that is not in the table. The caller holds mu.
func (s *Store) unlink(e *Entry) {
	e.gone = true
	e.unpublish()
	s.unref(e)
}

// unref releases one reference. The caller holds mu.
func (s *Store) unref(e *Entry) {
	e.refs--
	s.updateList(e)
	if e.refs > 0 {
		return
	}
	if e.value != nil {
		*s.counter(e) -= e.nbytes
		if e.up && !s.closed {
			s.dev.retire(e.value, e.nbytes)
			s.wakeMover()
		} else {
			e.value.Release()
			s.freed(e.nbytes)
		}
		e.value = nil
	} else {
		s.spilled.Keys--
		s.spilled.Memory -= e.nbytes
	}
	s.dropFile(e)
}

// freed reports that a value was removed from host memory.
func (s *Store) freed(nbytes int64) {
	if s.cfg.OnFree != nil {
		s.cfg.OnFree(nbytes)
	}
}

// dropFile schedules the removal of an entry's file. The caller holds mu.
func (s *Store) dropFile(e *Entry) {
	if e.file == "" {
		return
	}
	s.spilled.Disk -= e.disk
	if !s.closed {
		s.trash = append(s.trash, e.file)
		s.wakeSpiller()
	}
	e.file, e.disk = "", 0
}

// counter returns the counter of the memory that holds the value of an entry. The caller holds mu.
func (s *Store) counter(e *Entry) *int64 {
	if e.up {
		return &s.dev.used
	}
	return &s.memory
}

// smallSize is the size in bytes below which a result is spilled last.
const smallSize = 16 << 10

// updateList adds an entry to the list of results that can be spilled or moved, or removes it. The caller holds mu.
func (s *Store) updateList(e *Entry) {
	can := e.value != nil && e.refs == 1 && !e.gone && !e.pinned
	switch {
	case can && e.list == nil:
		switch {
		case e.up:
			s.dev.list.push(e)
		case e.nbytes < smallSize:
			s.small.push(e)
		default:
			s.large.push(e)
		}
	case !can && e.list != nil:
		e.list.remove(e)
	}
}
