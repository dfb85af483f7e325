package ucx

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/epstate"
	"go.millstream.dev/ucx/internal/ucp"
)

// ProgressMode selects how a worker makes progress.
type ProgressMode int

const (
	// Adaptive is the default: a waiting goroutine drives progress itself, spins for a time learned from recent waits,
	// then sleeps on UCX's descriptor in Go's poller. An idle worker uses no CPU.
	Adaptive ProgressMode = iota
	// Polling never sleeps during a wait: lowest latency, one core per waiting worker.
	Polling
	// Thread gives the worker a dedicated OS thread. It is selected automatically if the library grants only
	// single-threaded workers.
	Thread
)

// String returns the mode's name as the command line spells it.
func (m ProgressMode) String() string {
	switch m {
	case Adaptive:
		return "adaptive"
	case Polling:
		return "spin"
	case Thread:
		return "thread"
	}
	return fmt.Sprintf("ProgressMode(%d)", int(m))
}

// threadMode is UCX's thread mode of a worker.
type threadMode int

// UCX's thread modes, shifted by one so that the zero value means Millstream's default.
const (
	threadDefault    threadMode = iota // serialized
	threadSingle                       // only one OS thread ever touches the worker
	threadSerialized                   // any thread, one at a time
	threadMulti                        // any thread at any time (slower; not needed here)
)

// WorkerConfig configures a [Worker]. The zero value is useful.
type WorkerConfig struct {
	Name     string       // appears in UCX's output and in errors; default: UCX's own
	Progress ProgressMode // default Adaptive
	// MaxSpin bounds how long an adaptive wait spins before it sleeps. Default 200 µs, of which a wait uses as much as
	// recent waits suggest; on a machine with one CPU waits do not spin.
	MaxSpin time.Duration
	// MaxQueuedMessages bounds the bytes of active messages that arrived and were not received. Beyond it the sender's
	// endpoint is failed. Default 256 MiB.
	MaxQueuedMessages int64
	// NoErrorHandling selects UCX's error mode "none" for all endpoints of the worker except those of Dial, Attach and
	// Listeners. Default: a dead peer fails its endpoint and the operations on it.
	NoErrorHandling bool

	threads threadMode // default threadSerialized; threadSingle forces Progress to Thread; set by tests
}

const (
	defaultMaxSpin   = 200 * time.Microsecond
	defaultMaxQueued = 256 << 20
)

// Worker is a UCX worker: a set of connections that make progress together. It is safe for concurrent use, whatever the
// library's thread mode. A context may have several workers to reduce contention.
type Worker struct {
	ctx  *Context
	cfg  WorkerConfig
	mode threadMode // granted by the library

	drv driver // progress and the operations in flight
	mem binder // the memory of operations

	peers     endpointTable
	listeners listenerTable
	ams       amTable
	allocs    allocTable                   // see SetAllocator
	ucxx      atomic.Pointer[ucxxMessages] // UCXX's active messages; made at first use

	closeOnce sync.Once
	closeErr  error
}

// NewWorker returns a new worker.
func (c *Context) NewWorker(cfg WorkerConfig) (*Worker, error) {
	if cfg.MaxSpin == 0 {
		cfg.MaxSpin = defaultMaxSpin
	}
	if cfg.MaxQueuedMessages == 0 {
		cfg.MaxQueuedMessages = defaultMaxQueued
	}
	if cfg.threads == threadDefault {
		cfg.threads = threadSerialized
	}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, &OpError{Op: "create worker", Err: ErrClosed}
	}
	wakeup := c.cfg.Features&Wakeup != 0
	w := &Worker{ctx: c, cfg: cfg, mem: binder{ctx: c}}
	w.peers.init(w)
	w.listeners.init()
	w.ams.init(w)
	w.drv.init(w)
	if cfg.threads == threadSingle || cfg.Progress == Thread {
		if err := w.drv.startThread(wakeup); err != nil {
			return nil, err
		}
	} else if err := w.create(wakeup); err != nil {
		return nil, err
	} else if w.mode == threadSingle {
		// The library requires a single thread: start again with one.
		ucp.DestroyWorker(w.drv.c, false)
		ucp.FreeWorker(w.drv.c)
		if err := w.drv.startThread(wakeup); err != nil {
			return nil, err
		}
	} else if err := w.drv.startPoller(); err != nil {
		ucp.DestroyWorker(w.drv.c, false)
		ucp.FreeWorker(w.drv.c)
		return nil, err
	}
	runtime.AddCleanup(w, buryWorker, w.drv.c)
	freeDeadWorkers()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		go w.Close()
		return nil, &OpError{Op: "create worker", Err: ErrClosed}
	}
	c.workers[w] = struct{}{}
	return w, nil
}

