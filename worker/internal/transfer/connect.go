package transfer

import (
	"context"
	"net"
	"strings"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/dataconn"
	"go.millstream.dev/internal/proc/hostid"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
)

// link is a connection to a peer for one request, from one of the pools.
type link struct {
	comm    comm.Comm
	release func(err error) // returns the connection to its pool, or closes it
	failed  func(err error) // reports that the connection failed
}

// scheme returns the scheme of the address: tcp, tls, inproc, ucxx, …
func (l link) scheme() string {
	scheme, _ := commaddr.Parse(l.comm.PeerAddr())
	return scheme
}

// exchange sends a request and returns the reply.
func (l link) exchange(ctx context.Context, request *wire.Message) (*wire.Message, error) {
	if err := l.comm.Write(ctx, request); err != nil {
		return nil, err
	}
	if c, ok := l.comm.(interface {
		ReadSoon(context.Context) (*wire.Message, error)
	}); ok {
		return c.ReadSoon(ctx) // polling is faster than a wakeup for short replies
	}
	return l.comm.Read(ctx)
}

// queryConnections requests the data connections of a peer. A Python peer has none, and a peer that fails to reply is
// considered to have none.
func (m *Manager) queryConnections(ctx context.Context, peer string) (r dataconn.Reply, err error) {
	c, err := m.peers.Acquire(ctx, peer)
	if err != nil {
		return r, err
	}
	millstream := c.Info().Millstream != nil
	m.peers.Release(peer, c)
	if !millstream {
		return r, nil
	}
	if err = m.peers.Call(ctx, peer, dataconn.Op, nil, &r); err != nil && ctx.Err() == nil {
		m.log.Info("no reply about data connections from peer", "peer", peer, "error", err)
		return dataconn.Reply{}, nil
	}
	return r, err
}

// dataFailed records that the data connection of a peer failed.
func (m *Manager) dataFailed(peer string, err error) {
	m.dataPeers.Failed(peer)
	m.log.Warn("data connection failed; using the control connection", "peer", peer, "error", err)
}

// connect returns a connection to a peer: its data connection if it has one and fast is set.
func (m *Manager) connect(ctx context.Context, peer string, fast bool) (link, error) {
	if fast && m.dataPeers != nil {
		// An error is ignored: if the peer is unreachable, Acquire below fails as well.
		if address, _ := m.dataPeers.Find(ctx, peer); address != "" && !m.exposes(address) {
			c, err := m.dataPeers.Acquire(ctx, address)
			if err == nil {
				return newLink(m.dataPeers, address, c, func(err error) { m.dataFailed(peer, err) }), nil
			}
			if ctx.Err() != nil {
				return link{}, err
			}
			m.dataFailed(peer, err)
		}
	}
	c, err := m.peers.Acquire(ctx, peer)
	if err != nil {
		return link{}, err
	}
	return newLink(m.peers, peer, c, func(error) {}), nil
}

func newLink(pool interface{ Release(string, comm.Comm) }, address string, c comm.Comm, failed func(error)) link {
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

// Forget drops the connections to a worker that is gone. It does not block.
func (m *Manager) Forget(peer string) {
	m.w.Go(func() {
		m.peers.Remove(peer)
		m.memory.Forget(peer)
		if m.dataPeers != nil {
			m.dataPeers.Forget(peer)
		}
	})
}

// OfferConnections handles millstream-data-connections: it replies with the address for data connections, and an
// invitation for the caller.
func (m *Manager) OfferConnections(_ context.Context, r *rpc.Request) (any, error) {
	var reply dataconn.Reply
	if m.own != "" {
		invitation, err := m.invitations.Issue(invitedPeer(r.Comm.PeerAddr(), r.Comm.LocalAddr(), m.own))
		if err != nil {
			return nil, err
		}
		reply.Offers = []dataconn.Offer{{Address: m.own, Invitation: invitation, Boot: hostid.Boot()}}
	}
	return reply.Body(), nil
}

// invitedPeer returns the address to which an invitation for the data connection is bound. A peer that reaches the data
// connection through another interface than the control connection, as between machines with several networks, may
// have an address that is not known yet: "" binds to none.
func invitedPeer(peer, local, dataAddress string) string {
	host, err := comm.AddressHost(local)
	dataHost, err2 := comm.AddressHost(dataAddress)
	if err == nil && err2 == nil && host != dataHost && !commaddr.IsLoopback(dataHost) {
		return ""
	}
	return peer
}

// Listen opens the data connection of the worker, given the address of its control connection. Without UCX it logs that
// there is none.
func (m *Manager) Listen(ctx context.Context, control string) error {
	m.address = control
	if m.cfg.Listen == "" {
		return nil
	}
	var err error
	if m.invitations, err = secure.NewInvitations(0); err != nil {
		return err
	}
	cfg := m.cfg.Accept
	cfg.RequireEncryption = false // the invitation admits peers; data leaves the machine only if trusted
	cfg.Admit = m.invitations.Admit
	address := m.listenAddress()
	if m.exposes(address) {
		m.log.Warn("no data connection: address is open to the network without encryption", "address", address, "fix",
			"--data-connections trusted allows it")
		return nil
	}
	l, err := m.cfg.Network.Listen(ctx, address, cfg)
	if err != nil {
		m.log.Warn("cannot listen for data connections; using the control connection", "address", address, "error", err)
		return nil
	}
	m.own = l.ContactAddr()
	dial := m.cfg.Dial
	dial.Timeout = dialTimeout(dial.Timeout)
	m.dataPeers = dataconn.NewBook(dataconn.Config{Network: m.cfg.Network, Dial: dial, Trusted: m.cfg.Trusted,
		Ask: m.queryConnections})
	m.server = rpc.NewServer(rpc.Config{Type: "DataConnection", Logger: m.log})
	for _, op := range m.server.Ops() {
		m.server.Handle(op, nil) // data only
	}
	m.server.Handle("get_data", m.GetData)
	m.w.Go(func() { _ = m.server.Serve(m.w.Context, l) })
	return nil
}

// listenAddress returns the address of the data connection with a host.
func (m *Manager) listenAddress() string {
	scheme, rest := commaddr.Parse(m.cfg.Listen)
	if !strings.HasPrefix(rest, ":") {
		return m.cfg.Listen
	}
	host := "127.0.0.1" // unencrypted: reachable from other hosts only if trusted
	if m.cfg.Trusted {
		var err error
		if host, _, err = comm.AddressHostPort(m.address); err != nil {
			host = ""
		}
	}
	return scheme + "://" + net.JoinHostPort(host, rest[1:])
}

// exposes reports whether a data connection at an address would make this process listen on the network, although its
// own connections are encrypted: UCX listens on the interfaces through which it reaches an address, also when it dials.
func (m *Manager) exposes(address string) bool {
	if m.cfg.Trusted || !m.encrypted() {
		return false
	}
	host, err := comm.AddressHost(address)
	return err == nil && !commaddr.IsLoopback(host)
}

// encrypted reports whether the address of the worker is encrypted.
func (m *Manager) encrypted() bool {
	scheme, _ := commaddr.Parse(m.address)
	return scheme == "tls" || m.cfg.Accept.RequireEncryption
}
