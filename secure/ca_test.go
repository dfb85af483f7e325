package secure

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

func newTestCA(t *testing.T, cfg CAConfig) *CA {
	t.Helper()
	ca, err := NewCA(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t *testing.T, ca *CA, req Request) *Identity {
	t.Helper()
	id, err := ca.Issue(req)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func parse(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("no PEM")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// talk connects two identities and returns what each side says.
func talk(t *testing.T, dial, listen *tls.Config) (roles []Role, client, server error) {
	t.Helper()
	// Sockets, not net.Pipe: a side that refuses must be able to say so and go.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	done := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			done <- err
			return
		}
		defer c.Close()
		s := tls.Server(c, listen)
		if err = s.Handshake(); err == nil {
			state := s.ConnectionState()
			for _, r := range Roles() {
				if Allows(&state, r) {
					roles = append(roles, r)
				}
			}
			_, err = s.Write([]byte("x"))
		}
		done <- err
	}()
	raw, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	c := tls.Client(raw, dial)
	// In TLS 1.3 the client learns only by reading that it was refused.
	if client = c.Handshake(); client == nil {
		_, client = io.ReadFull(c, make([]byte, 1))
	}
	raw.Close()
	server = <-done
	return roles, client, server
}

func configs(t *testing.T, a, b *Identity) (dial, listen *tls.Config) {
	t.Helper()
	dial, err := a.Dial()
	if err != nil {
		t.Fatal(err)
	}
	listen, err = b.Listen()
	if err != nil {
		t.Fatal(err)
	}
	return dial, listen
}

func TestIdentitiesTrustEachOther(t *testing.T) {
	for _, ed := range []bool{false, true} {
		ca := newTestCA(t, CAConfig{Ed25519: ed})
		w := issue(t, ca, Request{Roles: []Role{Worker}})
		s := issue(t, ca, Request{Roles: []Role{Scheduler, Viewer}})
		dial, listen := configs(t, w, s)
		roles, c, srv := talk(t, dial, listen)
		if c != nil || srv != nil || !slices.Equal(roles, []Role{Worker}) {
			t.Errorf("ed25519=%v: client %v, server %v, roles %v", ed, c, srv, roles)
		}
	}
}

func TestStrangersAreRefused(t *testing.T) {
	ours, theirs := newTestCA(t, CAConfig{}), newTestCA(t, CAConfig{})
	good := issue(t, ours, Request{Roles: []Role{Worker}})
	bad := issue(t, theirs, Request{Roles: []Role{Worker}})
	dial, listen := configs(t, bad, good)
	if _, c, s := talk(t, dial, listen); c == nil || s == nil {
		t.Errorf("certificates of two CAs: client %v, server %v", c, s)
	}
	// One that trusts us and shows a certificate of another CA, or none.
	mixed := &Identity{Cert: bad.Cert, Key: bad.Key, CA: good.CA}
	dial, listen = configs(t, mixed, good)
	if _, c, s := talk(t, dial, listen); c == nil || s == nil {
		t.Errorf("a client's certificate of another CA: client %v, server %v", c, s)
	}
	dial.Certificates = nil
	if _, c, s := talk(t, dial, listen); c == nil || s == nil {
		t.Errorf("a client without a certificate: client %v, server %v", c, s)
	}
	// And a listener that shows one of another CA.
	dial, listen = configs(t, good, mixed)
	_, c, _ := talk(t, dial, listen)
	var verification *tls.CertificateVerificationError
	if !errors.As(c, &verification) {
		t.Errorf("a listener's certificate of another CA: %v", c)
	}
	// A certificate whose time is over.
	old := issue(t, ours, Request{Roles: []Role{Worker}, Valid: time.Nanosecond})
	dial, listen = configs(t, old, good)
	if _, c, s := talk(t, dial, listen); c == nil || s == nil {
		t.Errorf("an old certificate: client %v, server %v", c, s)
	}
	// A certificate must not issue others.
	leaf, err := LoadCA(good.Cert, good.Key)
	if err == nil {
		t.Errorf("a worker's certificate became a CA: %v", leaf)
	}
}

func TestRoles(t *testing.T) {
	ca := newTestCA(t, CAConfig{Cluster: "lab-1.example"})
	cert := parse(t, issue(t, ca, Request{Roles: []Role{Client}, Hosts: []string{"10.0.0.1", "n1"}}).Cert)
	if cert.URIs[0].String() != "millstream://lab-1.example/role/client" || cert.DNSNames[0] != "n1" ||
		cert.IPAddresses[0].String() != "10.0.0.1" {
		t.Errorf("names are %v %v %v", cert.URIs, cert.DNSNames, cert.IPAddresses)
	}
	if got := RolesOf(cert); !slices.Equal(got, []Role{Client}) {
		t.Errorf("roles %v", got)
	}
	if got := RolesOf(parse(t, issue(t, ca, Request{}).Cert)); !slices.Equal(got, Roles()) {
		t.Errorf("roles of a certificate that names none: %v", got)
	}
	cert.URIs[0].Path = "/role/emperor"
	if got := RolesOf(cert); len(got) != 0 {
		t.Errorf("an unknown role gives %v", got)
	}
	if _, err := ca.Issue(Request{Roles: []Role{"emperor"}}); err == nil {
		t.Error("a certificate for an unknown role")
	}
	if !Allows(nil, Scheduler) || Allows(&tls.ConnectionState{}, Worker) {
		t.Error("Allows without a certificate")
	}
	if _, err := NewCA(CAConfig{Cluster: "a b/c"}); err == nil {
		t.Error("a cluster's name that is no host of a URI")
	}
}

func TestLoadCA(t *testing.T) {
	for _, ed := range []bool{false, true} {
		ca := newTestCA(t, CAConfig{Ed25519: ed})
		key, err := ca.KeyPEM()
		if err != nil {
			t.Fatal(err)
		}
		again, err := LoadCA(ca.PEM(), key)
		if err != nil {
			t.Fatal(err)
		}
		if again.Cluster() != ca.Cluster() || again.Fingerprint() != ca.Fingerprint() {
			t.Error("the loaded CA is another one")
		}
		a, b := issue(t, ca, Request{}), issue(t, again, Request{})
		dial, listen := configs(t, a, b)
		if _, c, s := talk(t, dial, listen); c != nil || s != nil {
			t.Errorf("certificates of a CA before and after loading: %v, %v", c, s)
		}
	}
	a, b := newTestCA(t, CAConfig{}), newTestCA(t, CAConfig{})
	key, _ := b.KeyPEM()
	for _, c := range []struct{ cert, key []byte }{{a.PEM(), key}, {nil, key}, {a.PEM(), nil}, {key, a.PEM()},
		{a.PEM(), a.PEM()}} {
		if _, err := LoadCA(c.cert, c.key); err == nil || !strings.HasPrefix(err.Error(), "secure: CA ") {
			t.Errorf("a CA of parts that do not belong together: %v", err)
		}
	}
}
