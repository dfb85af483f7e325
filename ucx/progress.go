package ucx

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"go.millstream.dev/ucx/internal/ucp"
)

// Who may call UCX. The right is a token, one atomic word in the worker; it is tried
// for, never waited for.
//
//   - A goroutine that gets it submits its operation, drives progress and delivers
//     completions, for itself and for everybody else.
//   - One that does not pushes its operation on a lock-free stack, which the holder
//     empties at every turn and once more after giving the token back, and sleeps.
//   - When nobody drives, the poller goroutine sleeps on UCX's descriptor.
//
// The poller is in one of two states. polled: UCX was armed while the token was
// held and the poller is on its way into, or inside, Go's network poller; the next
// event wakes it. napping: it found the token taken and looks again shortly. A
// holder that leaves operations behind which were started after the last arming
// arms again if the poller is polled, and otherwise leaves it to the nap's end. A
// goroutine that goes to sleep cuts the nap short.
const (
	napping = iota
	polled
)

// Nap lengths: with sleepers the poller looks often, as someone's latency depends on it.
const (
	napSleepers = 50 * time.Microsecond
	napQuiet    = 200 * time.Microsecond
	napNoFD     = time.Millisecond // cap without a descriptor to sleep on
)

func (w *Worker) tryToken() bool {
	if !atomic.CompareAndSwapUint32(&w.c.Token, 0, 1) {
		return false
	}
	w.raceAcquire()
	return true
}

// push puts slots on the submission stack, to be submitted in their order.
func (w *Worker) push(slots ...*ucp.Slot) {
	w.raceRelease()
	last := len(slots) - 1
	for i := last; i > 0; i-- {
		slots[i].Next = slots[i-1]
	}
	for {
		old := atomic.LoadPointer(&w.c.Submissions)
		slots[0].Next = (*ucp.Slot)(old)
		if atomic.CompareAndSwapPointer(&w.c.Submissions, old, unsafe.Pointer(slots[last])) {
			break
		}
	}
	if w.wakeFile != nil {
		w.wakeThread()
		return
	}
	if w.tryToken() { // the holder may have left without seeing the push
		w.service()
	}
}

// service does one pass as holder and leaves.
func (w *Worker) service() {
	if ucp.Drive(w.c, nil, 0)&ucp.ResultWork != 0 {
		w.dispatch()
	}
	w.leaveFast()
}

// leaveFast gives the token back without arming where that is allowed.
func (w *Worker) leaveFast() {
	c := w.c
	for {
		if c.DoneHead != nil || c.EvHead != nil {
			w.dispatch()
		}
		if c.Inflight == 0 {
			c.Unarmed = 0
		}
		if (c.Unarmed != 0 || c.WaitHead != nil || c.Failed != nil) && w.pollState.Load() == polled { // of devices UCX tells nothing
			if !w.leaveArmed() {
				w.rousePoller()
			}
			return
		}
		rel := w.released
		w.released = nil
		w.raceRelease()
		atomic.StoreUint32(&c.Token, 0)
		releaseAll(rel)
		if atomic.LoadPointer(&c.Submissions) == nil || !w.tryToken() {
			return
		}
		ucp.Drive(c, nil, 0)
	}
}

// leaveArmed drains, arms and gives the token back. It reports whether UCX is armed.
func (w *Worker) leaveArmed() bool {
	for {
		if rel := w.released; len(rel) > 0 {
			w.released = nil
			go releaseAll(rel) // the token is still held: owners' code must not run here
		}
		w.raceRelease()
		res := ucp.Leave(w.c)
		if res&ucp.ResultWork == 0 {
			return res&ucp.ResultNoArm == 0
		}
		w.dispatch()
	}
}

func releaseAll(list []held) {
	for i := range list {
		list[i].release()
	}
}

// leaveToSleep is for a holder about to sleep until something completes.
func (w *Worker) leaveToSleep() {
	if w.pollState.Load() == polled {
		if w.leaveArmed() {
			return
		}
	} else {
		w.leaveFast()
	}
	w.rousePoller()
}

func (w *Worker) kickPoller() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// rousePoller makes the poller look now, wherever it waits. It is for a holder that
// left while UCX could not be armed: no event would wake a poller that sleeps.
func (w *Worker) rousePoller() {
	w.kickPoller()
	if w.pollFile != nil && w.pollState.Load() == polled {
		_ = w.pollFile.SetReadDeadline(time.Unix(1, 0)) // ends the sleep; poll takes it back
	}
}

// run carries out one blocking operation whose slot is filled. When it returns nil
// the operation is finished and the slot is the caller's. Otherwise ctx ended, and
// the slot is the caller's too unless the operation had to be abandoned (slot kept).
func (w *Worker) run(ctx context.Context, s *ucp.Slot, r *Request) error {
	s.State = ucp.Queued
	if w.tryToken() {
		s.Notify = 0
		return w.drive(ctx, s, r, ucp.Drive(w.c, s, w.spin.next()))
	}
	s.Notify = 1
	w.push(s)
	return w.sleep(ctx, s, r)
}

