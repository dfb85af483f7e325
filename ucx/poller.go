package ucx

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"go.millstream.dev/ucx/internal/progress"
	"go.millstream.dev/ucx/internal/ucp"
	"golang.org/x/sys/unix"
)

// Nap lengths: with sleepers the poller looks often, as someone's latency depends on it.
const (
	napSleepers = 50 * time.Microsecond
	napQuiet    = 200 * time.Microsecond
	napNoFD     = time.Millisecond // cap without a descriptor to sleep on
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
	refused := 0 // looks in a row at which UCX could not be armed
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
				ucp.MarkCloseOnExec() // connections that peers opened have brought descriptors
				if armed = d.leaveArmed(); armed {
					refused = 0
				} else {
					refused++
				}
			}
			again = !progress.Poller(token, armed)
			return again
		})
		d.pollState.Store(napping)
		_ = d.raw.Control(func(fd uintptr) { d.watch(fd, false) })
		switch {
		case d.stop.Load():
			return
		case errors.Is(err, os.ErrDeadlineExceeded): // roused
			_ = d.pollFile.SetReadDeadline(time.Time{})
		case err != nil:
			return
		case again:
			d.nap(timer, refused)
		}
	}
}

// watch makes UCX's descriptor wake the poller, or not. Go's network poller waits for a
// descriptor of ours that holds UCX's only while the poller sleeps: UCX's tcp transport
// signals every arrival, and each would wake a thread for nothing while others drive.
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

// nap waits while others are active, at most until a kick. A send that has been
// waiting for room at the peer for long is looked after less often.
func (d *driver) nap(timer *time.Timer, refused int) {
	quiet := napQuiet
	for !d.stop.Load() {
		before := atomic.LoadUint64(&d.c.Activity)
		pause := quiet
		if d.parked.Load() > 0 || refused > 0 {
			pause = napSleepers
		} else {
			quiet = min(2*quiet, napNoFD) // each look takes a core from those who are active
		}
		timer.Reset(min(pause<<(refused/64), napNoFD))
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

// pollWithoutFD serves a context without the Wakeup feature: it looks at growing
// intervals, up to a millisecond.
func (d *driver) pollWithoutFD() {
	defer close(d.pollDone)
	pause := napSleepers
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for !d.stop.Load() {
		select {
		case <-d.kick:
			pause = napSleepers
		case <-timer.C:
		}
		before := atomic.LoadUint64(&d.c.Activity)
		if d.tryToken() {
			d.service()
		}
		if atomic.LoadUint64(&d.c.Activity) != before {
			pause = napSleepers
		} else {
			pause = min(pause*2, napNoFD)
		}
		timer.Reset(pause)
	}
}

// In thread mode one OS thread makes the worker, holds its token for life and
// frees it: what a library wants that grants only single-threaded workers. Others
// only push operations and write to an eventfd when the thread sleeps.

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
		// A push between the last turn and here has either been seen by Block's own
		// turn or finds asleep set and writes to the eventfd.
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
	d.releaseBeside()
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
