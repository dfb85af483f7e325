package worker

import (
	"context"
	"net"
	"strings"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/lane"
	"go.millstream.dev/internal/proc/hostid"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/secure"
)

// newLanes is what this worker knows about the lanes of its peers.
func newLanes(w *Worker) *lane.Book {
	dial := w.cfg.Dial
	dial.Timeout = peerTimeout(dial.Timeout)
	return lane.NewBook(lane.Config{Network: w.cfg.Network, Dial: dial, Trusted: w.cfg.Lanes.Trusted, Ask: w.askLanes})
}

// askLanes asks a peer for its lanes. One of Python's has none, and one that does not tell is
// taken for one that has none.
func (w *Worker) askLanes(ctx context.Context, peer string) (r lane.Reply, err error) {
	c, err := w.peers.Acquire(ctx, peer)
	if err != nil {
		return r, err
	}
	millstream := c.Info().Millstream != nil
	w.peers.Release(peer, c)
	if !millstream {
		return r, nil
	}
	if err = w.peers.Call(ctx, peer, lane.Op, nil, &r); err != nil && ctx.Err() == nil {
		w.log.Info("a peer does not tell its lanes", "peer", peer, "error", err)
		return lane.Reply{}, nil
	}
	return r, err
}

func (w *Worker) laneFailed(peer string, err error) {
	w.lanes.Failed(peer)
	w.log.Warn("a lane failed; data goes over the control connection", "peer", peer, "error", err)
}

// connectPeer returns a connection to a peer, over its lane if it has one and that is wanted.
func (w *Worker) connectPeer(ctx context.Context, peer string, fast bool) (link, error) {
	if fast && w.lanes != nil {
		// A peer that cannot be asked cannot be reached below either, and says so there.
		if address, _ := w.lanes.Find(ctx, peer); address != "" && !w.exposes(address) {
			c, err := w.lanes.Acquire(ctx, address)
			if err == nil {
				return w.link(w.lanes, address, c, func(err error) { w.laneFailed(peer, err) }), nil
			}
			if ctx.Err() != nil {
				return link{}, err
			}
			w.laneFailed(peer, err)
		}
	}
	c, err := w.peers.Acquire(ctx, peer)
	if err != nil {
		return link{}, err
	}
	return w.link(w.peers, peer, c, func(error) {}), nil
}

func (w *Worker) link(pool interface{ Release(string, comm.Comm) }, address string, c comm.Comm, failed func(error)) link {
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
			w.lanes.Forget(peer)
		}
	})
}

// tellLanes answers millstream-lanes: the worker's own lane, with a cookie for the caller.
func (w *Worker) tellLanes(_ context.Context, r *rpc.Request) (any, error) {
	var reply lane.Reply
	if w.laneAddress != "" {
		cookie, err := w.cookies.Issue(cookiePeer(r.Comm.PeerAddr(), r.Comm.LocalAddr(), w.laneAddress))
		if err != nil {
			return nil, err
		}
		reply.Lanes = []lane.Offer{{Address: w.laneAddress, Cookie: cookie, Boot: hostid.Boot()}}
	}
	return reply.Body(), nil
}

// cookiePeer returns the address that a cookie for the data connection is bound to. A peer that reaches the data
// connection by another interface than the control connection, as between machines with several networks, may
// come from an address that is not known yet: "" binds to none.
func cookiePeer(peer, local, laneAddress string) string {
	host, err := comm.AddressHost(local)
	laneHost, err2 := comm.AddressHost(laneAddress)
	if err == nil && err2 == nil && host != laneHost && !comm.IsLoopback(laneHost) {
		return ""
	}
	return peer
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
	cfg := w.named(w.cfg.Accept)
	cfg.RequireEncryption = false // the cookie admits, and lanes do not leave the machine unless they are trusted
	cfg.Cookies = w.cookies.Admit
	address := w.cfg.Lanes.Listen
	if scheme, rest := comm.ParseAddress(address); strings.HasPrefix(rest, ":") {
		host := "127.0.0.1" // it has no encryption: others reach it only if they are trusted
		if w.cfg.Lanes.Trusted {
			var err error
			if host, _, err = comm.AddressHostPort(w.address); err != nil {
				host = ""
			}
		}
		address = scheme + "://" + net.JoinHostPort(host, rest[1:])
	}
	if w.exposes(address) {
		w.log.Warn("no data connection: it would be open to the network without encryption; allow that with --lanes trusted", "address", address)
		return nil
	}
	l, err := w.cfg.Network.Listen(ctx, address, cfg)
	if err != nil {
		w.log.Warn("no lane for data: it goes over the control connection", "address", address, "error", err)
		return nil
	}
	w.laneAddress = l.ContactAddr()
	w.lanes = newLanes(w)
	w.laneServer = rpc.NewServer(rpc.Config{Type: "Lane", Logger: w.log})
	for _, op := range w.laneServer.Ops() {
		w.laneServer.Handle(op, nil) // a lane is for data alone
	}
	w.laneServer.Handle("get_data", w.getData)
	w.tasks.Go(func() { _ = w.laneServer.Serve(w.ctx, l) })
	return nil
}

// exposes reports whether a data connection at an address would make this process listen on the network, although its
// own connections are encrypted: UCX listens on the interfaces by which it reaches an address, also when it dials.
func (w *Worker) exposes(address string) bool {
	if w.cfg.Lanes.Trusted || !w.encrypted() {
		return false
	}
	host, err := comm.AddressHost(address)
	return err == nil && !comm.IsLoopback(host)
}

// encrypted reports whether the worker's own address has encryption.
func (w *Worker) encrypted() bool {
	scheme, _ := comm.ParseAddress(w.address)
	return scheme == "tls" || w.cfg.Accept.RequireEncryption
}