// drive goes on with a blocking operation after its first pass, whose result is res.
// The caller holds the token.
func (w *Worker) drive(ctx context.Context, s *ucp.Slot, r *Request, res int) error {
	for {
		if res&ucp.ResultOwn != 0 {
			w.spin.won(w.c.LastSpin)
			w.leaveFast()
			return nil
		}
		if res&ucp.ResultWork != 0 {
			w.dispatch()
		}
		if res&ucp.ResultTimeout != 0 {
			w.spin.lost()
			if w.cfg.Progress != Polling {
				break
			}
		}
		if ctx.Err() != nil {
			break
		}
		if w.cfg.Progress == Polling {
			w.yieldToken()
		}
		res = ucp.Drive(w.c, s, w.spin.next())
	}
	s.Notify = 1
	w.leaveToSleep()
	return w.sleep(ctx, s, r)
}

// yieldToken lets other operations' owners in between two spins of a polling waiter.
func (w *Worker) yieldToken() {
	rel := w.released
	w.released = nil
	if len(rel) > 0 {
		go releaseAll(rel)
	}
}

func (w *Worker) sleep(ctx context.Context, s *ucp.Slot, r *Request) error {
	w.parks.Add(1)
	w.parked.Add(1)
	select {
	case <-r.ch:
		w.parked.Add(-1)
		return nil
	case <-ctx.Done():
		w.parked.Add(-1)
		return w.abandon(ctx, s, r)
	}
}

// awaitRequest waits for a request that is not tied to a goroutine of its own.
func (w *Worker) awaitRequest(ctx context.Context, r *Request) error {
	return w.awaitAmong(ctx, r, 1)
}

// awaitAmong is awaitRequest for a caller who wants several requests, which are better
// collected together.
func (w *Worker) awaitAmong(ctx context.Context, r *Request, several int) error {
	for w.wakeFile == nil && r.state.Load() != reqDone {
		if !w.tryToken() {
			if w.cfg.Progress == Polling {
				runtime.Gosched()
				if ctx.Err() != nil {
					return contextError(ctx)
				}
				continue
			}
			break
		}
		w.c.Gather = uint32(several)
		res := ucp.Drive(w.c, nil, w.spin.next())
		w.c.Gather = 0
		if res&ucp.ResultWork != 0 {
			w.dispatch()
		}
		if r.state.Load() == reqDone {
			w.spin.won(w.c.LastSpin)
			w.leaveFast()
			return nil
		}
		if res&ucp.ResultTimeout != 0 {
			w.spin.lost()
			if w.cfg.Progress != Polling {
				w.leaveToSleep()
				break
			}
		}
		w.leaveFast()
		if ctx.Err() != nil {
			return contextError(ctx)
		}
	}
	if r.state.Load() == reqDone {
		return nil
	}
	w.parks.Add(1)
	w.parked.Add(1)
	defer w.parked.Add(-1)
	select {
	case <-r.Done():
		return nil
	case <-ctx.Done():
		if r.state.Load() == reqDone {
			return nil
		}
		return contextError(ctx)
	}
}

// dispatch delivers completions and events to Go. The caller holds the token.
func (w *Worker) dispatch() {
	w.raceAcquire() // of operations that were pushed while the token was held
	c := w.c
	// Events first: operations that ended with their endpoint report its reason.
	for c.EvHead != nil {
		e := c.EvHead
		if c.EvHead = e.Next; c.EvHead == nil {
			c.EvTail = nil
		}
		w.handleEvent(e)
	}
	for c.DoneHead != nil {
		s := c.DoneHead
		if c.DoneHead = s.Next; c.DoneHead == nil {
			c.DoneTail = nil
		}
		ch, k := w.slots.at(s.Index)
		if r := ch.cur[k]; r != nil {
			ch.cur[k] = nil
			w.deliverStarted(r, s)
		} else {
			w.deliverBlocking(&ch.own[k], s)
		}
	}
}

func (w *Worker) deliverBlocking(r *Request, s *ucp.Slot) {
	if r.state.CompareAndSwap(reqPending, reqDone) {
		r.ch <- struct{}{} // capacity 1 and empty: never blocks
		return
	}
	// Its goroutine has gone: clean up for it.
	r.settle(s)
	w.drop(r)
	w.putSlot(s)
}

// drop lets go of what a finished request held. The caller holds the token, so the last
// reference to a buffer, which may run its owner's code, is left to be dropped later.
func (w *Worker) drop(r *Request) {
	if b := r.view.buf; b != nil && b.ReleaseShared() {
		r.view.buf = nil
	}
	if r.view.buf != nil || r.staging != nil || r.views != nil {
		w.released = append(w.released, held{r.view.buf, r.staging, r.views})
	}
	r.view, r.staging, r.views, r.event = View{}, nil, nil, nil
}

