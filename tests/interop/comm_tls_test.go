package interop

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/secure"
	"go.millstream.dev/tests/interop/pypeer"
)

// newCommTLS makes certificates and writes them where Python's Security reads them.
func newCommTLS(t *testing.T, cfg secure.CAConfig) *commTLS {
	t.Helper()
	ca, err := secure.NewCA(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ca.WriteFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return tlsOf(t, s)
}

func tlsOf(t *testing.T, s *secure.Security) *commTLS {
	t.Helper()
	dial, err := s.Dial(secure.Worker)
	if err != nil {
		t.Fatal(err)
	}
	listen, err := s.Listen(secure.Worker)
	if err != nil {
		t.Fatal(err)
	}
	return &commTLS{
		dial: comm.DialConfig{TLS: dial}, listen: comm.ListenConfig{TLS: listen},
		python: map[string]string{
			"tls_ca_file":     s.CAFile,
			"tls_client_cert": s.Client.Cert, "tls_client_key": s.Client.Key,
			"tls_scheduler_cert": s.Scheduler.Cert, "tls_scheduler_key": s.Scheduler.Key,
			"tls_worker_cert": s.Worker.Cert, "tls_worker_key": s.Worker.Key,
		},
	}
}

func TestCommTLS(t *testing.T) {
	r := newCommRig(t)
	for name, cfg := range map[string]secure.CAConfig{"ecdsa": {}, "ed25519": {Ed25519: true}} {
		for _, way := range []string{"client", "server"} {
			t.Run(name+"/"+way, func(t *testing.T) {
				l := r.sub(t, newCommTLS(t, cfg)).link(way)
				state := l.c.Info().TLS
				if state == nil || state.Version != tls.VersionTLS13 {
					t.Errorf("TLS is %+v", state)
				}
				want := secure.Client // Python connects as a client
				if way == "client" {
					want = secure.Scheduler
				}
				if !secure.Allows(state, want) || secure.Allows(state, secure.Worker) {
					t.Errorf("the peer's roles are %v", secure.RolesOf(state.PeerCertificates[0]))
				}
				if h := l.handshake(); len(h.Cipher) != 3 || h.Cipher[1] != "TLSv1.3" {
					t.Errorf("Python sees %v", h.Cipher)
				}
			})
		}
	}
}

// Certificates of two clusters do not mix, and neither side tries for long.
func TestCommTLSStrangers(t *testing.T) {
	r := newCommRig(t)
	ours, theirs := newCommTLS(t, secure.CAConfig{}), newCommTLS(t, secure.CAConfig{})
	mixed := &commTLS{dial: ours.dial, listen: ours.listen, python: theirs.python}
	s := r.sub(t, mixed)
	at := s.do("listen", pypeer.Command{"address": "tls://127.0.0.1:0"}).Address
	_, err := comm.Dial(r.ctx, at, ours.dial)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "one CA") {
		t.Errorf("our dial: %v", err)
	}
	l, err := comm.Listen(r.ctx, "tls://127.0.0.1:0", ours.listen)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := r.peer.Do(r.ctx, "connect", s.withTLS(pypeer.Command{"address": l.ContactAddr(),
		"timeout": 2})); err == nil {
		t.Error("Python connects with another cluster's certificate")
	}
}

// temporary makes what Dask's Security.temporary makes: a certificate that signs itself,
// names no use and is its own CA.
func temporary(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "dask-internal"},
		DNSNames:  []string{"dask-internal"},
		NotBefore: time.Now(), NotAfter: time.Now().Add(365 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// Certificates of that kind work here, given as texts, and hold every role.
func TestCommTLSTemporary(t *testing.T) {
	cert, key := temporary(t)
	pair := secure.KeyPair{Cert: cert, Key: key}
	both := tlsOf(t, &secure.Security{CAFile: cert, Client: pair, Scheduler: pair, Worker: pair})
	r := newCommRig(t)
	for _, way := range []string{"client", "server"} {
		t.Run(way, func(t *testing.T) {
			l := r.sub(t, both).link(way)
			if state := l.c.Info().TLS; len(secure.RolesOf(state.PeerCertificates[0])) != len(secure.Roles()) {
				t.Error("Dask's certificates hold every role")
			}
			done := l.echo(1)
			l.do("check", pypeer.Command{"ep": l.name, "value": map[string]any{"kind": "nested", "size": 1000}})
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// What Env says configures Python as it configures us.
func TestCommTLSEnvironment(t *testing.T) {
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := ca.WriteFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.MinVersion = "1.3"
	python, err := pypeer.Python()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", `
from distributed.security import Security
import ssl
s, t = Security(), `+s.Python()+`
for k in Security.__slots__:
    if k not in ("tls_min_version", "extra_conn_args"):
        assert getattr(s, k) == getattr(t, k), (k, getattr(s, k), getattr(t, k))
assert s.tls_min_version == ssl.TLSVersion.TLSv1_3
assert s.require_encryption is True
for role in ("client", "scheduler", "worker"):
    assert s.get_connection_args(role)["ssl_context"] and s.get_listen_args(role)["ssl_context"]
`)
	cmd.Env = append(os.Environ(), s.Env()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
