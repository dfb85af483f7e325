package tcp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/testkit/commtest"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/secure"
)

func identity(t testing.TB, ca *secure.CA, roles ...secure.Role) (comm.DialConfig, comm.ListenConfig) {
	t.Helper()
	id, err := ca.Issue(secure.Request{Roles: roles})
	if err != nil {
		t.Fatal(err)
	}
	dial, err := id.Dial()
	if err != nil {
		t.Fatal(err)
	}
	listen, err := id.Listen()
	if err != nil {
		t.Fatal(err)
	}
	return comm.DialConfig{TLS: dial, Timeout: time.Minute}, comm.ListenConfig{TLS: listen}
}

func newCA(t testing.TB) *secure.CA {
	t.Helper()
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestConformanceTLS(t *testing.T) {
	dial, listen := identity(t, newCA(t), secure.Worker)
	dial.RequireEncryption, listen.RequireEncryption = true, true
	commtest.Run(t, commtest.Factory{Address: "tls://127.0.0.1:0", Dial: dial, Listen: listen, Rounds: 100})
}

// connect tries a connection and returns what both sides say.
func connect(t *testing.T, dial comm.DialConfig, listen comm.ListenConfig) (a, b comm.Comm, err error) {
	t.Helper()
	l, err := comm.Listen(t.Context(), "tls://127.0.0.1:0", listen)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	accepted := make(chan comm.Comm, 1)
	go func() {
		c, _ := l.Accept(ctx)
		accepted <- c
	}()
	a, err = comm.Dial(t.Context(), l.ContactAddr(), dial)
	if err != nil {
		cancel()
		if c := <-accepted; c != nil {
			c.Abort()
			t.Error("the listener has accepted what the dialler refused")
		}
		return nil, nil, err
	}
	b = <-accepted
	cancel()
	t.Cleanup(func() { a.Abort(); b.Abort() })
	return a, b, nil
}

func TestRolesOverTLS(t *testing.T) {
	leak.Check(t)
	ca := newCA(t)
	dial, _ := identity(t, ca, secure.Worker)
	_, listen := identity(t, ca, secure.Scheduler)
	a, b, err := connect(t, dial, listen)
	if err != nil {
		t.Fatal(err)
	}
	if s := a.Info().TLS; s == nil || s.Version != tls.VersionTLS13 || !secure.Allows(s, secure.Scheduler) ||
		secure.Allows(s, secure.Worker) {
		t.Errorf("the dialler sees %+v", s)
	}
	if s := b.Info().TLS; !secure.Allows(s, secure.Worker) || secure.Allows(s, secure.Client) {
		t.Errorf("the listener sees %+v", s)
	}
}

// What no retry can mend fails at once, and says why.
func TestTLSRefusals(t *testing.T) {
	leak.Check(t)
	ca := newCA(t)
	dial, listen := identity(t, ca)
	stranger, strangers := identity(t, newCA(t))
	old := dial
	old.TLS = dial.TLS.Clone()
	old.TLS.MaxVersion = tls.VersionTLS12
	for name, c := range map[string]struct {
		dial   comm.DialConfig
		listen comm.ListenConfig
		want   string
	}{
		"other CA":    {stranger, listen, "certificates of one CA"},
		"other CA 2":  {dial, strangers, "certificates of one CA"},
		"old TLS":     {old, listen, "TLS 1.3"},
		"no TLS":      {comm.DialConfig{}, listen, "DialConfig.TLS"},
		"compression": {comm.DialConfig{TLS: dial.TLS, Compression: "rar"}, listen, "rar"},
		"tcp timeout": {comm.DialConfig{TLS: dial.TLS, TCPTimeout: time.Second}, listen,
			"distributed.comm.timeouts.tcp"},
	} {
		start := time.Now()
		_, _, err := connect(t, c.dial, c.listen)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		var timeout *comm.ConnectError
		if errors.As(err, &timeout) {
			t.Errorf("%s was tried for %v", name, time.Since(start))
		}
	}
	if _, err := comm.Listen(t.Context(), "tls://127.0.0.1:0", comm.ListenConfig{}); err == nil ||
		!strings.Contains(err.Error(), "ListenConfig.TLS") {
		t.Errorf("a listener without certificates: %v", err)
	}
	if _, err := comm.Dial(t.Context(), "tcp://127.0.0.1:1", comm.DialConfig{RequireEncryption: true}); err == nil ||
		!strings.Contains(err.Error(), "tls://") {
		t.Errorf("a dial that requires encryption: %v", err)
	}
	// Without a scheme, certificates mean tls.
	l, err := comm.Listen(t.Context(), "127.0.0.1:0", listen)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !strings.HasPrefix(l.ContactAddr(), "tls://") {
		t.Errorf("the listener is at %s", l.ContactAddr())
	}
	// Somebody without TLS at a tls:// listener, and the other way round.
	plain := strings.Replace(l.ContactAddr(), "tls://", "tcp://", 1)
	if _, err := comm.Dial(t.Context(), plain, comm.DialConfig{Timeout: time.Second}); err == nil {
		t.Error("a tcp:// dial to a tls:// listener")
	}
	p, err := comm.Listen(t.Context(), "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := comm.Dial(t.Context(), strings.Replace(p.ContactAddr(), "tcp://", "tls://", 1), dial); err == nil {
		t.Error("a tls:// dial to a tcp:// listener")
	}
}

// TestPlainToTLS connects with the wrong scheme: the error names the right one, at once and on both sides.
func TestPlainToTLS(t *testing.T) {
	leak.Check(t)
	dial, listen := identity(t, newCA(t), secure.Worker)
	refused := make(chan error, 8)
	listen.Refused = func(_ string, err error) { refused <- err }
	for _, c := range []struct {
		listen, dial, client, server string
	}{
		{"tls", "tcp", "use a tls:// address and certificates", "use a tcp:// address"},
		{"tcp", "tls", "use a tcp:// address", ""},
	} {
		l, err := comm.Listen(t.Context(), c.listen+"://127.0.0.1:0", listen)
		if err != nil {
			t.Fatal(err)
		}
		_, loc := commaddr.Parse(l.ContactAddr())
		conn, err := comm.Dial(t.Context(), c.dial+"://"+loc, dial)
		if err == nil {
			conn.Abort()
			t.Fatalf("%s:// to a %s:// listener: connected", c.dial, c.listen)
		}
		var retried *comm.ConnectError
		if errors.As(err, &retried) || !strings.Contains(err.Error(), c.client) {
			t.Errorf("%s:// to a %s:// listener: got %v, want at once %q", c.dial, c.listen, err, c.client)
		}
		if c.server != "" {
			if err := <-refused; !strings.Contains(err.Error(), c.server) {
				t.Errorf("the listener heard %v, want %q", err, c.server)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