func (w *Worker) deliverStarted(r *Request, s *ucp.Slot) {
	r.settle(s)
	w.putSlot(s)
	w.drop(r)
	r.finish()
}

// startPoller starts the goroutine that drives an otherwise idle worker.
func (w *Worker) startPoller() error {
	if w.c.EFD >= 0 {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return &OpError{Op: "create worker", Err: os.NewSyscallError("epoll_create1", err)}
		}
		if err := syscall.SetNonblock(fd, true); err != nil {
			_ = unix.Close(fd)
			return &OpError{Op: "create worker", Err: err}
		}
		w.pollFile = os.NewFile(uintptr(fd), "ucx-worker")
		raw, err := w.pollFile.SyscallConn()
		if err != nil {
			return &OpError{Op: "create worker", Err: err}
		}
		w.raw = raw
		go w.poll()
		return nil
	}
	go w.pollWithoutFD()
	return nil
}

func (w *Worker) poll() {
	defer close(w.pollDone)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	refused := 0 // looks in a row at which UCX could not be armed
	for {
		again := false
		err := w.raw.Read(func(fd uintptr) bool {
			if w.stop.Load() {
				return true
			}
			if !w.tryToken() {
				again = true
				return true
			}
			w.watch(fd, true)
			w.pollState.Store(polled)
			ucp.MarkCloseOnExec() // connections that peers opened have brought descriptors
			if !w.leaveArmed() {
				again = true
				refused++
				return true
			}
			refused = 0
			return false
		})
		w.pollState.Store(napping)
		_ = w.raw.Control(func(fd uintptr) { w.watch(fd, false) })
		switch {
		case w.stop.Load():
			return
		case errors.Is(err, os.ErrDeadlineExceeded): // roused
			_ = w.pollFile.SetReadDeadline(time.Time{})
		case err != nil:
			return
		case again:
			w.nap(timer, refused)
		}
	}
}

// watch makes UCX's descriptor wake the poller, or not. Go's network poller waits for a
// descriptor of ours that holds UCX's only while the poller sleeps: UCX's tcp transport
// signals every arrival, and each would wake a thread for nothing while others drive.
func (w *Worker) watch(fd uintptr, on bool) {
	if on == w.watching {
		return
	}
	w.watching = on
	op := unix.EPOLL_CTL_DEL
	if on {
		op = unix.EPOLL_CTL_ADD
	}
	_ = unix.EpollCtl(int(fd), op, int(w.c.EFD), &unix.EpollEvent{Events: unix.EPOLLIN})
}

// nap waits while others are active, at most until a kick. A send that has been
// waiting for room at the peer for long is looked after less often.
func (w *Worker) nap(timer *time.Timer, refused int) {
	quiet := napQuiet
	for !w.stop.Load() {
		before := atomic.LoadUint64(&w.c.Activity)
		d := quiet
		if w.parked.Load() > 0 || refused > 0 {
			d = napSleepers
		} else {
			quiet = min(2*quiet, napNoFD) // each look takes a core from those who are active
		}
		timer.Reset(min(d<<(refused/64), napNoFD))
		select {
		case <-w.kick:
			return
		case <-timer.C:
		}
		if atomic.LoadUint64(&w.c.Activity) == before {
			return
		}
	}
}

// pollWithoutFD serves a context without the Wakeup feature: it looks at growing
// intervals, up to a millisecond.
func (w *Worker) pollWithoutFD() {
	defer close(w.pollDone)
	d := napSleepers
	timer := time.NewTimer(d)
	defer timer.Stop()
	for !w.stop.Load() {
		select {
		case <-w.kick:
			d = napSleepers
		case <-timer.C:
		}
		before := atomic.LoadUint64(&w.c.Activity)
		if w.tryToken() {
			w.service()
		}
		if atomic.LoadUint64(&w.c.Activity) != before {
			d = napSleepers
		} else {
			d = min(d*2, napNoFD)
		}
		timer.Reset(d)
	}
}

// stopDriver ends poller or thread and frees the UCX worker. Nobody else uses it.
func (w *Worker) stopDriver() {
	w.stop.Store(true)
	if w.wakeFile != nil {
		w.stopThread()
		return
	}
	w.kickPoller()
	if w.pollFile != nil {
		_ = w.pollFile.Close()
	}
	<-w.pollDone
	for !w.tryToken() { // a service pass that a push started may still run
		runtime.Gosched()
	}
	w.freeNative()
}

func (w *Worker) freeNative() {
	w.dispatch()
	ucp.DestroyWorker(w.c, w.ctx.cfg.Features&Tag != 0)
	releaseAll(w.released)
}
