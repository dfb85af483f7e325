package ucx

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"go.millstream.dev/ucx/internal/ucp"
)

// ProgressMode says who makes a worker's progress.
type ProgressMode int

const (
	// Adaptive is the default: a waiting goroutine drives progress itself, spins for
	// a time learned from recent waits, then sleeps on UCX's descriptor through
	// Go's poller. An idle worker costs nothing.
	Adaptive ProgressMode = iota
	// Polling never sleeps while an operation is waited for: lowest latency, one
	// core per waiting worker.
	Polling
	// Thread gives the worker an OS thread of its own. It is chosen by itself when
	// the library grants only single-threaded workers.
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

// ThreadMode is UCX's thread mode of a worker.
type ThreadMode int

// UCX's thread modes, shifted by one so that the zero value means Millstream's default.
const (
	ThreadDefault    ThreadMode = iota // Serialized
	ThreadSingle                       // only one OS thread ever touches the worker
	ThreadSerialized                   // any thread, one at a time
	ThreadMulti                        // any thread at any time (slower; not needed here)
)

// ErrorMode says whether an endpoint notices its peer's failure.
type ErrorMode int

const (
	// ErrorPeer is the default: a dead peer fails the endpoint and its operations.
	ErrorPeer ErrorMode = iota
	// ErrorNone leaves failures unnoticed; slightly cheaper.
	ErrorNone
)

// WorkerConfig configures a [Worker]. The zero value is useful.
type WorkerConfig struct {
	Name     string       // appears in UCX's output and in errors; default: UCX's own
	Progress ProgressMode // default Adaptive
	Threads  ThreadMode   // default ThreadSerialized; ThreadSingle forces Progress to Thread
	// MaxSpin bounds how long an adaptive wait spins before it sleeps.
	// Default 200 µs, of which a wait uses as much as recent waits make sensible; on a
	// machine with one CPU there is no spinning.
	MaxSpin time.Duration
	// MaxQueuedMessages bounds the bytes of active messages that arrived and were
	// not taken yet. Beyond it the sender's endpoint is failed. Default 256 MiB.
	MaxQueuedMessages int64
	// Errors is the error mode of endpoints that do not choose one. Default ErrorPeer.
	Errors ErrorMode
}

const (
	defaultMaxSpin   = 200 * time.Microsecond
	defaultMaxQueued = 256 << 20
)

// Worker is a UCX worker: a set of connections that make progress together. It is
// safe for any number of goroutines, whatever the library's thread mode. A context
// may have several; more workers mean less contention, not more correctness.
type Worker struct {
	ctx  *Context
	cfg  WorkerConfig
	mode ThreadMode // granted by the library

	drv driver // progress and the operations in flight
	mem binder // the memory of operations

	drops uint64 // owner: token holder; messages refused for want of room

	ucxx atomic.Pointer[ucxxMessages] // UCXX's active messages; made at first use

	mu        sync.Mutex // guards the maps; never held across a C call
	eps       map[uint64]*Endpoint
	handles   map[unsafe.Pointer]*Endpoint // by ucp_ep_h, for reply endpoints
	dead      []*ucp.EP                    // C halves of endpoints that have gone, to be freed
	listeners map[uint64]*SockListener
	lifelines map[*Listener]struct{}
	lines     map[uint64]*lifeline // by this end's number
	pairings  map[uint64]*pairing  // by the other worker's number
	inboxes   map[uint16]*inbox
	nextID    uint64
	closed    bool
	closeDone chan struct{}
}

// NewWorker makes a worker.
func (c *Context) NewWorker(cfg WorkerConfig) (*Worker, error) {
	if cfg.MaxSpin == 0 {
		cfg.MaxSpin = defaultMaxSpin
	}
	if cfg.MaxQueuedMessages == 0 {
		cfg.MaxQueuedMessages = defaultMaxQueued
	}
	if cfg.Threads == ThreadDefault {
		cfg.Threads = ThreadSerialized
	}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, &OpError{Op: "create worker", Err: ErrClosed}
	}
	wakeup := c.cfg.Features&Wakeup != 0
	w := &Worker{
		ctx: c, cfg: cfg, mem: binder{ctx: c}, closeDone: make(chan struct{}),
		eps: map[uint64]*Endpoint{}, handles: map[unsafe.Pointer]*Endpoint{}, listeners: map[uint64]*SockListener{},
		lifelines: map[*Listener]struct{}{}, lines: map[uint64]*lifeline{}, pairings: map[uint64]*pairing{}, inboxes: map[uint16]*inbox{},
	}
	w.drv.init(w)
	if cfg.Threads == ThreadSingle || cfg.Progress == Thread {
		if err := w.drv.startThread(wakeup); err != nil {
			return nil, err
		}
	} else if err := w.create(wakeup); err != nil {
		return nil, err
	} else if w.mode == ThreadSingle {
		// The library serialises nothing and wants one thread: start over with one.
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
	c, st := ucp.NewWorker(w.ctx.h, int(w.cfg.Threads)-1, w.cfg.Name, wakeup)
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
	if w.ctx.cfg.Features&ActiveMsg != 0 && !w.ctx.lib.AtLeast(1, 21) {
		if st := ucp.ShutAMIDs(c); st != 0 {
			ucp.DestroyWorker(c, false)
			ucp.FreeWorker(c)
			return &OpError{Op: "create worker", Err: Status(st)}
		}
	}
	c.AMLimit = uint64(w.cfg.MaxQueuedMessages)
	w.drv.c, w.mode, w.mem.maxHeader = c, ThreadMode(mode+1), int(maxHeader)
	return nil
}

// deadWorkers are C structs of workers that nobody can name any more. A closed worker's
// struct must outlive every goroutine that might still look at its token, so only the
// collector knows when it can go; it is freed when the next worker is made.
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

// ThreadMode returns the mode that the library granted.
func (w *Worker) ThreadMode() ThreadMode { return w.mode }

// Progress returns the progress mode in force.
func (w *Worker) Progress() ProgressMode {
	if w.drv.wakeFile != nil {
		return Thread
	}
	return w.cfg.Progress
}

// MaxHeader returns the longest active-message header in bytes.
func (w *Worker) MaxHeader() int { return w.mem.maxHeader }

func (w *Worker) name() string { return w.cfg.Name }

// Info returns UCX's description of the worker.
func (w *Worker) Info() (string, error) {
	var text string
	err := w.drv.call("worker info", ucp.CallWorkerText, nil, func(s *ucp.Slot) { text = ucp.TakeText(s.RTag) })
	return text, err
}

// Flush waits until all operations of the worker that were started before are
// complete at their targets.
func (w *Worker) Flush(ctx context.Context) error {
	s, r, err := w.prepare(ucp.OpWorkerFlush, nil)
	if err != nil {
		return err
	}
	return r.finishBlocking(ctx, s)
}

// StartFlush is Flush as a Request.
func (w *Worker) StartFlush() *Request {
	return w.startPlain(ucp.OpWorkerFlush, nil)
}

// Fence orders: RMA and atomic operations started after it take effect after those
// started before it, per endpoint.
func (w *Worker) Fence() error {
	return w.drv.call("fence", ucp.CallFence, func(s *ucp.Slot) { s.Flags |= ucp.FlagOrdered }, nil)
}

// Close closes listeners and endpoints (by force: close endpoints yourself to flush
// them), ends every operation with ErrCanceled or ErrClosed, and frees the worker.
func (w *Worker) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		<-w.closeDone
		return nil
	}
	w.closed = true
	eps, listeners := maps.Clone(w.eps), maps.Clone(w.listeners)
	lifelines, inboxes := maps.Clone(w.lifelines), maps.Clone(w.inboxes)
	w.mu.Unlock()
	defer close(w.closeDone)

	for l := range lifelines {
		l.Close()
	}
	for _, l := range listeners {
		l.Close()
	}
	for _, ep := range eps {
		ep.abort(ErrClosed)
	}
	w.drv.closing.Store(true)
	for _, b := range inboxes {
		b.close()
	}
	w.discardQueued()
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
		return &OpError{Op: "close worker", Err: fmt.Errorf("ucx: %d operations did not end within %v; their memory "+
			"is kept", leaked, forceWait)}
	}
	return nil
}

// discardQueued gives back what arrived for endpoints and was never taken.
func (w *Worker) discardQueued() {
	w.mu.Lock()
	eps := make([]*Endpoint, 0, len(w.eps)+len(w.handles))
	for _, ep := range w.eps {
		eps = append(eps, ep)
	}
	for _, ep := range w.handles { // among them those that only UCX made
		eps = append(eps, ep)
	}
	w.mu.Unlock()
	for _, ep := range eps {
		ep.discardParts()
	}
}

func (w *Worker) destroy(leaked int) {
	w.drv.halt() // takes the token for good; thread mode frees the worker on its thread
	if leaked == 0 {
		for n := range w.drv.slots.count.Load() {
			ucp.FreeSlots(w.drv.slots.chunks[n].Load().slots)
		}
		w.mem.close()
	}
	runtime.KeepAlive(w.ctx)
}