// create makes the UCX worker on the calling thread.
func (w *Worker) create(wakeup bool) error {
	c, st := ucp.NewWorker(w.ctx.h, int(w.cfg.threads)-1, w.cfg.Name, wakeup)
	if st != 0 {
		err := fmt.Errorf("%w", Status(st))
		if wakeup {
			err = fmt.Errorf("%w (the Wakeup feature needs a transport that can signal, such as tcp: add it to "+
				"UCX_TLS or leave Wakeup out of Config.Features)", Status(st))
		}
		return &OpError{Op: "create worker", Err: err}
	}
	mode, maxHeader, st := ucp.QueryWorker(c)
	if st != 0 {
		ucp.DestroyWorker(c, false)
		ucp.FreeWorker(c)
		return &OpError{Op: "query worker", Err: Status(st)}
	}
	if w.ctx.cfg.Features&ActiveMessages != 0 && !w.ctx.lib.AtLeast(1, 21) {
		if st := ucp.ShutAMIDs(c); st != 0 {
			ucp.DestroyWorker(c, false)
			ucp.FreeWorker(c)
			return &OpError{Op: "create worker", Err: Status(st)}
		}
	}
	c.AMLimit = uint64(w.cfg.MaxQueuedMessages)
	w.drv.c, w.mode, w.mem.maxHeader = c, threadMode(mode+1), int(maxHeader)
	return nil
}

// deadWorkers are C structs of unreachable workers. A closed worker's struct must outlive every goroutine that might
// still read its token, so only the garbage collector knows when it can be freed; it is freed when the next worker is
// created.
var deadWorkers struct {
	sync.Mutex
	list []*ucp.Worker
}

func buryWorker(c *ucp.Worker) {
	deadWorkers.Lock()
	deadWorkers.list = append(deadWorkers.list, c)
	deadWorkers.Unlock()
}

func freeDeadWorkers() {
	deadWorkers.Lock()
	list := deadWorkers.list
	deadWorkers.list = nil
	deadWorkers.Unlock()
	for _, c := range list {
		ucp.FreeWorker(c)
	}
}

// Context returns the worker's context.
func (w *Worker) Context() *Context { return w.ctx }

// progress returns the effective progress mode.
func (w *Worker) progress() ProgressMode {
	if w.drv.wakeFile != nil {
		return Thread
	}
	return w.cfg.Progress
}

func (w *Worker) name() string { return w.cfg.Name }

// SetAllocator sets the allocator of message data that senders have in memory of a kind, for receives without an
// explicit destination: [AM.Buffer] with a nil resource, [Endpoint.RecvFrames] and UCXX's receives with unset fields of
// Allocators. nil removes it: device and managed memory is then allocated like host memory, host and pinned memory on
// Go's heap. It applies to later receives.
func (w *Worker) SetAllocator(kind mem.Kind, res mem.Resource) {
	if res == nil {
		w.allocs[kind].Store(nil)
		return
	}
	w.allocs[kind].Store(&res)
}

// allocTable holds the allocators of a worker by kind of memory.
type allocTable [mem.Managed + 1]atomic.Pointer[mem.Resource]

// get returns the allocator that SetAllocator has set for a kind, or nil.
func (t *allocTable) get(kind mem.Kind) mem.Resource {
	if p := t[kind].Load(); p != nil {
		return *p
	}
	return nil
}

