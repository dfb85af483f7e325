package worker

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
	"go.millstream.dev/secure"
	"go.millstream.dev/wire/msgpack"
)

// lane is a second connection of a peer for data, as millstream-lanes tells of it.
type lane struct {
	// Address is what to dial.
	Address string `rpc:"address"`
	// Cookie admits one connection.
	Cookie []byte `rpc:"cookie"`
	// Boot identifies the machine since its start: lanes leave it only if they are trusted.
	Boot string `rpc:"boot,optional"`
}

type lanesReply struct {
	Lanes []lane `rpc:"lanes"`
}

// lanes are the lanes of this worker's peers. Any goroutine may use it.
type lanes struct {
	w    *Worker
	pool *rpc.Pool
	boot string

	mu    sync.Mutex // owns what follows
	peers map[string]*peerLane
	owner map[string]string // address of a lane to its peer's
}

// peerLane is what is known about the lane of one peer.
type peerLane struct {
	address string    // "" if there is none
	retry   time.Time // not before then, after a failure
	spare   []byte    // a cookie that nobody has used yet
}

// laneRetry is how long a lane that failed is left alone.
const laneRetry = time.Minute

func newLanes(w *Worker) *lanes {
	l := &lanes{w: w, boot: bootID(), peers: map[string]*peerLane{}, owner: map[string]string{}}
	dial := w.cfg.Dial
	dial.Timeout = peerTimeout(dial.Timeout)
	dial.RequireEncryption = false // the cookie admits, and lanes do not leave the machine unless they are trusted
	l.pool = rpc.NewPool(laneNetwork{l}, rpc.PoolConfig{Dial: dial})
	return l
}

// bootID identifies the machine since its start.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}

// laneNetwork dials lanes: it gets a cookie from the peer for each connection.
type laneNetwork struct{ l *lanes }

// Dial asks the owner of the lane for a cookie and connects with it.
func (n laneNetwork) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	peer, cookie := n.l.spare(address)
	if peer == "" {
		return nil, fmt.Errorf("worker: no peer has a lane at %s", address)
	}
	if cookie == nil {
		found, err := n.l.ask(ctx, peer)
		if err != nil {
			return nil, err
		}
		if found.Address != address {
			return nil, fmt.Errorf("worker: the lane of %s is at %q now", peer, found.Address)
		}
		cookie = found.Cookie
	}
	cfg.Cookie = cookie
	return n.l.w.cfg.Network.Dial(ctx, address, cfg)
}

// Listen is not for lanes.
func (n laneNetwork) Listen(context.Context, string, comm.ListenConfig) (comm.Listener, error) {
	return nil, errors.ErrUnsupported
}

func (l *lanes) spare(address string) (peer string, cookie []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	peer = l.owner[address]
	if p := l.peers[peer]; p != nil {
		cookie, p.spare = p.spare, nil
	}
	return peer, cookie
}

// ask asks a peer for its lane; the zero lane if it has none that may be used.
func (l *lanes) ask(ctx context.Context, peer string) (lane, error) {
	var reply lanesReply
	if err := l.w.peers.Call(ctx, peer, "millstream-lanes", nil, &reply); err != nil {
		return lane{}, err
	}
	for _, x := range reply.Lanes {
		if l.w.cfg.Lanes.Trusted || l.boot != "" && x.Boot == l.boot {
			return x, nil
		}
	}
	return lane{}, nil
}

// find returns the address of a peer's lane, "" if there is none, and asks for it the first
// time. c is a connection to the peer.
func (l *lanes) find(ctx context.Context, peer string) string {
	l.mu.Lock()
	p := l.peers[peer]
	if p != nil && (p.address != "" || p.retry.IsZero() || time.Now().Before(p.retry)) {
		usable := p.address != "" && !time.Now().Before(p.retry)
		address := p.address
		l.mu.Unlock()
		if usable {
			return address
		}
		return ""
	}
	l.mu.Unlock()
	found, err := l.discover(ctx, peer)
	if err != nil {
		return ""
	}
	return found
}

