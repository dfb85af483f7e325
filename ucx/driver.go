package ucx

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"go.millstream.dev/ucx/internal/progress"
	"go.millstream.dev/ucx/internal/ucp"
	"golang.org/x/sys/unix"
)

// driver makes a worker's progress: it has the token, the slots of operations in flight, and the poller or thread that
// drives them when no goroutine waits. Package progress documents the rules.
type driver struct {
	w       *Worker     // whose events are delivered
	c       *ucp.Worker // token and submission stack shared; the rest belongs to the token holder
	polling bool        // waits never sleep

	slots    slotTable
	closing  atomic.Bool // no new operations
	mu       sync.Mutex  // guards sealed and the growth of slots
	sealed   bool        // all slots were collected: no call can be made any more
	released []held      // owner: token holder; to be released after the token is given back

	spin      progress.Budget // owner: token holder
	hot       *ucp.Slot       // owner: token holder; spares small operations the free list
	pollState atomic.Uint32
	kick      chan struct{}
	parked    atomic.Int32 // goroutines that sleep for a completion
	parks     atomic.Uint64
	pollFile  *os.File
	watching  bool // pollFile holds UCX's descriptor; owner: the poller
	raw       syscall.RawConn
	pollDone  chan struct{}
	stop      atomic.Bool
	order     progress.Order // of token and submission stack, for the race detector
	wakeFile  *os.File       // thread mode: eventfd that interrupts the thread's sleep
	asleep    atomic.Uint32
}

// States of the poller; see package progress.
const (
	pausing = iota
	polled
)

func (d *driver) init(w *Worker) {
	d.w, d.polling = w, w.cfg.Progress == Polling
	d.kick, d.pollDone = make(chan struct{}, 1), make(chan struct{})
	d.spin.Init(w.cfg.MaxSpin, d.polling)
}

func (d *driver) tryToken() bool {
	if !atomic.CompareAndSwapUint32(&d.c.Token, 0, 1) {
		return false
	}
	d.order.Acquire()
	return true
}

// put puts slots on the submission stack, to be submitted in their order.
func (d *driver) put(slots ...*ucp.Slot) {
	d.order.Release()
	last := len(slots) - 1
	for i := last; i > 0; i-- {
		slots[i].Next = slots[i-1]
	}
	for {
		old := atomic.LoadPointer(&d.c.Submissions)
		slots[0].Next = (*ucp.Slot)(old)
		if atomic.CompareAndSwapPointer(&d.c.Submissions, old, unsafe.Pointer(slots[last])) {
			break
		}
	}
	if d.wakeFile != nil {
		d.wakeThread()
	}
}

// push is put for a caller that does not wait.
func (d *driver) push(slots ...*ucp.Slot) {
	d.put(slots...)
	d.nudge(0) // the holder may have returned the token without seeing the push
}

// pushReceives is push of receives only. Progress is made when a goroutine waits for them, or by the poller: before
// that, it could complete no operation that the caller knows of.
func (d *driver) pushReceives(slots ...*ucp.Slot) {
	d.put(slots...)
	d.nudge(ucp.NoProgress)
}

// nudge submits what was pushed, with one pass of progress unless spin is NoProgress, if no goroutine holds the token.
func (d *driver) nudge(spin int64) {
	if d.wakeFile == nil && d.tryToken() {
		d.serve(spin)
	}
}

// service makes one pass as holder and returns the token.
func (d *driver) service() { d.serve(0) }

func (d *driver) serve(spin int64) {
	if ucp.Drive(d.c, nil, spin)&ucp.ResultWork != 0 {
		d.dispatch()
	}
	d.leave(false)
}

// leave returns the token. sleeps reports whether the holder then sleeps until a completion.
func (d *driver) leave(sleeps bool) {
	c := d.c
	for {
		if c.DoneHead != nil || c.EvHead != nil {
			d.dispatch()
		}
		if c.Inflight == 0 {
			c.Unarmed = 0
		}
		left := progress.Left{
			Polled: d.pollState.Load() == polled, Unarmed: c.Unarmed != 0,
			Waits: c.WaitHead != nil || c.Failed != nil, Sleeps: sleeps,
		}
		if left.Arm() {
			if left.Wake(d.leaveArmed()) {
				d.wakePoller()
			}
			return
		}
		rel := d.released
		d.released = nil
		d.order.Release()
		atomic.StoreUint32(&c.Token, 0)
		releaseAll(rel)
		if atomic.LoadPointer(&c.Submissions) == nil || !d.tryToken() {
			if left.Wake(false) {
				d.wakePoller()
			}
			return
		}
		ucp.Drive(c, nil, 0)
	}
}

// leaveArmed drains, arms and returns the token. It reports whether UCX is armed.
func (d *driver) leaveArmed() bool {
	for {
		d.releaseAsync()
		d.order.Release()
		res := ucp.Leave(d.c)
		if res&ucp.ResultWork == 0 {
			return res&ucp.ResultNoArm == 0
		}
		d.dispatch()
	}
}

