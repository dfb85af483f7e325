package tcp

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// hangups detects that peers have closed, also on comms without a reader: the idle ones of a pool. One epoll set for
// the whole process, read by one goroutine that Go's poller wakes, watches only for that; it costs no descriptor and no
// goroutine per comm. It exists while there are comms.
var hangups watcher

type watcher struct {
	mu    sync.Mutex // owns all of it
	set   *os.File   // the epoll set, nil when nothing is watched
	fd    int
	next  uint64
	conns map[uint64]*conn
}

// add watches a new comm.
func (w *watcher) add(c *conn) error {
	rc, err := c.raw.SyscallConn()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.set == nil {
		if err := w.start(); err != nil {
			return err
		}
	}
	w.next++
	id := w.next
	var failed error
	err = rc.Control(func(fd uintptr) {
		ev := unix.EpollEvent{
			Events: unix.EPOLLRDHUP | unix.EPOLLET | unix.EPOLLONESHOT,
			Fd:     int32(uint32(id)), Pad: int32(uint32(id >> 32)), // not a descriptor: those are reused
		}
		failed = unix.EpollCtl(w.fd, unix.EPOLL_CTL_ADD, int(fd), &ev)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		w.stopIfIdle()
		return fmt.Errorf("comm: watch the connection to %s: %w", c.peer, err)
	}
	c.hangup = id
	w.conns[id] = c
	return nil
}

// remove removes a comm whose socket is closed next, which removes it from the set.
func (w *watcher) remove(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c.hangup)
	w.stopIfIdle()
}

func (w *watcher) start() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("comm: watch connections: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return fmt.Errorf("comm: watch connections: %w", err)
	}
	w.fd, w.set = fd, os.NewFile(uintptr(fd), "hangups")
	w.conns = make(map[uint64]*conn)
	go w.run(w.set)
	return nil
}

func (w *watcher) stopIfIdle() {
	if w.set != nil && len(w.conns) == 0 {
		_ = w.set.Close() // ends run
		w.set = nil
	}
}

// run reads the set until it is closed.
func (w *watcher) run(set *os.File) {
	rc, err := set.SyscallConn()
	if err != nil {
		return // already closed
	}
	events := make([]unix.EpollEvent, 64)
	for {
		n := 0
		err := rc.Read(func(fd uintptr) bool {
			n, _ = unix.EpollWait(int(fd), events, 0)
			return n > 0
		})
		if err != nil {
			return
		}
		for _, ev := range events[:max(n, 0)] {
			id := uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32
			w.mu.Lock()
			c := w.conns[id]
			w.mu.Unlock()
			if c != nil {
				// Data that the peer sent before can still be read.
				c.end(errPeerClosed)
			}
		}
	}
}
