package ucxcomm

import (
	"context"
	"errors"
	"fmt"
	"net"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	_ "go.millstream.dev/internal/comm/tcp" // tcp:// and tls://
	"go.millstream.dev/ucx"
)

// backend serves one scheme. Those of ucx and ucxx are registered with package comm, with the zero Settings; New
// returns others, with their own settings.
type backend struct {
	scheme   string
	settings Settings
}

var _ comm.Backend = (*backend)(nil)

func init() {
	for scheme, b := range backendsOf(Settings{}) {
		comm.Register(scheme, b)
	}
}

// New returns a backend for the scheme ucx or ucxx, which differ only in the prefix of addresses, with its own
// settings.
func New(scheme string, s Settings) comm.Backend { return newBackend(scheme, s) }

func newBackend(scheme string, s Settings) *backend { return &backend{scheme: scheme, settings: s} }

// Dial connects once, without retry; comm.Dial retries.
func (b *backend) Dial(ctx context.Context, loc string, cfg comm.DialConfig) (comm.Comm, error) {
	host, port, err := commaddr.ParseHostPort(loc, commaddr.NoPort)
	if err != nil {
		return nil, comm.Permanent(err)
	}
	ip, err := commaddr.ResolveHost(ctx, host)
	if err != nil {
		return nil, err
	}
	s := b.settings.forHost(ip)
	e, err := openEngine(ctx, s)
	if err != nil {
		if ctx.Err() == nil {
			err = comm.Permanent(err) // no UCX, or invalid settings
		}
		return nil, err
	}
	m, err := dialTagged(ctx, e.meet, net.JoinHostPort(ip, fmt.Sprint(port)))
	if err != nil {
		e.release()
		return nil, err
	}
	peer := commaddr.Unparse(b.scheme, commaddr.UnparseHostPort(ip, port))
	local := peer
	if a := m.raw().LocalAddr(); a != nil {
		local = b.address(a)
	}
	c := newConn(e, s, m, local, peer, cfg.Limits, cfg.Device)
	c.staged, c.sockets = cfg.Staged, true
	if err := c.handshake(ctx, cfg.Compression, cfg.Invitation, nil, true); err != nil {
		c.Abort()
		return nil, err
	}
	return c, nil
}

// address returns the address of a UCX endpoint.
func (b *backend) address(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return ""
	}
	ap := tcp.AddrPort()
	return commaddr.Unparse(b.scheme, commaddr.UnparseHostPort(ap.Addr().Unmap().String(), int(ap.Port())))
}

// Host returns the host of host:port.
func (b *backend) Host(loc string) (string, error) {
	host, _, err := commaddr.ParseHostPort(loc, 0)
	return host, err
}

// HostPort splits host:port.
func (b *backend) HostPort(loc string) (host string, port int, err error) {
	return commaddr.ParseHostPort(loc, commaddr.NoPort)
}

// Resolve replaces the host by its IP address.
func (b *backend) Resolve(ctx context.Context, loc string) (string, error) {
	host, port, err := commaddr.ParseHostPort(loc, commaddr.NoPort)
	if err != nil {
		return "", err
	}
	ip, err := commaddr.ResolveHost(ctx, host)
	if err != nil {
		return "", err
	}
	return commaddr.UnparseHostPort(ip, port), nil
}

// LocalFor returns the address of this host on the route to loc.
func (b *backend) LocalFor(ctx context.Context, loc string) (string, error) {
	host, _, err := commaddr.ParseHostPort(loc, 0)
	if err != nil {
		return "", err
	}
	ip, err := commaddr.ResolveHost(ctx, host)
	if err != nil {
		return "", err
	}
	return commaddr.UnparseHostPort(commaddr.LocalIP(ip), commaddr.NoPort), nil
}

// Encrypted returns false: UCX has no encryption.
func (b *backend) Encrypted() bool { return false }

// Listen listens on an address: only on the given host, on any free port for port 0, on the first free one of a range.
func (b *backend) Listen(ctx context.Context, loc string, cfg comm.ListenConfig) (comm.Listener, error) {
	host, ports, err := commaddr.ParsePortRange(loc, commaddr.Ports{})
	if err != nil {
		return nil, err
	}
	announced := ""
	if cfg.Interface != "" {
		if announced, err = commaddr.InterfaceIP(cfg.Interface); err != nil {
			return nil, err
		}
		if host == "" {
			host = announced
		}
	}
	s := b.settings.forHost(host)
	e, err := openEngine(ctx, s)
	if err != nil {
		return nil, err
	}
	var sock *ucx.Listener
	for port := ports.First; port <= ports.Last; port++ {
		var perr error
		if sock, perr = e.meet.ListenSocket(ctx, net.JoinHostPort(host, fmt.Sprint(port))); perr == nil {
			break
		}
		err = perr
		if errors.Is(err, ctx.Err()) {
			break
		}
	}
	if sock == nil {
		e.release()
		return nil, fmt.Errorf("ucxcomm: listen on %s://%s: %w", b.scheme, loc, err)
	}
	return newListener(b, e, s, sock, host, announced, cfg), nil
}
