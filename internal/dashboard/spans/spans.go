package spans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"
)

// Config is the argument of Open.
type Config struct {
	// Dir is the folder of the history. Empty keeps the history in memory only.
	Dir string
	// Limit bounds the size of the folder in bytes; the oldest spans are dropped first. 0 is 1 GiB.
	Limit int64
	// MemoryLimit bounds the memory of the store in bytes. 0 is 256 MiB. A history without a folder keeps its spans
	// in half of it.
	MemoryLimit int64
	// Origin is the time that is zero in a new history. The zero value is an hour before the present; spans that
	// began before the origin are cut, those that ended before it are dropped.
	Origin time.Time
	// Now returns the present; spans that end more than a minute later are dropped. nil is time.Now.
	Now func() time.Time

	// For tests.
	blockSpans  int    // of a full block
	beforePaint func() // is called before blocks of an opened history are painted
}

const (
	defaultLimit       = 1 << 30
	defaultMemoryLimit = 256 << 20
	originMargin       = time.Hour   // of a live history: time before it was opened that is kept
	firstMargin        = time.Minute // of a live history: time before it was opened that Meta.First may show
	futureMargin       = time.Minute // tolerated clock error of workers

	maxTime = 1 << 48 // µs since the origin, nine years: one tile of level 40
)

// ErrClosed is returned by operations on a closed Store. It matches fs.ErrClosed.
var ErrClosed = fmt.Errorf("spans: history closed: %w", fs.ErrClosed)

// ErrDamaged is returned by Open for a history that cannot be read.
var ErrDamaged = errors.New("spans: history is damaged or of another version")

// Categories of time. Prefixes of tasks follow in the order of their appearance, up to 254.
const (
	None uint8 = iota
	Transfer
	DiskRead
	DiskWrite
	Deserialize
	Waiting // a thread: for the dependencies of its next task
	Failed
	Paused      // a worker; a thread: for memory
	WaitingSlot // a thread: for resources of its next task, or for the process that runs it
	FirstPrefix
	Others uint8 = 255 // prefixes for which there was no category left
)

// fixedNames are the names of the categories below FirstPrefix.
var fixedNames = [FirstPrefix]string{
	"none", "transfer", "disk-read", "disk-write", "deserialize", "waiting", "error", "paused",
	"waiting-slot",
}

const othersName = "(others)"

// Flags of a span.
const (
	FlagError    uint8 = 1 << iota // the task failed
	FlagIncoming                   // the worker received the transfer
)

// Range is a half-open range of row ids.
type Range struct{ From, To uint32 }

// AllRows is the range of all rows.
var AllRows = Range{0, 1<<32 - 1}

// Span is a stretch of time of one row, as queries return it.
type Span struct {
	Row         uint32
	Category    uint8
	Flags       uint8
	Start, Stop int64  // µs since the origin, half open
	Key         string // text; empty if there is none
	Bytes       int64  // size of the result, or of the transfer
	Keys        int64  // number of results in a transfer
	Peer        string // address of the other worker of a transfer
	Transport   string // of a transfer
}

// Meta describes a history.
type Meta struct {
	Origin      int64 // Unix time in µs
	First, Last int64 // µs since the origin; both 0 in an empty history
	Spans       int64 // that are kept
	Dropped     int64 // since the history was opened: implausible, or too many
	Disk        int64 // bytes
	Rows        int
	Names       int
}

// Store keeps the spans of a history. Its methods may be called by any goroutine.
type Store struct {
	cfg     Config
	origin  int64 // Unix time in µs
	floor   int64 // earliest value of Meta.First of a live history
	dropped atomic.Int64

	queue  chan work
	free   chan *Batch
	done   chan struct{} // closed when the goroutine of the store has ended
	closed chan struct{}
	once   sync.Once
	err    error // of Close

	painted    chan struct{}  // closed when the index has its pyramid
	repainting sync.WaitGroup // for the goroutine of repaint

	names names

	mu      sync.RWMutex // guards what follows
	index   index
	cache   tileCache
	series  seriesSet
	events  eventLog
	changed bool  // since the state was saved
	size    int64 // of the folder

	outlines outlineCache

	// The goroutine of the store alone uses these.
	disk    *disk // nil in memory
	encoder blockEncoder
	sorted  columns
}

// work is what the goroutine of the store does next: add a batch, or close synced.
type work struct {
	batch  *Batch
	synced chan<- struct{}
}