// releaseAsync releases the memory of finished operations on a separate goroutine: the token is held, and code of the
// memory's owners must not run under it.
func (d *driver) releaseAsync() {
	if rel := d.released; len(rel) > 0 {
		d.released = nil
		go releaseAll(rel)
	}
}

func releaseAll(list []held) {
	for i := range list {
		list[i].release()
	}
}

func (d *driver) kickPoller() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// wakePoller makes the poller look immediately, wherever it waits. It is called by a holder that returned the token
// while UCX could not be armed: no event would wake a sleeping poller.
func (d *driver) wakePoller() {
	d.kickPoller()
	if d.pollFile != nil && d.pollState.Load() == polled {
		_ = d.pollFile.SetReadDeadline(time.Unix(1, 0)) // ends the sleep; poll clears it
	}
}

// dispatch delivers completions and events to Go. The caller holds the token.
func (d *driver) dispatch() {
	d.order.Acquire() // of operations that were pushed while the token was held
	c := d.c
	// Events first: operations that ended with their endpoint report its reason.
	for c.EvHead != nil {
		e := c.EvHead
		if c.EvHead = e.Next; c.EvHead == nil {
			c.EvTail = nil
		}
		d.w.handleEvent(e)
	}
	for c.DoneHead != nil {
		s := c.DoneHead
		if c.DoneHead = s.Next; c.DoneHead == nil {
			c.DoneTail = nil
		}
		ch, k := d.slots.at(s.Index)
		switch r := ch.cur[k]; {
		case r == nil:
			d.deliverBlocking(&ch.own[k], s)
		case s.Leader != nil:
			d.deliverBatch(r, s)
		default:
			ch.cur[k] = nil
			d.deliverStarted(r, s)
		}
	}
}

func (d *driver) deliverBlocking(r *Request, s *ucp.Slot) {
	if r.state.CompareAndSwap(reqPending, reqDone) {
		r.ch <- struct{}{} // capacity 1 and empty: never blocks
		return
	}
	// The waiting goroutine has returned: clean up for it.
	r.takeResult(s)
	d.drop(r)
	d.putSlot(s)
}

func (d *driver) deliverStarted(r *Request, s *ucp.Slot) {
	r.takeResult(s)
	d.putSlot(s)
	d.drop(r)
	r.finish()
}

// drop releases what a finished request held. The caller holds the token, so the last reference to a buffer, which may
// run code of its owner, is queued to be released later.
func (d *driver) drop(r *Request) {
	if b := r.view.buf; b != nil && b.ReleaseShared() {
		r.view.buf = nil
	}
	if r.view.buf != nil || r.staging != nil || r.views != nil {
		d.released = append(d.released, held{r.view.buf, r.staging, r.views})
	}
	r.view, r.staging, r.views, r.event = View{}, nil, nil, nil
}

// halt stops the poller or thread and frees the UCX worker. The caller has exclusive use of it.
func (d *driver) halt() {
	d.stop.Store(true)
	if d.wakeFile != nil {
		d.stopThread()
		return
	}
	d.kickPoller()
	if d.pollFile != nil {
		_ = d.pollFile.Close()
	}
	<-d.pollDone
	for !d.tryToken() { // a service pass that a push started may still run
		runtime.Gosched()
	}
	d.freeNative()
}

func (d *driver) freeNative() {
	d.dispatch()
	ucp.DestroyWorker(d.c, d.w.ctx.cfg.Features&Tag != 0)
	releaseAll(d.released)
}

// Pauses of the poller: short while goroutines are parked, as their latency depends on it.
const (
	pauseSleepers = 50 * time.Microsecond
	pauseQuiet    = 200 * time.Microsecond
	pauseNoFD     = time.Millisecond // cap without a descriptor to sleep on
)

// startPoller starts the goroutine that drives an otherwise idle worker.
func (d *driver) startPoller() error {
	if d.c.EFD >= 0 {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return &OpError{Op: "create worker", Err: os.NewSyscallError("epoll_create1", err)}
		}
		if err := syscall.SetNonblock(fd, true); err != nil {
			_ = unix.Close(fd)
			return &OpError{Op: "create worker", Err: err}
		}
		d.pollFile = os.NewFile(uintptr(fd), "ucx-worker")
		raw, err := d.pollFile.SyscallConn()
		if err != nil {
			return &OpError{Op: "create worker", Err: err}
		}
		d.raw = raw
		go d.poll()
		return nil
	}
	go d.pollWithoutFD()
	return nil
}

