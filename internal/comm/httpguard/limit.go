package httpguard

import (
	"container/list"
	"net"
	"sync"
)

// Limit returns a listener with at most n open connections. One more closes the oldest of them: requests to these
// servers are short, so the oldest is idle, incomplete, or the reader of a page that is requested again.
func Limit(l net.Listener, n int) net.Listener { return &limited{Listener: l, most: n} }

type limited struct {
	net.Listener
	most int

	mu   sync.Mutex
	open list.List // of *limitedConn, oldest first; guarded by mu
}

// Accept waits for the next connection.
func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	x := &limitedConn{Conn: c, from: l}
	l.mu.Lock()
	x.at = l.open.PushBack(x)
	var oldest *limitedConn
	if l.open.Len() > l.most {
		oldest = l.open.Remove(l.open.Front()).(*limitedConn)
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Conn.Close()
	}
	return x, nil
}

type limitedConn struct {
	net.Conn
	from *limited
	at   *list.Element // guarded by from.mu
}

// Close closes the connection and removes it from the count.
func (c *limitedConn) Close() error {
	c.from.mu.Lock()
	c.from.open.Remove(c.at) // does nothing if it was removed
	c.from.mu.Unlock()
	return c.Conn.Close()
}
