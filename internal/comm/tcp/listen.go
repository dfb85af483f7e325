package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/handshake"
)

// listener accepts connections and passes them to its gate.
type listener struct {
	ln              *net.TCPListener
	scheme          string
	tls             *tls.Config
	cfg             comm.ListenConfig
	gate            *handshake.Gate
	listen, contact string
	table           stripeTable
	once            sync.Once
	ended           chan struct{} // closed when the accepting goroutine has ended
}

// Listen listens on an address. Its port may be omitted or 0, for any free port, or a range (8000:8100), of which the
// first free one is used.
func (b backend) Listen(ctx context.Context, loc string, cfg comm.ListenConfig) (comm.Listener, error) {
	host, ports, err := commaddr.ParsePortRange(loc, commaddr.Ports{})
	if err != nil {
		return nil, err
	}
	if b.TLS && cfg.TLS == nil {
		return nil, needTLS("ListenConfig", loc)
	}
	if _, err := handshake.New(cfg.Compression, false, nil); err != nil {
		return nil, err
	}
	bind, announce, err := hosts(host, cfg.Interface)
	if err != nil {
		return nil, err
	}
	alive, err := keepAlive(cfg.TCPTimeout)
	if err != nil {
		return nil, err
	}
	ln, err := bindFirst(ctx, &net.ListenConfig{KeepAliveConfig: alive, Control: control(cfg.TCPTimeout)}, bind, ports)
	if err != nil {
		return nil, err
	}
	port := ln.Addr().(*net.TCPAddr).Port
	if bind == "" {
		bind = "0.0.0.0" // includes IPv6
	}
	l := &listener{
		ln: ln, scheme: b.scheme(), cfg: cfg, gate: handshake.NewGate(cfg.Limits), ended: make(chan struct{}),
		listen:  commaddr.Unparse(b.scheme(), commaddr.UnparseHostPort(bind, port)),
		contact: commaddr.Unparse(b.scheme(), commaddr.UnparseHostPort(announce, port)),
	}
	if b.TLS {
		l.tls = cfg.TLS
	}
	go l.run()
	return l, nil
}

// hosts returns the host that a listener binds and the one that it announces.
func hosts(host, iface string) (bind, announce string, err error) {
	if iface == "" {
		return host, commaddr.ConcreteHost(host), nil
	}
	ip, err := commaddr.InterfaceIP(iface)
	if err != nil {
		return "", "", err
	}
	switch host {
	case "", ip:
		return ip, ip, nil
	case "0.0.0.0", "::":
		return host, ip, nil
	}
	return "", "", &comm.AddressError{Address: host, Reason: fmt.Sprintf("use a host or an interface (%s, which is "+
		"%s), not both", iface, ip)}
}

// bindFirst binds the first free port of a range.
func bindFirst(ctx context.Context, lc *net.ListenConfig, host string, ports commaddr.Ports) (*net.TCPListener, error) {
	network := "tcp"
	switch host {
	case "0.0.0.0":
		network = "tcp4"
	case "::":
		network = "tcp6" // IPv6 only, as in Python
	}
	for port := ports.First; ; port++ {
		ln, err := lc.Listen(ctx, network, net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return ln.(*net.TCPListener), nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) || port >= ports.Last {
			if ports.First != ports.Last {
				err = fmt.Errorf("no free port in %s: %w", ports, err)
			}
			return nil, fmt.Errorf("comm: listen on %s: %w", commaddr.UnparseHostPort(host, commaddr.NoPort), err)
		}
	}
}

func (l *listener) ListenAddr() string  { return l.listen }
func (l *listener) ContactAddr() string { return l.contact }

func (l *listener) Accept(ctx context.Context) (comm.Comm, error) {
	c, err := l.gate.Accept(ctx)
	if err != nil {
		return nil, fmt.Errorf("comm: %s: %w", l.listen, err)
	}
	return c, nil
}

// run accepts connections until the socket is closed.
func (l *listener) run() {
	defer close(l.ended)
	pause := time.Duration(0)
	var reported time.Time
	for {
		nc, err := l.ln.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Mostly out of descriptors or memory: it ends when connections are closed.
			if l.cfg.Failed != nil && time.Since(reported) >= time.Second {
				reported = time.Now()
				l.cfg.Failed(fmt.Errorf("comm: accept on %s: %w", l.listen, err))
			}
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			time.Sleep(pause)
			continue
		}
		pause = 0
		l.gate.Admit(
			func(ctx context.Context) (comm.Comm, error) {
				c, err := l.admit(ctx, nc)
				if err != nil && !errors.Is(err, errJoined) && l.cfg.Refused != nil {
					l.cfg.Refused(addressOf(l.scheme, nc.RemoteAddr()), err)
				}
				return c, err
			},
			func() { reset(nc) },
		)
	}
}

func (l *listener) admit(ctx context.Context, raw *net.TCPConn) (comm.Comm, error) {
	var nc net.Conn = raw
	if l.tls != nil {
		t, err := startTLS(ctx, tls.Server(&transport{TCPConn: raw}, l.tls))
		if err != nil {
			reset(raw)
			return nil, err
		}
		nc = t
	}
	g := greeting{limits: l.cfg.Limits, compression: l.cfg.Compression, device: l.cfg.Device, staged: l.cfg.Staged}
	var entry *stripeEntry
	if l.cfg.Device != nil && l.cfg.Staged.StripeCount() > 1 {
		entry = l.table.open()
		g.lines = entry.token[:]
	}
	c, hello, err := shakeHands(ctx, nc, g)
	if err == nil && hello.Join != nil {
		entry.withdraw()
		if err := l.table.join(ctx, c, hello.Join); err != nil {
			c.Abort()
			return nil, err
		}
		return nil, errJoined
	}
	if err == nil && l.cfg.Admit != nil && !l.cfg.Admit(c.PeerAddr(), hello.Invitation) {
		_ = c.Close() // the peer sees the hello and a clean close instead of a reset
		err = errors.New("comm: invitation is not valid")
	}
	if err != nil {
		entry.withdraw()
		return nil, err
	}
	entry.admit(c)
	return c, nil
}

// errJoined is not a failure: the connection has become a stripe of another comm.
var errJoined = errors.New("comm: connection is a stripe of another comm")

// reset closes a connection and frees its kernel buffers.
func reset(nc *net.TCPConn) {
	_ = nc.SetLinger(0)
	_ = nc.Close()
}

// Close stops listening and ends unfinished handshakes.
func (l *listener) Close() error {
	l.once.Do(func() {
		_ = l.ln.Close()
		l.gate.Close()
		<-l.ended
	})
	return nil
}