func (d *driver) poll() {
	defer close(d.pollDone)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	refused := 0 // consecutive passes in which UCX could not be armed
	for {
		again := false
		err := d.raw.Read(func(fd uintptr) bool {
			if d.stop.Load() {
				return true
			}
			token, armed := d.tryToken(), false
			if token {
				d.watch(fd, true)
				d.pollState.Store(polled)
				ucp.MarkCloseOnExec() // connections opened by peers have added descriptors
				if armed = d.leaveArmed(); armed {
					refused = 0
				} else {
					refused++
				}
			}
			again = !progress.Poller(token, armed)
			return again
		})
		d.pollState.Store(pausing)
		_ = d.raw.Control(func(fd uintptr) { d.watch(fd, false) })
		switch {
		case d.stop.Load():
			return
		case errors.Is(err, os.ErrDeadlineExceeded): // by wakePoller
			_ = d.pollFile.SetReadDeadline(time.Time{})
		case err != nil:
			return
		case again:
			d.pause(timer, refused)
		}
	}
}

// watch adds UCX's descriptor to the poller's epoll descriptor, or removes it. Go's network poller waits for a
// descriptor that contains UCX's only while the poller sleeps: UCX's tcp transport signals every arrival, and each
// would wake a thread needlessly while other goroutines drive progress.
func (d *driver) watch(fd uintptr, on bool) {
	if on == d.watching {
		return
	}
	d.watching = on
	op := unix.EPOLL_CTL_DEL
	if on {
		op = unix.EPOLL_CTL_ADD
	}
	_ = unix.EpollCtl(int(fd), op, int(d.c.EFD), &unix.EpollEvent{Events: unix.EPOLLIN})
}

// pause waits while other goroutines are active, at most until a kick. A send that has been blocked on the peer for
// long is polled less often.
func (d *driver) pause(timer *time.Timer, refused int) {
	quiet := pauseQuiet
	for !d.stop.Load() {
		before := atomic.LoadUint64(&d.c.Activity)
		pause := quiet
		if d.parked.Load() > 0 || refused > 0 {
			pause = pauseSleepers
		} else {
			quiet = min(2*quiet, pauseNoFD) // each pass takes a core from active goroutines
		}
		timer.Reset(min(pause<<(refused/64), pauseNoFD))
		select {
		case <-d.kick:
			return
		case <-timer.C:
		}
		if atomic.LoadUint64(&d.c.Activity) == before {
			return
		}
	}
}

// pollWithoutFD serves a context without the Wakeup feature: it polls at growing intervals, up to a millisecond.
func (d *driver) pollWithoutFD() {
	defer close(d.pollDone)
	pause := pauseSleepers
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for !d.stop.Load() {
		select {
		case <-d.kick:
			pause = pauseSleepers
		case <-timer.C:
		}
		before := atomic.LoadUint64(&d.c.Activity)
		if d.tryToken() {
			d.service()
		}
		if atomic.LoadUint64(&d.c.Activity) != before {
			pause = pauseSleepers
		} else {
			pause = min(pause*2, pauseNoFD)
		}
		timer.Reset(pause)
	}
}

// In thread mode one OS thread creates the worker, holds its token for life and frees it, as required by libraries that
// grant only single-threaded workers. Other goroutines only push operations and write to an eventfd when the thread
// sleeps.

func (d *driver) startThread(wakeup bool) error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return &OpError{Op: "create worker", Err: os.NewSyscallError("eventfd", err)}
	}
	d.wakeFile = os.NewFile(uintptr(fd), "ucx-wake")
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the worker
		defer close(d.pollDone)
		err := d.w.create(wakeup)
		if err == nil {
			d.c.Token = 1
			d.c.WakeFDPlus1 = uint32(fd) + 1
		}
		ready <- err
		if err == nil {
			d.threadLoop()
		}
	}()
	if err := <-ready; err != nil {
		_ = d.wakeFile.Close()
		return err
	}
	return nil
}

func (d *driver) threadLoop() {
	for !d.stop.Load() {
		res := ucp.Drive(d.c, nil, d.spin.Next())
		if res&ucp.ResultWork != 0 {
			d.spin.Won(d.c.LastSpin)
			d.deliver()
			continue
		}
		d.spin.Lost()
		if d.polling {
			continue
		}
		d.asleep.Store(1)
		// A push between the last turn and here is either seen by Block's own turn or finds asleep set and writes to
		// the eventfd.
		ucp.MarkCloseOnExec()
		res = ucp.Block(d.c, -1)
		d.asleep.Store(0)
		if res&ucp.ResultWork != 0 {
			d.deliver()
		}
	}
	d.freeNative()
}

func (d *driver) deliver() {
	d.dispatch()
	d.releaseAsync()
}

func (d *driver) wakeThread() {
	if d.asleep.Load() == 0 {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = d.wakeFile.Write(one[:]) // full counter: the thread is awake anyway
}

func (d *driver) stopThread() {
	d.asleep.Store(1)
	d.wakeThread()
	<-d.pollDone
	_ = d.wakeFile.Close()
}
