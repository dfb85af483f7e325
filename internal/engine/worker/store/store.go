package store

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"go.millstream.dev/internal/task"
)

// Config is how a store is made. The zero value keeps everything in memory.
type Config struct {
	// Target is how many bytes of results are kept in memory before the least recently used
	// go to disk; 0 is no bound. (distributed.worker.memory.target, a fraction of the limit)
	Target int64
	// Ceiling is how many bytes of results may be in memory if they cannot go to disk; 0 is
	// no bound. (distributed.worker.memory.pause, a fraction of the limit)
	Ceiling int64
	// MaxSpill is how many bytes may be on disk; 0 is no bound.
	// (distributed.worker.memory.max-spill)
	MaxSpill int64
	// Dir is where the store makes its directory: the system's for temporary files if empty.
	// (--local-directory)
	Dir string
	// Compression is lz4, zstd, auto (lz4) or false: no compression, as if empty.
	// (distributed.worker.memory.spill-compression)
	Compression string
	// Logger gets warnings: slog.Default() if nil.
	Logger *slog.Logger
	// OnDisk, if not nil, is told of each file that was written or read: for the timelines of
	// tasks. It is called by the goroutine that did it.
	OnDisk func(Transfer)
	// Device, if not nil, is a device's memory above the host's, with a limit of its own.
	Device *DeviceConfig
}

// Transfer is a file that was written or read.
type Transfer struct {
	// Write tells that it was written.
	Write bool
	// Key is what is in it, NBytes its size in memory, Disk the file's.
	Key          task.Key
	NBytes, Disk int64
	// Start and Stop are when.
	Start, Stop time.Time
}

// Store keeps results. See the package.
type Store struct {
	cfg   Config
	codec codec
	log   *slog.Logger
	dev   *device // nil if there is none
	// create makes a file; tests have one on a disk that is full.
	create func(path string) (*os.File, error)

	mu      sync.Mutex // guards all below, and what Entry says; never held during I/O
	entries map[task.Key]*Entry
	// large and small are what can go to disk: resident, and held by nobody but the store.
	// Small ones go only if there is no large one: a file costs more than they do.
	large, small lru
	memory       int64 // of what is resident
	spilled      Spilled
	reserved     int64 // for data that is being made or waits in MakeRoom
	waiting      int   // how many wait
	dir          *directory
	trash        []string      // files to be removed
	err          error         // why the last file could not be written
	retry        time.Time     // when the disk is tried again after err
	full         bool          // MakeRoom has turned somebody away since
	stuck        bool          // there is nothing that can go to disk now
	progress     chan struct{} // closed when something has changed for those in MakeRoom
	wake         chan struct{} // for the spiller
	running      bool          // the spiller
	closed       bool
	work         sync.WaitGroup
}

// Spilled is what is on disk only.
type Spilled struct {
	// Keys is how many results, Memory how many bytes they would take in memory.
	Keys   int
	Memory int64
	// Disk is how many bytes all files have, also those of results that are in memory as well.
	Disk int64
}

// New makes an empty store. The directory is made when it is needed first.
func New(cfg Config) (*Store, error) {
	c, err := codecOf(cfg.Compression)
	if err != nil {
		return nil, err
	}
	dev, err := newDevice(cfg.Device)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, codec: c, dev: dev, log: cfg.Logger, entries: map[task.Key]*Entry{},
		progress: make(chan struct{}), wake: make(chan struct{}, 1)}
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

// Put adds or replaces a result of a size in memory, and takes over the value.
func (s *Store) Put(key task.Key, v *task.Value, nbytes int64) { s.put(key, v, nbytes, false) }

// PutPinned is Put for a value that stays in memory whatever happens, such as an actor.
func (s *Store) PutPinned(key task.Key, v *task.Value, nbytes int64) { s.put(key, v, nbytes, true) }

func (s *Store) put(key task.Key, v *task.Value, nbytes int64, pinned bool) {
	onDevice := s.dev != nil && s.dev.cfg.Tier.OnDevice(v) > 0
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if old := s.entries[key]; old != nil {
		s.drop(old)
	}
	e := &Entry{s: s, key: key, nbytes: max(nbytes, 0), value: v, refs: 1, pinned: pinned, device: onDevice,
		up: onDevice}
	s.entries[key] = e
	*s.where(e) += e.nbytes
	s.settle(e)
	s.press()
	s.pressDevice()
}

// Hold finds a result and keeps it until Release; nil if it is not here.
func (s *Store) Hold(key task.Key) *Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[key]
	if e != nil {
		e.refs++
		s.settle(e)
	}
	return e
}

// Has tells whether a result is here.
func (s *Store) Has(key task.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[key] != nil
}

// Release gives an entry back.
func (s *Store) Release(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unref(e)
	s.press()
	s.pressDevice()
}

// ReleaseAll gives entries back.
func (s *Store) ReleaseAll(list []*Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range list {
		s.unref(e)
	}
	s.press()
	s.pressDevice()
}

// Delete forgets a result. Those who hold it still have it.
func (s *Store) Delete(key task.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[key]; e != nil {
		s.drop(e)
		s.changed()
	}
}

// Keys lists what is here, in no order.
func (s *Store) Keys() []task.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]task.Key, 0, len(s.entries))
	for k := range s.entries {
		out = append(out, k)
	}
	return out
}

// Len is how many results are here.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}

// Memory is how many bytes of results are in memory.
func (s *Store) Memory() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory
}

// Spilled is what is on disk.
func (s *Store) Spilled() Spilled {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spilled
}

// Err is why the last file could not be written, nil if it could.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close forgets everything and removes the directory. Results that somebody holds and that
// are on disk only can no longer be opened.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for _, e := range s.entries {
		s.drop(e)
	}
	s.trash = nil // they go with the directory
	s.kick()
	if s.dev != nil {
		s.dev.stop()
		s.kickMover()
	}
	s.changed()
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

// drop takes the store's own reference. The caller holds mu.
func (s *Store) drop(e *Entry) {
	delete(s.entries, e.key)
	e.gone = true
	s.unref(e)
}

// unref gives one reference back. The caller holds mu.
func (s *Store) unref(e *Entry) {
	e.refs--
	s.settle(e)
	if e.refs > 0 {
		return
	}
	if e.value != nil {
		*s.where(e) -= e.nbytes
		if e.up && !s.closed {
			s.dev.kill(e.value, e.nbytes)
			s.kickMover()
		} else {
			e.value.Release()
		}
		e.value = nil
	} else {
		s.spilled.Keys--
		s.spilled.Memory -= e.nbytes
	}
	s.dropFile(e)
}

// dropFile has the file of an entry removed. The caller holds mu.
func (s *Store) dropFile(e *Entry) {
	if e.file == "" {
		return
	}
	s.spilled.Disk -= e.disk
	if !s.closed {
		s.trash = append(s.trash, e.file)
		s.kick()
	}
	e.file, e.disk = "", 0
}

// where counts the bytes of the memory that an entry's value is in. The caller holds mu.
func (s *Store) where(e *Entry) *int64 {
	if e.up {
		return &s.dev.used
	}
	return &s.memory
}

// smallSize is below which a result goes to disk last.
const smallSize = 16 << 10

// settle puts an entry into the list of what can go to disk, or takes it out. The caller
// holds mu.
func (s *Store) settle(e *Entry) {
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
