package fetch

import (
	"context"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/dataconn"
	"go.millstream.dev/internal/rpc"
)

// dataConnAfter is how many bytes a worker must have sent before a data connection to it is opened.
const dataConnAfter = 8 << 20

// dataConns opens data connections to workers that have sent enough data for it to pay off. It is safe for concurrent
// use.
type dataConns struct {
	book *dataconn.Book

	mu      sync.Mutex
	fetched map[string]int64 // bytes received over the worker's own address; guarded by mu
}

func newDataConns(network comm.Network, dial comm.DialConfig, workers *rpc.Pool) *dataConns {
	return &dataConns{fetched: map[string]int64{}, book: dataconn.NewBook(dataconn.Config{Network: network, Dial: dial,
		Ask: func(ctx context.Context, worker string) (r dataconn.Reply, err error) {
			err = workers.Call(ctx, worker, dataconn.Op, nil, &r)
			return r, err
		}})}
}

// count adds n bytes that a worker has sent over its own address.
func (l *dataConns) count(worker string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fetched[worker] += n
}

// pays reports whether a data connection to a worker pays off.
func (l *dataConns) pays(worker string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fetched[worker] >= dataConnAfter
}

// dataConnFailed stops the use of data connections to a worker for a while.
func (f *Fetcher) dataConnFailed(worker string, err error) {
	f.dataConns.book.Failed(worker)
	f.cfg.Log.Debug("data connection failed; using the address of the worker", "worker", worker, "error", err)
}

// acquire returns a connection for results of a worker. release ends its use; its argument is the error of the
// exchange.
func (f *Fetcher) acquire(ctx context.Context, worker string) (conn comm.Comm, through bool, release func(error),
	err error) {
	own, err := f.workers.Acquire(ctx, worker)
	if err != nil {
		return nil, false, nil, err
	}
	if own.Info().Millstream != nil && f.dataConns.pays(worker) {
		if conn, address := f.acquireDataConn(ctx, worker); conn != nil {
			f.workers.Release(worker, own)
			return conn, true, func(err error) {
				f.dataConns.book.Release(address, conn)
				if err != nil {
					f.dataConnFailed(worker, err)
				}
			}, nil
		}
	}
	return own, false, func(error) { f.workers.Release(worker, own) }, nil
}

// acquireDataConn returns a data connection to a worker, nil if there is none.
func (f *Fetcher) acquireDataConn(ctx context.Context, worker string) (comm.Comm, string) {
	address, err := f.dataConns.book.Find(ctx, worker)
	if err == nil && address == "" {
		return nil, ""
	}
	var conn comm.Comm
	if err == nil {
		conn, err = f.dataConns.book.Acquire(ctx, address)
	}
	if err != nil {
		f.dataConnFailed(worker, err)
		return nil, ""
	}
	return conn, address
}
