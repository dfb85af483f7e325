package ucxmux

import (
	"errors"
	"net"
	"sync"
)

const (
	// chunk is the maximum payload of one message. It fits the slots of package ucx: nothing is pinned.
	chunk = 1000
	// maxQueue bounds how much a peer may send ahead. Handshakes take some hundred bytes.
	maxQueue = 256 << 10
)

// Conn is a control connection with a process by worker address. The embedded connection is the user's end of a pipe;
// two goroutines move its bytes.
type Conn struct {
	net.Conn
	mux    *Mux
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

func newLine(d *Mux, p *peer, local, remote uint64, name string) *Conn {
	l := &Conn{mux: d, peer: p, local: local, remote: remote, name: name, wake: make(chan struct{}, 1)}
	l.Conn, l.inner = net.Pipe()
	return l
}

// Numbers returns the numbers of both ends, known to both, drawn at random.
func (l *Conn) Numbers() (local, remote uint64) { return l.local, l.remote }

// Name returns the name of the peer.
func (l *Conn) Name() string { return l.name }

// start starts the goroutines that move bytes. The mux waits for them.
func (l *Conn) start() {
	l.mux.tasks.Go(l.feed)
	l.mux.tasks.Go(l.pump)
}

// arrive queues bytes of the peer and takes ownership of them.
func (l *Conn) arrive(b []byte) {
	l.mu.Lock()
	if l.bytes += len(b); l.bytes > maxQueue {
		l.over = true // exceeds what handshakes need
	} else if !l.over {
		l.queue = append(l.queue, b)
	}
	l.mu.Unlock()
	l.poke()
}

// end marks the end of the peer or of the conn: queued data can still be read.
func (l *Conn) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.poke()
}

func (l *Conn) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// pump passes received data to the user.
func (l *Conn) pump() {
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

// feed sends the user's data, and the end.
func (l *Conn) feed() {
	defer l.mux.forget(l)
	var b [chunk]byte
	for {
		n, err := l.inner.Read(b[:])
		if n > 0 && l.peer.send(l.mux.ctx, kindData, l.remote, b[:n]) != nil {
			err = errors.New("peer disconnected")
		}
		if err != nil {
			_ = l.peer.send(l.mux.ctx, kindEnd, l.remote, nil)
			l.end() // of pump
			_ = l.inner.Close()
			return
		}
	}
}
