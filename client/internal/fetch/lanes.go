package fetch

import (
	"context"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/dataconn"
	"go.millstream.dev/internal/rpc"
)

// laneAfter is how many bytes a worker has handed over before its lane is asked for.
const laneAfter = 8 << 20

// lanes are the lanes of workers (package lane): a worker's is asked for when it has handed
// over so much that it pays. Any goroutine may use it.
type lanes struct {
	book *dataconn.Book

	mu      sync.Mutex
	fetched map[string]int64 // bytes that came over a worker's own address; guarded by mu
}

func newLanes(network comm.Network, dial comm.DialConfig, workers *rpc.Pool) *lanes {
	return &lanes{fetched: map[string]int64{}, book: dataconn.NewBook(dataconn.Config{Network: network, Dial: dial,
		Ask: func(ctx context.Context, worker string) (r dataconn.Reply, err error) {
			err = workers.Call(ctx, worker, dataconn.Op, nil, &r)
			return r, err
		}})}
}

// count notes that a worker has handed over n bytes over its own address.
func (l *lanes) count(worker string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fetched[worker] += n
}

// pays reports whether a worker's lane is worth asking for.
func (l *lanes) pays(worker string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fetched[worker] >= laneAfter
}

// laneFailed leaves a worker's lane alone for a while.
func (f *Fetcher) laneFailed(worker string, err error) {
	f.lanes.book.Failed(worker)
	f.cfg.Log.Debug("a lane failed; data goes over the worker's own address", "worker", worker, "error", err)
}

// dataConn is a connection on which a worker hands over results. release ends its use; its
// argument is what went wrong with it.
func (f *Fetcher) dataConn(ctx context.Context, worker string) (conn comm.Comm, through bool, release func(error),
	err error) {
	own, err := f.workers.Acquire(ctx, worker)
	if err != nil {
		return nil, false, nil, err
	}
	if own.Info().Millstream != nil && f.lanes.pays(worker) {
		if conn, address := f.laneTo(ctx, worker); conn != nil {
			f.workers.Release(worker, own)
			return conn, true, func(err error) {
				f.lanes.book.Release(address, conn)
				if err != nil {
					f.laneFailed(worker, err)
				}
			}, nil
		}
	}
	return own, false, func(error) { f.workers.Release(worker, own) }, nil
}

// laneTo is a connection over a worker's lane, nil if there is none.
func (f *Fetcher) laneTo(ctx context.Context, worker string) (comm.Comm, string) {
	address, err := f.lanes.book.Find(ctx, worker)
	if err == nil && address == "" {
		return nil, ""
	}
	var conn comm.Comm
	if err == nil {
		conn, err = f.lanes.book.Acquire(ctx, address)
	}
	if err != nil {
		f.laneFailed(worker, err)
		return nil, ""
	}
	return conn, address
}