// discover asks a Millstream peer for its lane and remembers the answer; that a Python peer
// has none is remembered too.
func (l *lanes) discover(ctx context.Context, peer string) (string, error) {
	c, err := l.w.peers.Acquire(ctx, peer)
	if err != nil {
		return "", err
	}
	millstream := c.Info().Millstream != nil
	l.w.peers.Release(peer, c)
	var found lane
	if millstream {
		if found, err = l.ask(ctx, peer); err != nil {
			l.w.log.Info("a peer does not tell its lanes", "peer", peer, "error", err)
			found = lane{}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peers[peer] = &peerLane{address: found.Address, spare: found.Cookie}
	if found.Address != "" {
		l.owner[found.Address] = peer
	}
	return found.Address, nil
}

// failed leaves a peer's lane alone for a while.
func (l *lanes) failed(peer string, err error) {
	l.mu.Lock()
	p := l.peers[peer]
	if p != nil {
		p.retry = time.Now().Add(laneRetry)
	}
	l.mu.Unlock()
	l.w.log.Warn("a lane failed; data goes over the control connection", "peer", peer, "error", err)
}

// forget drops what is known of a peer that is gone.
func (l *lanes) forget(peer string) {
	l.mu.Lock()
	p := l.peers[peer]
	delete(l.peers, peer)
	if p != nil {
		delete(l.owner, p.address)
	}
	l.mu.Unlock()
	if p != nil && p.address != "" {
		l.pool.Remove(p.address)
	}
}

// connectPeer returns a connection to a peer, over its lane if it has one and that is wanted.
func (w *Worker) connectPeer(ctx context.Context, peer string, lane bool) (link, error) {
	if lane && w.lanes != nil {
		if address := w.lanes.find(ctx, peer); address != "" {
			c, err := w.lanes.pool.Acquire(ctx, address)
			if err == nil {
				return w.link(w.lanes.pool, address, c, func(err error) { w.lanes.failed(peer, err) }), nil
			}
			if ctx.Err() != nil {
				return link{}, err
			}
			w.lanes.failed(peer, err)
		}
	}
	c, err := w.peers.Acquire(ctx, peer)
	if err != nil {
		return link{}, err
	}
	return w.link(w.peers, peer, c, func(error) {}), nil
}

func (w *Worker) link(pool *rpc.Pool, address string, c comm.Comm, failed func(error)) link {
	end := func(err error) {
		if err != nil {
			c.Abort()
		}
		pool.Release(address, c)
	}
	return link{comm: c, release: end, failed: func(err error) {
		end(err)
		failed(err)
	}}
}

// forgetPeer drops the connections to a worker that is gone. It does not block the turn.
func (w *Worker) forgetPeer(peer string) {
	w.tasks.Go(func() {
		w.peers.Remove(peer)
		if w.lanes != nil {
			w.lanes.forget(peer)
		}
	})
}

// tellLanes answers millstream-lanes: the worker's own lane, with a cookie for the caller.
func (w *Worker) tellLanes(_ context.Context, r *rpc.Request) (any, error) {
	list := []any{}
	if w.laneAddress != "" {
		cookie, err := w.cookies.Issue(r.Comm.PeerAddr())
		if err != nil {
			return nil, err
		}
		list = append(list, msgpack.MapOf("address", w.laneAddress, "cookie", cookie, "boot", w.lanes.boot))
	}
	return msgpack.MapOf("lanes", list), nil
}

// listenLane opens the worker's own lane. Without UCX there is none, and the worker says so.
func (w *Worker) listenLane(ctx context.Context) error {
	if w.cfg.Lanes.Listen == "" {
		return nil
	}
	var err error
	if w.cookies, err = secure.NewCookies(0); err != nil {
		return err
	}
	cfg := w.cfg.Accept
	cfg.RequireEncryption = false // see newLanes
	cfg.Cookies = w.cookies.Admit
	l, err := w.cfg.Network.Listen(ctx, w.cfg.Lanes.Listen, cfg)
	if err != nil {
		w.log.Warn("no lane for data: it goes over the control connection", "address", w.cfg.Lanes.Listen, "error", err)
		return nil
	}
	w.laneAddress = l.ContactAddr()
	w.lanes = newLanes(w)
	w.laneServer = rpc.NewServer(rpc.Config{Type: "Lane", Logger: w.log})
	w.laneServer.Handle("get_data", w.getData)
	w.tasks.Go(func() { _ = w.laneServer.Serve(w.ctx, l) })
	return nil
}