// resource returns the allocator for data of a kind.
func (t *allocTable) resource(kind mem.Kind) mem.Resource {
	for _, k := range []mem.Kind{kind, mem.Host} {
		if res := t.get(k); res != nil {
			return res
		}
	}
	return mem.Heap
}

// WorkerInfo describes a [Worker].
type WorkerInfo struct {
	Text      string       // UCX's description
	Progress  ProgressMode // in force: Thread also where the library grants single-threaded workers only
	MaxHeader int          // bytes of the longest header of an active message
}

// Info returns a description of the worker.
func (w *Worker) Info() (WorkerInfo, error) {
	var text string
	err := w.drv.call("worker info", ucp.CallWorkerText, nil, func(s *ucp.Slot) { text = ucp.TakeText(s.RTag) })
	return WorkerInfo{Text: text, Progress: w.progress(), MaxHeader: w.mem.maxHeader}, err
}

// Flush waits until all operations of the worker that were started before are complete at their targets.
func (w *Worker) Flush(ctx context.Context) error {
	s, r, err := w.prepare(ucp.OpWorkerFlush, nil)
	if err != nil {
		return err
	}
	return r.finishBlocking(ctx, s)
}

// StartFlush is the non-blocking form of Flush.
func (w *Worker) StartFlush() *Request {
	return w.startPlain(ucp.OpWorkerFlush, nil)
}

// Fence orders RMA and atomic operations: those started after it take effect after those started before it, per
// endpoint.
func (w *Worker) Fence() error {
	return w.drv.call("fence", ucp.CallFence, func(s *ucp.Slot) { s.Flags |= ucp.FlagOrdered }, nil)
}

// Close closes listeners and endpoints by force (close endpoints first to flush them), ends every operation with an
// error that matches [context.Canceled] or ErrClosed, and frees the worker.
func (w *Worker) Close() error {
	w.closeOnce.Do(func() { w.closeErr = w.close() })
	return w.closeErr
}

func (w *Worker) close() error {
	lines, socks := w.listeners.shut()
	eps, inboxes := w.peers.shut(), w.ams.shut()
	for _, l := range lines {
		l.Close()
	}
	for _, l := range socks {
		_ = l.close()
	}
	var aborts sync.WaitGroup
	for _, ep := range eps { // concurrently, as each may wait for a handshake
		aborts.Go(func() { ep.abort(ErrClosed) })
	}
	aborts.Wait()
	w.drv.closing.Store(true)
	for _, b := range inboxes {
		b.close()
	}
	w.peers.discard()
	if st := w.ucxx.Load(); st != nil {
		st.closeHandlers()
	}
	w.drv.cancelAll()
	leaked := w.drv.collectSlots(time.Now().Add(forceWait))
	w.destroy(leaked)
	w.ctx.mu.Lock()
	delete(w.ctx.workers, w)
	w.ctx.mu.Unlock()
	if leaked > 0 {
		err := fmt.Errorf("ucx: %d operations did not end within %v; their memory is leaked", leaked, forceWait)
		return &OpError{Op: "close worker", Err: err}
	}
	return nil
}

func (w *Worker) destroy(leaked int) {
	w.drv.halt() // takes the token permanently; thread mode frees the worker on its thread
	if leaked == 0 {
		for n := range w.drv.slots.count.Load() {
			ucp.FreeSlots(w.drv.slots.chunks[n].Load().slots)
		}
		w.mem.close()
	}
	runtime.KeepAlive(w.ctx)
}

// handleEvent processes an event of UCX's callbacks. The caller holds the token: nothing here may block or call into
// UCX other than to free the event.
func (w *Worker) handleEvent(e *ucp.Event) {
	switch e.Type {
	case ucp.EventEPError:
		if ep := w.peers.byID(e.ID); ep != nil {
			ep.on(epstate.PeerFailed, Status(e.Status))
		}
		ucp.FreeEvent(w.drv.c, e)
	case ucp.EventConnRequest:
		if l := w.listeners.sock(e.ID); l != nil {
			l.deliver(e)
			return
		}
		ucp.FreeEvent(w.drv.c, e)
	case ucp.EventAM:
		w.ams.deliver(e)
	case ucp.EventAMOverflow:
		w.ams.reportDropped(e)
		ucp.FreeEvent(w.drv.c, e)
	}
}