// queueLength bounds the batches that wait for the goroutine of the store.
const queueLength = 256

// Open opens the history in a folder, or creates one. The pyramid of a history that exists is painted in the background
// until Close; tiles that need it wait.
func Open(cfg Config) (*Store, error) {
	if cfg.Limit <= 0 {
		cfg.Limit = defaultLimit
	}
	if cfg.MemoryLimit <= 0 {
		cfg.MemoryLimit = defaultMemoryLimit
	}
	if cfg.blockSpans == 0 {
		cfg.blockSpans = blockSpans
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Store{
		cfg:    cfg,
		queue:  make(chan work, queueLength),
		free:   make(chan *Batch, queueLength),
		done:   make(chan struct{}),
		closed: make(chan struct{}),

		painted: make(chan struct{}),
	}
	s.names.init()
	s.cache.init()
	s.series.init()
	s.outlines.init(cfg.MemoryLimit / 8)
	if cfg.Dir != "" {
		if err := s.openDisk(); err != nil {
			return nil, err
		}
	} else {
		s.newHistory()
	}
	if len(s.index.blocks) > 0 {
		s.repainting.Add(1)
		go s.repaint()
	} else {
		close(s.painted)
	}
	go s.run()
	return s, nil
}

// newHistory sets the origin.
func (s *Store) newHistory() {
	if !s.cfg.Origin.IsZero() {
		s.origin = s.cfg.Origin.UnixMicro()
		return
	}
	opened := s.cfg.Now()
	s.origin = opened.Add(-originMargin).UnixMicro()
	s.floor = opened.Add(-firstMargin).UnixMicro() - s.origin
}

// Close adds what was Put, and closes the history. It returns the first error of a write to disk.
func (s *Store) Close() error {
	s.once.Do(func() {
		close(s.closed)
		<-s.done
		s.repainting.Wait()
		if s.disk != nil {
			s.err = cmp.Or(s.err, s.save(), s.disk.sync())
			s.mu.Lock()
			s.disk.close()
			s.mu.Unlock()
		}
	})
	return s.err
}

// Put hands a batch over and returns an empty one to fill next. It does not block: if the store is behind, the spans of
// the batch are counted as dropped and the batch itself is returned.
func (s *Store) Put(b *Batch) *Batch {
	s.dropped.Add(b.dropped)
	b.dropped = 0
	if len(b.records) == 0 {
		return b
	}
	select {
	case <-s.closed:
	default:
		select {
		case s.queue <- work{batch: b}:
			return s.emptyBatch()
		default:
		}
	}
	s.dropped.Add(int64(len(b.records)))
	b.reset()
	return b
}

func (s *Store) emptyBatch() *Batch {
	select {
	case b := <-s.free:
		return b
	default:
		return new(Batch)
	}
}

// Sync waits until all that was Put before is visible to queries.
func (s *Store) Sync(ctx context.Context) error {
	synced := make(chan struct{})
	select {
	case s.queue <- work{synced: synced}:
	case <-s.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-synced:
		return nil
	case <-s.done:
		select {
		case <-synced:
			return nil
		default:
			return ErrClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// saveInterval is the time after which spans, series and events are on disk.
const saveInterval = 10 * time.Second

// run is the goroutine of the store.
func (s *Store) run() {
	defer close(s.done)
	var save <-chan time.Time
	if s.disk != nil {
		ticker := time.NewTicker(saveInterval)
		defer ticker.Stop()
		save = ticker.C
	}
	for {
		select {
		case w := <-s.queue:
			s.do(w)
		case <-save:
			if err := s.save(); err != nil && s.err == nil {
				s.err = err
			}
		case <-s.closed:
			for {
				select {
				case w := <-s.queue:
					s.do(w)
				default:
					return
				}
			}
		}
	}
}

func (s *Store) do(w work) {
	if w.synced != nil {
		close(w.synced)
		return
	}
	s.add(w.batch)
	w.batch.reset()
	select {
	case s.free <- w.batch:
	default:
	}
}

// Meta returns a description of the history.
func (s *Store) Meta() Meta {
	rows, names := s.names.counts()
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := Meta{Origin: s.origin, Dropped: s.dropped.Load(), Rows: rows, Names: names, Spans: s.index.count,
		Disk: s.size}
	if m.Spans > 0 {
		m.First, m.Last = s.index.first, s.index.last
		m.First = min(max(m.First, s.floor), m.Last)
	}
	return m
}
