package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"

	"go.millstream.dev/comm"
)

func init() {
	comm.Register("tcp", Backend{})
	comm.Register("tls", Backend{TLS: true})
}

// Backend is the transport of tcp://, or of tls://.
type Backend struct {
	// TLS makes it that of tls://.
	TLS bool
}

func (b Backend) scheme() string {
	if b.TLS {
		return "tls"
	}
	return "tcp"
}

// Encrypted is true for tls://.
func (b Backend) Encrypted() bool { return b.TLS }

// Host is the host in an address.
func (b Backend) Host(loc string) (string, error) {
	host, _, err := b.HostPort(loc)
	return host, err
}

// HostPort is the host and the port in an address.
func (Backend) HostPort(loc string) (string, int, error) {
	return comm.ParseHostPort(loc, comm.NoPort)
}

// Resolve replaces the host's name by its IP address.
func (b Backend) Resolve(ctx context.Context, loc string) (string, error) {
	host, port, err := b.HostPort(loc)
	if err != nil {
		return "", err
	}
	ip, err := comm.ResolveHost(ctx, host)
	if err != nil {
		return "", err
	}
	return comm.UnparseHostPort(ip, port), nil
}

// LocalFor is this host's IP address on the way to loc.
func (b Backend) LocalFor(ctx context.Context, loc string) (string, error) {
	host, _, err := b.HostPort(loc)
	if err != nil {
		return "", err
	}
	ip, err := comm.ResolveHost(ctx, host)
	if err != nil {
		return "", err
	}
	return comm.UnparseHostPort(comm.LocalIP(ip), comm.NoPort), nil
}

// Dial connects once and does the handshakes, TLS's and Dask's.
func (b Backend) Dial(ctx context.Context, loc string, cfg comm.DialConfig) (comm.Comm, error) {
	host, port, err := b.HostPort(loc)
	if err != nil {
		return nil, comm.Permanent(err)
	}
	if port == 0 || host == "" {
		return nil, comm.Permanent(&comm.AddressError{Address: comm.UnparseAddress(b.scheme(), loc), Reason: "a host and a port other than 0 are needed to connect"})
	}
	if b.TLS && cfg.TLS == nil {
		return nil, comm.Permanent(needTLS("DialConfig", loc))
	}
	alive, err := keepAlive(cfg.TCPTimeout)
	if err != nil {
		return nil, comm.Permanent(err)
	}
	d := net.Dialer{KeepAliveConfig: alive, Control: control(cfg.TCPTimeout)}
	nc, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	if b.TLS {
		nc, err = secured(ctx, tls.Client(&transport{TCPConn: nc.(*net.TCPConn)}, clientConfig(cfg.TLS, host)))
		if err != nil {
			return nil, err
		}
	}
	c, _, err := greet(ctx, nc, cfg.Limits, cfg.Compression, cfg.Cookie)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func needTLS(where, loc string) error {
	return fmt.Errorf("comm: tls://%s: %s.TLS is not set: give certificates (distributed.comm.tls.ca-file and cert and key of the role), see package secure", loc, where)
}

// clientConfig fills in a server name, which crypto/tls wants, where the chain is checked
// by a function of its own it has no meaning.
func clientConfig(cfg *tls.Config, host string) *tls.Config {
	if cfg.ServerName != "" || cfg.InsecureSkipVerify {
		return cfg
	}
	cfg = cfg.Clone()
	cfg.ServerName = host
	return cfg
}

// secured does TLS's handshake. A certificate that does not match will not match later.
func secured(ctx context.Context, t *tls.Conn) (net.Conn, error) {
	err := t.HandshakeContext(ctx)
	if err == nil {
		return t, nil
	}
	_ = t.NetConn().Close()
	var bad *tls.CertificateVerificationError
	var alert tls.AlertError
	var notTLS tls.RecordHeaderError
	if errors.As(err, &bad) || errors.As(err, &alert) || errors.As(err, &notTLS) {
		err = comm.Permanent(fmt.Errorf("TLS with %s: %w (do both sides have certificates of one CA? see distributed.comm.tls)", t.RemoteAddr(), err))
	}
	return nil, err
}

// greet does Dask's handshake on a new connection, which it takes over.
func greet(ctx context.Context, nc net.Conn, limits comm.Limits, compression string, cookie []byte) (*conn, comm.Hello, error) {
	c, err := newConn(nc, limits.BeforeHandshake())
	if err != nil {
		return nil, comm.Hello{}, err
	}
	local, err := comm.NewHello(compression, c.sameHost(), cookie)
	if err != nil {
		c.Abort()
		return nil, comm.Hello{}, comm.Permanent(err)
	}
	info, remote, err := comm.Handshake(ctx, c, local)
	if t, ok := nc.(*tls.Conn); ok && err == nil {
		state := t.ConnectionState()
		info.TLS = &state
		// Only Python's side may have a reason for an older TLS.
		if info.Millstream != nil && state.Version < tls.VersionTLS13 {
			err = comm.Permanent(&comm.HandshakeError{Reason: "Millstream peers use TLS 1.3, this connection has " + tls.VersionName(state.Version)})
		}
	}
	if err != nil {
		c.Abort()
		return nil, comm.Hello{}, err
	}
	info.SameHost = c.sameHost()
	c.info = info
	c.limits = limits.AfterHandshake()
	return c, remote, nil
}
