package ucx

import (
	"encoding/binary"
	"os"
	"runtime"

	"go.millstream.dev/ucx/internal/ucp"
	"golang.org/x/sys/unix"
)

// In thread mode one OS thread makes the worker, holds its token for life and
// frees it: what a library wants that grants only single-threaded workers. Others
// only push operations and write to an eventfd when the thread sleeps.

func (w *Worker) startThread(wakeup bool) error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return &OpError{Op: "create worker", Err: os.NewSyscallError("eventfd", err)}
	}
	w.wakeFile = os.NewFile(uintptr(fd), "ucx-wake")
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the worker
		defer close(w.pollDone)
		err := w.create(wakeup)
		if err == nil {
			w.c.Token = 1
			w.c.WakeFDPlus1 = uint32(fd) + 1
		}
		ready <- err
		if err == nil {
			w.threadLoop()
		}
	}()
	if err := <-ready; err != nil {
		_ = w.wakeFile.Close()
		return err
	}
	return nil
}

func (w *Worker) threadLoop() {
	for !w.stop.Load() {
		res := ucp.Drive(w.c, nil, w.spin.next())
		if res&ucp.ResultWork != 0 {
			w.spin.won(w.c.LastSpin)
			w.deliver()
			continue
		}
		w.spin.lost()
		if w.cfg.Progress == Polling {
			continue
		}
		w.asleep.Store(1)
		// A push between the last turn and here has either been seen by Block's own
		// turn or finds asleep set and writes to the eventfd.
		ucp.MarkCloseOnExec()
		res = ucp.Block(w.c, -1)
		w.asleep.Store(0)
		if res&ucp.ResultWork != 0 {
			w.deliver()
		}
	}
	w.freeNative()
}

func (w *Worker) deliver() {
	w.dispatch()
	if rel := w.released; len(rel) > 0 {
		w.released = nil
		go releaseAll(rel) // owners' code must not run on this thread
	}
}

func (w *Worker) wakeThread() {
	if w.asleep.Load() == 0 {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = w.wakeFile.Write(one[:]) // full counter: the thread is awake anyway
}

func (w *Worker) stopThread() {
	w.asleep.Store(1)
	w.wakeThread()
	<-w.pollDone
	_ = w.wakeFile.Close()
}
