package httpguard

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
)

// serverTLS returns the configuration of an HTTP server for that of the cluster's listeners: a client may have a
// certificate of the cluster, but browsers have none.
func serverTLS(base *tls.Config) *tls.Config {
	cfg := base.Clone()
	cfg.NextProtos, cfg.GetConfigForClient = []string{"http/1.1"}, nil
	cfg.ClientAuth = tls.VerifyClientCertIfGiven
	if cfg.ClientCAs == nil { // crypto/tls would accept the certificates of public authorities
		cfg.ClientAuth = tls.NoClientCert
	}
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 || base.VerifyConnection == nil {
			return nil
		}
		return base.VerifyConnection(s)
	}
	return cfg
}

// sniffing is a listener for TLS and plain connections on one port, so that probes of /health need no certificate and
// http:// links can be redirected.
type sniffing struct {
	net.Listener
	config *tls.Config
}

// Accept waits for the next connection.
func (l *sniffing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &sniffed{Conn: c, config: l.config}, nil
}

// sniffed is a connection that uses TLS if its first byte is that of a TLS handshake.
type sniffed struct {
	net.Conn
	config *tls.Config

	mu  sync.Mutex
	in  net.Conn  // the connection itself, or tls; nil before the first byte
	tls *tls.Conn // nil without TLS
	err error
}

// start reads the first byte.
func (c *sniffed) start() (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in == nil && c.err == nil {
		var first [1]byte
		if _, c.err = io.ReadFull(c.Conn, first[:]); c.err == nil {
			c.in = &unread{Conn: c.Conn, first: first[:]}
			if first[0] == 22 { // handshake
				c.tls = tls.Server(c.in, c.config)
				c.in = c.tls
			}
		}
	}
	return c.in, c.err
}

// Read reads decrypted bytes. The first Read does the handshake of TLS.
func (c *sniffed) Read(p []byte) (int, error) {
	in, err := c.start()
	if err != nil {
		return 0, err
	}
	return in.Read(p)
}

// Write writes and encrypts.
func (c *sniffed) Write(p []byte) (int, error) {
	in, err := c.start()
	if err != nil {
		return 0, err
	}
	return in.Write(p)
}

// state returns the state of TLS, nil without TLS. A request must have been read.
func (c *sniffed) state() *tls.ConnectionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tls == nil {
		return nil
	}
	s := c.tls.ConnectionState()
	return &s
}

// unread is a connection whose first bytes were read.
type unread struct {
	net.Conn
	first []byte
}

// Read reads the first bytes, then those of the connection.
func (u *unread) Read(p []byte) (int, error) {
	if len(u.first) > 0 {
		n := copy(p, u.first)
		u.first = u.first[n:]
		return n, nil
	}
	return u.Conn.Read(p)
}

type connKey struct{}

func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}
