package ucxdoor

import (
	"errors"
	"net"
	"sync"
)

const (
	// chunk is what one message carries at most. It fits the slots of package ucx: nothing is pinned.
	chunk = 1000
	// maxQueue bounds what a peer may send ahead. What lines are for takes some hundred bytes.
	maxQueue = 256 << 10
)

// Line is a connection with a process by worker address. The embedded connection is the user's end of a pipe; two
// goroutines move its bytes.
type Line struct {
	net.Conn
	door   *Door
	peer   *peer
	local  uint64 // this end's number, which the peer's messages carry
	remote uint64 // the peer's
	name   string // of the peer
	inner  net.Conn

	mu    sync.Mutex
	queue [][]byte      // arrived, not yet read; guarded by mu
	bytes int           // in queue; guarded by mu
	over  bool          // the peer sends no more; guarded by mu
	wake  chan struct{} // capacity 1: something above has changed
}

func newLine(d *Door, p *peer, local, remote uint64, name string) *Line {
	l := &Line{door: d, peer: p, local: local, remote: remote, name: name, wake: make(chan struct{}, 1)}
	l.Conn, l.inner = net.Pipe()
	return l
}

// Numbers are those of both ends, known to both, drawn at random.
func (l *Line) Numbers() (local, remote uint64) { return l.local, l.remote }

// Name is what the peer is called.
func (l *Line) Name() string { return l.name }

// start moves bytes from now on. The door waits for the goroutines.
func (l *Line) start() {
	l.door.tasks.Go(l.feed)
	l.door.tasks.Go(l.pump)
}

// arrive takes in bytes of the peer, which the caller gives away.
func (l *Line) arrive(b []byte) {
	l.mu.Lock()
	if l.bytes += len(b); l.bytes > maxQueue {
		l.over = true // nothing that is meant well
	} else if !l.over {
		l.queue = append(l.queue, b)
	}
	l.mu.Unlock()
	l.poke()
}

// end is the peer's end, or the line's: what has arrived is still read.
func (l *Line) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.poke()
}

func (l *Line) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// pump hands the user what has arrived.
func (l *Line) pump() {
	defer l.inner.Close()
	for range l.wake {
		for {
			l.mu.Lock()
			if len(l.queue) == 0 {
				over := l.over
				l.mu.Unlock()
				if over {
					return
				}
				break
			}
			b := l.queue[0]
			l.queue[0] = nil
			l.queue = l.queue[1:]
			l.bytes -= len(b)
			l.mu.Unlock()
			if _, err := l.inner.Write(b); err != nil {
				return // closed on this side
			}
		}
	}
}

// feed sends what the user writes, and the end.
func (l *Line) feed() {
	defer l.door.forget(l)
	var b [chunk]byte
	for {
		n, err := l.inner.Read(b[:])
		if n > 0 && l.peer.send(l.door.ctx, kindData, l.remote, b[:n]) != nil {
			err = errors.New("the peer is gone")
		}
		if err != nil {
			_ = l.peer.send(l.door.ctx, kindEnd, l.remote, nil)
			l.end() // of pump
			_ = l.inner.Close()
			return
		}
	}
}
