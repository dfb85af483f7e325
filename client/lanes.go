package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/rpc"
	"go.millstream.dev/wire/msgpack"
)

// A Millstream worker may have a lane, a second connection for data, over shared memory say
// (docs/adr/0010). The client asks for it when the worker has handed over so much that the
// lane pays, and fetches over it from then on. Whatever goes wrong with a lane, data then
// goes over the worker's own address.

// laneAfter is how many bytes a worker has handed over before its lane is asked for.
const laneAfter = 8 << 20

// laneRetry is how long a lane that failed is left alone.
const laneRetry = time.Minute

// lanes are the lanes of workers. Any goroutine may use it.
type lanes struct {
	c    *Client
	pool *rpc.Pool
	boot string // of this machine

	mu    sync.Mutex // owns what follows
	peers map[string]*workerLane
	owner map[string]string // a lane's address to its worker's
}

// workerLane is what is known about the lane of a worker.
type workerLane struct {
	fetched int64 // bytes that came over its own address
	asked   bool
	address string    // "": none
	retry   time.Time // not before then
	spare   []byte    // a cookie that nobody has used yet
}

func newLanes(c *Client, dial comm.DialConfig) *lanes {
	l := &lanes{c: c, peers: make(map[string]*workerLane), owner: make(map[string]string)}
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		l.boot = string(bytes.TrimSpace(b))
	}
	dial.RequireEncryption = false // a cookie admits, and lanes do not leave the machine
	l.pool = rpc.NewPool(laneNetwork{l}, rpc.PoolConfig{Dial: dial})
	return l
}

// count notes that a worker has handed over n bytes over its own address.
func (l *lanes) count(worker string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.peers[worker]
	if w == nil {
		w = new(workerLane)
		l.peers[worker] = w
	}
	w.fetched += n
}

// find is the address of a worker's lane, "" if there is none to be used.
func (l *lanes) find(ctx context.Context, worker string, millstream bool) string {
	l.mu.Lock()
	w := l.peers[worker]
	switch {
	case w == nil || w.fetched < laneAfter || time.Now().Before(w.retry):
		l.mu.Unlock()
		return ""
	case w.asked:
		defer l.mu.Unlock()
		return w.address
	}
	l.mu.Unlock()
	var found laneOffer
	if millstream {
		var err error
		if found, err = l.ask(ctx, worker); err != nil {
			l.failed(worker, err)
			return ""
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w.asked, w.address, w.spare = true, found.address, found.cookie
	if found.address != "" {
		l.owner[found.address] = worker
	}
	return found.address
}

// laneOffer is a lane as its worker tells of it, with a cookie for one connection.
type laneOffer struct {
	address string
	cookie  []byte
}

// ask asks a worker for its lane: one on this machine.
func (l *lanes) ask(ctx context.Context, worker string) (laneOffer, error) {
	var reply msgpack.Map
	if err := l.c.workers.Call(ctx, worker, "millstream-lanes", nil, &reply); err != nil {
		return laneOffer{}, err
	}
	v, _ := reply.Get("lanes")
	list, _ := v.([]any)
	for _, x := range list {
		d, ok := x.(msgpack.Map)
		if !ok || l.boot == "" || d.GetString("boot") != l.boot {
			continue
		}
		cookie, _ := d.Get("cookie")
		b, ok := cookie.([]byte)
		if !ok {
			return laneOffer{}, fmt.Errorf("client: a lane of %s without a cookie", worker)
		}
		return laneOffer{d.GetString("address"), bytes.Clone(b)}, nil
	}
	return laneOffer{}, nil
}

// failed leaves a worker's lane alone for a while. Then it is asked for again: the worker may
// have been replaced.
func (l *lanes) failed(worker string, err error) {
	l.mu.Lock()
	if w := l.peers[worker]; w != nil {
		delete(l.owner, w.address)
		*w = workerLane{fetched: w.fetched, retry: time.Now().Add(laneRetry)}
	}
	l.mu.Unlock()
	l.c.log.Debug("a lane failed; data goes over the worker's own address", "worker", worker, "error", err)
}

// laneNetwork dials lanes: with a cookie of the worker for each connection.
type laneNetwork struct{ l *lanes }

// Dial connects to a lane that was asked for.
func (n laneNetwork) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	l := n.l
	l.mu.Lock()
	worker := l.owner[address]
	var cookie []byte
	if w := l.peers[worker]; w != nil {
		cookie, w.spare = w.spare, nil
	}
	l.mu.Unlock()
	if worker == "" {
		return nil, fmt.Errorf("client: no worker has a lane at %s", address)
	}
	if cookie == nil {
		found, err := l.ask(ctx, worker)
		if err != nil {
			return nil, err
		}
		if found.address != address {
			return nil, fmt.Errorf("client: the lane of %s is at %q now", worker, found.address)
		}
		cookie = found.cookie
	}
	cfg.Cookie = cookie
	return l.c.cfg.Network.Dial(ctx, address, cfg)
}

// Listen is not for lanes.
func (n laneNetwork) Listen(context.Context, string, comm.ListenConfig) (comm.Listener, error) {
	return nil, errors.ErrUnsupported
}

// dataConn is a connection on which a worker hands over results. release ends its use; its
// argument is what went wrong with it.
func (c *Client) dataConn(ctx context.Context, worker string) (conn comm.Comm, lane bool, release func(error), err error) {
	own, err := c.workers.Acquire(ctx, worker)
	if err != nil {
		return nil, false, nil, err
	}
	address := c.lanes.find(ctx, worker, own.Info().Millstream != nil)
	if address == "" {
		return own, false, func(error) { c.workers.Release(worker, own) }, nil
	}
	through, err := c.lanes.pool.Acquire(ctx, address)
	if err != nil {
		c.lanes.failed(worker, err)
		return own, false, func(error) { c.workers.Release(worker, own) }, nil
	}
	c.workers.Release(worker, own)
	return through, true, func(err error) {
		c.lanes.pool.Release(address, through)
		if err != nil {
			c.lanes.failed(worker, err)
		}
	}, nil
}