// listenerTable holds the listeners of a worker.
type listenerTable struct {
	mu        sync.Mutex // guards the fields below; never held across a C call
	listeners map[*Listener]struct{}
	socks     map[uint64]*sockListener
	nextID    uint64
	closed    bool
}

func (t *listenerTable) init() {
	t.listeners, t.socks = map[*Listener]struct{}{}, map[uint64]*sockListener{}
}

// shut rejects further listeners and returns the existing ones.
func (t *listenerTable) shut() ([]*Listener, []*sockListener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return slices.Collect(maps.Keys(t.listeners)), slices.Collect(maps.Values(t.socks))
}

func (t *listenerTable) add(l *Listener) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	t.listeners[l] = struct{}{}
	return nil
}

func (t *listenerTable) remove(l *Listener) {
	t.mu.Lock()
	delete(t.listeners, l)
	t.mu.Unlock()
}

// addSock assigns a listener its number and registers it.
func (t *listenerTable) addSock(l *sockListener) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	t.nextID++
	l.id = t.nextID
	t.socks[l.id] = l
	return nil
}

func (t *listenerTable) removeSock(l *sockListener) {
	t.mu.Lock()
	delete(t.socks, l.id)
	t.mu.Unlock()
}

// sock returns the listener with a number, or nil.
func (t *listenerTable) sock(id uint64) *sockListener {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.socks[id]
}

// OpStats counts one kind of operation of a worker.
type OpStats struct {
	Count uint64 // operations submitted to UCX
	Bytes uint64 // bytes of their views (vectors are not counted)
}

// WorkerStats is a snapshot of a worker's counters since its creation. The counters add no cost: they are written by
// the goroutine that makes progress.
type WorkerStats struct {
	Ops       map[string]OpStats // by operation, "tag send"
	Errors    uint64             // operations that failed
	InFlight  int64              // operations that UCX has not finished
	Endpoints int                // open endpoints

	Drives      uint64 // calls into the progress loop
	Progress    uint64 // turns of it
	SpinsWon    uint64 // waits that ended while spinning
	SpinsLost   uint64 // waits that went to sleep
	Parks       uint64 // goroutines that slept for a completion
	Arms        uint64 // times the event descriptor was armed
	RingSubmits uint64 // operations handed to another goroutine that held the token

	Messages        uint64 // active messages that arrived
	MessageBytes    uint64
	MessagesDropped uint64 // refused because the queue was full; their endpoints failed
	EndpointErrors  uint64
}

// Stats returns the worker's counters. It may be called at any time; the numbers of one snapshot are not taken at the
// same instant. After Close it returns the zero value.
func (w *Worker) Stats() WorkerStats {
	// The slot keeps the worker's memory from being freed during the reads.
	s, _, err := w.drv.takeSlot()
	if err != nil {
		return WorkerStats{}
	}
	defer w.drv.putSlot(s)
	c := &w.drv.c.Stats
	out := WorkerStats{
		Ops: map[string]OpStats{}, Errors: load(&c.Errors), InFlight: atomic.LoadInt64(&w.drv.c.Inflight),
		Drives: load(&c.Drives), Progress: load(&c.ProgressCalls), SpinsWon: load(&c.SpinsWon),
		SpinsLost: load(&c.SpinsLost),
		Parks:     w.drv.parks.Load(), Arms: load(&c.Arms), RingSubmits: load(&c.RingSubmits),
		Messages:     load(&c.AMReceived),
		MessageBytes: load(&c.AMBytes), MessagesDropped: load(&c.AMDropped), EndpointErrors: load(&c.EPErrors),
	}
	for op := ucp.OpTagSend; op < ucp.OpCall; op++ {
		if n := load(&c.Ops[op]); n > 0 {
			out.Ops[op.String()] = OpStats{Count: n, Bytes: load(&c.Bytes[op])}
		}
	}
	out.Endpoints = w.peers.count()
	return out
}

// load reads a counter that the token holder writes with plain stores in C.
func load(p *uint64) uint64 { return atomic.LoadUint64(p) }
