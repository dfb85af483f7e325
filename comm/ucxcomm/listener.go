package ucxcomm

import (
	"context"
	"net"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/handshake"
	"go.millstream.dev/ucx"
)

// listener accepts comms. It owns UCX's listener and a reference to the engine.
type listener struct {
	b        *backend
	engine   *engine
	settings Settings
	sock     *ucx.Listener
	cfg      comm.ListenConfig
	gate     *handshake.Gate
	listen   string
	contact  string
	door     *stripeListener
	cancel   context.CancelFunc
	finished chan struct{} // closed when no more requests are accepted
	once     sync.Once
}

func newListener(b *backend, e *engine, s Settings, sock *ucx.Listener, host, announced string,
	cfg comm.ListenConfig) *listener {
	l := &listener{b: b, engine: e, settings: s, sock: sock, cfg: cfg, gate: handshake.NewGate(cfg.Limits),
		finished: make(chan struct{})}
	port := sock.Addr().(*net.TCPAddr).Port
	if host == "" {
		host = "0.0.0.0"
	}
	if announced == "" {
		announced = commaddr.ConcreteHost(host)
	}
	l.listen = commaddr.Unparse(b.scheme, commaddr.UnparseHostPort(host, port))
	l.contact = commaddr.Unparse(b.scheme, commaddr.UnparseHostPort(announced, port))
	l.door = &stripeListener{host: host}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go l.serve(ctx)
	return l
}

func (l *listener) serve(ctx context.Context) {
	defer close(l.finished)
	for {
		r, err := l.sock.Next(ctx)
		if err != nil {
			return
		}
		l.gate.Admit(
			func(ctx context.Context) (comm.Comm, error) { return l.admit(ctx, r) },
			func() { _ = r.Reject() },
		)
	}
}

// admit makes a comm of a connection request of an untrusted peer.
func (l *listener) admit(ctx context.Context, r *ucx.ConnRequest) (comm.Comm, error) {
	peer := l.b.address(r.RemoteAddr())
	m, err := receive(ctx, r)
	if err != nil {
		return nil, err
	}
	local := l.contact
	if a := m.raw().LocalAddr(); a != nil {
		local = l.b.address(a)
	}
	c := newConn(l.engine.retain(), l.settings, m, local, peer, l.cfg.Limits, l.cfg.Device)
	c.staged, c.sockets, c.door = l.cfg.Staged, true, l.door
	if err := c.handshake(ctx, l.cfg.Compression, nil, l.cfg.Admit, false); err != nil {
		c.Abort()
		return nil, err
	}
	return c, nil
}

func (l *listener) Accept(ctx context.Context) (comm.Comm, error) { return l.gate.Accept(ctx) }

func (l *listener) ListenAddr() string  { return l.listen }
func (l *listener) ContactAddr() string { return l.contact }

func (l *listener) Close() error {
	var err error
	l.once.Do(func() {
		l.cancel()
		err = l.sock.Close()
		l.gate.Close() // ends a serve that waits for admission
		<-l.finished
		l.door.close()
		l.engine.release()
	})
	return err
}
