package client

import (
	"context"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/lane"
)

// laneAfter is how many bytes a worker has handed over before its lane is asked for.
const laneAfter = 8 << 20

// lanes are the lanes of workers (package lane): a worker's is asked for when it has handed
// over so much that it pays. Any goroutine may use it.
type lanes struct {
	book *lane.Book

	mu      sync.Mutex
	fetched map[string]int64 // bytes that came over a worker's own address; guarded by mu
}

func newLanes(c *Client, dial comm.DialConfig) *lanes {
	return &lanes{fetched: map[string]int64{}, book: lane.NewBook(lane.Config{Network: c.cfg.Network, Dial: dial,
		Ask: func(ctx context.Context, worker string) (r lane.Reply, err error) {
			err = c.workers.Call(ctx, worker, lane.Op, nil, &r)
			return r, err
		}})}
}

// count notes that a worker has handed over n bytes over its own address.
func (l *lanes) count(worker string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fetched[worker] += n
}

// pays tells whether a worker's lane is worth asking for.
func (l *lanes) pays(worker string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fetched[worker] >= laneAfter
}

// laneFailed leaves a worker's lane alone for a while.
func (c *Client) laneFailed(worker string, err error) {
	c.lanes.book.Failed(worker)
	c.log.Debug("a lane failed; data goes over the worker's own address", "worker", worker, "error", err)
}

// dataConn is a connection on which a worker hands over results. release ends its use; its
// argument is what went wrong with it.
func (c *Client) dataConn(ctx context.Context, worker string) (conn comm.Comm, through bool, release func(error),
	err error) {
	own, err := c.workers.Acquire(ctx, worker)
	if err != nil {
		return nil, false, nil, err
	}
	if own.Info().Millstream != nil && c.lanes.pays(worker) {
		if conn, address := c.laneTo(ctx, worker); conn != nil {
			c.workers.Release(worker, own)
			return conn, true, func(err error) {
				c.lanes.book.Release(address, conn)
				if err != nil {
					c.laneFailed(worker, err)
				}
			}, nil
		}
	}
	return own, false, func(error) { c.workers.Release(worker, own) }, nil
}

// laneTo is a connection over a worker's lane, nil if there is none.
func (c *Client) laneTo(ctx context.Context, worker string) (comm.Comm, string) {
	address, err := c.lanes.book.Find(ctx, worker)
	if err == nil && address == "" {
		return nil, ""
	}
	var conn comm.Comm
	if err == nil {
		conn, err = c.lanes.book.Acquire(ctx, address)
	}
	if err != nil {
		c.laneFailed(worker, err)
		return nil, ""
	}
	return conn, address
}
