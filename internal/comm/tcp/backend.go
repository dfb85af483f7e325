package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/handshake"
	"go.millstream.dev/internal/comm/limits"
	"go.millstream.dev/mem"
)

func init() {
	comm.Register("tcp", backend{})
	comm.Register("tls", backend{TLS: true})
}

// backend is the transport of tcp://, or of tls://.
type backend struct {
	// TLS selects tls://.
	TLS bool
}

func (b backend) scheme() string {
	if b.TLS {
		return "tls"
	}
	return "tcp"
}

// Encrypted reports whether the scheme is tls://.
func (b backend) Encrypted() bool { return b.TLS }

// Host returns the host of an address.
func (b backend) Host(loc string) (string, error) {
	host, _, err := b.HostPort(loc)
	return host, err
}

// HostPort returns the host and the port of an address.
func (backend) HostPort(loc string) (string, int, error) {
	return commaddr.ParseHostPort(loc, commaddr.NoPort)
}

// Resolve replaces the host's name by its IP address.
func (b backend) Resolve(ctx context.Context, loc string) (string, error) {
	host, port, err := b.HostPort(loc)
	if err != nil {
		return "", err
	}
	ip, err := commaddr.ResolveHost(ctx, host)
	if err != nil {
		return "", err
	}
	return commaddr.UnparseHostPort(ip, port), nil
}

// LocalFor returns this host's IP address on the route to loc.
func (b backend) LocalFor(ctx context.Context, loc string) (string, error) {
	host, _, err := b.HostPort(loc)
	if err != nil {
		return "", err
	}
	ip, err := commaddr.ResolveHost(ctx, host)
	if err != nil {
		return "", err
	}
	return commaddr.UnparseHostPort(commaddr.LocalIP(ip), commaddr.NoPort), nil
}

// Dial connects once and performs the handshakes of TLS and Dask.
func (b backend) Dial(ctx context.Context, loc string, cfg comm.DialConfig) (comm.Comm, error) {
	host, port, err := b.HostPort(loc)
	if err != nil {
		return nil, comm.Permanent(err)
	}
	if port == 0 || host == "" {
		return nil, comm.Permanent(&comm.AddressError{Address: commaddr.Unparse(b.scheme(), loc),
			Reason: "want a host and a port other than 0"})
	}
	if b.TLS && cfg.TLS == nil {
		return nil, comm.Permanent(needTLS("DialConfig", loc))
	}
	alive, err := keepAlive(cfg.TCPTimeout)
	if err != nil {
		return nil, comm.Permanent(err)
	}
	d := net.Dialer{KeepAliveConfig: alive, Control: control(cfg.TCPTimeout)}
	connect := func(ctx context.Context) (net.Conn, error) {
		nc, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil || !b.TLS {
			return nc, err
		}
		return startTLS(ctx, tls.Client(&transport{TCPConn: nc.(*net.TCPConn)}, clientConfig(cfg.TLS, host)))
	}
	nc, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	c, remote, err := shakeHands(ctx, nc, greeting{limits: cfg.Limits, compression: cfg.Compression,
		invitation: cfg.Invitation, device: cfg.Device, staged: cfg.Staged})
	if err != nil {
		return nil, err
	}
	if c.flags && cfg.Device != nil && len(remote.Lines) > 0 {
		if err := c.addStripes(ctx, connect, cfg.Limits, remote.Lines); err != nil {
			c.Abort()
			return nil, err
		}
	}
	return c, nil
}

func needTLS(where, loc string) error {
	return fmt.Errorf("comm: tls://%s: no certificates: set their directory (millstream.ConnectOptions.TLSDir, "+
		"--tls-dir), "+
		"or set distributed.comm.tls.ca-file and the cert and key of the role, or %s.TLS in code", loc, where)
}

// clientConfig sets a server name, which crypto/tls requires; it has no effect if the chain is checked by a function.
func clientConfig(cfg *tls.Config, host string) *tls.Config {
	if cfg.ServerName != "" || cfg.InsecureSkipVerify {
		return cfg
	}
	cfg = cfg.Clone()
	cfg.ServerName = host
	return cfg
}

// startTLS performs the TLS handshake. A certificate that does not match is a permanent error.
func startTLS(ctx context.Context, t *tls.Conn) (net.Conn, error) {
	err := t.HandshakeContext(ctx)
	if err == nil {
		return t, nil
	}
	var notTLS tls.RecordHeaderError
	if errors.As(err, &notTLS) {
		answerPlain(t.NetConn())
	}
	_ = t.NetConn().Close()
	var bad *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	case errors.As(err, &notTLS):
		err = comm.Permanent(fmt.Errorf("TLS with %s: %w: no TLS at the peer; use a tcp:// address, or configure "+
			"certificates at the peer",
			t.RemoteAddr(), err))
	case errors.As(err, &bad) || errors.As(err, &alert):
		err = comm.Permanent(fmt.Errorf("TLS with %s: %w (do both sides have certificates of one CA? see "+
			"distributed.comm.tls)", t.RemoteAddr(), err))
	}
	return nil, err
}

// stagedFeature in a hello announces that its sender accepts lengths with flags: see flagCUDA.
const stagedFeature = "staged-1"

// greeting has the parameters of one side of a handshake.
type greeting struct {
	limits      comm.Limits
	compression string
	invitation  []byte
	device      mem.Resource
	staged      comm.StagedConfig
	lines, join []byte // of the hello
}

// shakeHands performs Dask's handshake on a new connection, which it takes over.
func shakeHands(ctx context.Context, nc net.Conn, g greeting) (*conn, handshake.Hello, error) {
	c, err := newConn(nc, limits.BeforeHandshake(g.limits))
	if err != nil {
		return nil, handshake.Hello{}, err
	}
	var features []string
	if g.staged.Mode != comm.StagedOff {
		features = append(features, stagedFeature)
	}
	local, err := handshake.New(g.compression, c.sameHost(), g.invitation, features...)
	if err != nil {
		c.Abort()
		return nil, handshake.Hello{}, comm.Permanent(err)
	}
	local.Lines, local.Join = g.lines, g.join
	info, remote, err := handshake.Do(ctx, c, local)
	if t, ok := nc.(*tls.Conn); ok && err == nil {
		state := t.ConnectionState()
		info.TLS = &state
		// Only Python may need an older TLS.
		if info.Millstream != nil && state.Version < tls.VersionTLS13 {
			err = comm.Permanent(&comm.HandshakeError{Reason: "Millstream peers use TLS 1.3, this connection has " +
				tls.VersionName(state.Version)})
		}
	}
	if err != nil {
		if _, encrypted := nc.(*tls.Conn); !encrypted && c.alerted() {
			err = comm.Permanent(fmt.Errorf("%s answered with a TLS alert; use a tls:// address and certificates "+
				"(distributed.comm.tls)",
				nc.RemoteAddr()))
		}
		c.Abort()
		return nil, handshake.Hello{}, err
	}
	info.SameHost = c.sameHost()
	c.flags = info.Millstream != nil && slices.Contains(info.Millstream.Features, stagedFeature)
	info.CUDA = c.flags
	c.info = info
	c.device, c.staged = g.device, g.staged
	c.limits = limits.AfterHandshake(g.limits)
	return c, remote, nil
}
