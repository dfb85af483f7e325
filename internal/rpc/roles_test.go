package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/secure"
)

// withTLS is a comm whose peer has shown a certificate.
type withTLS struct {
	comm.Comm
	state *tls.ConnectionState
}

func (c withTLS) Info() comm.Info  { return comm.Info{TLS: c.state} }
func (c withTLS) PeerAddr() string { return "tls://peer:1" }

func TestRoles(t *testing.T) {
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(roles ...secure.Role) *tls.ConnectionState {
		id, err := ca.Issue(secure.Request{Roles: roles})
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(id.Cert, id.Key)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	}
	table := Roles{"register-worker": {secure.Worker}, "identity": {secure.Worker, secure.Viewer}, "": {secure.Client}}
	open := Roles{"register-worker": {secure.Worker}}
	for _, c := range []struct {
		table Roles
		op    string
		state *tls.ConnectionState
		want  bool
	}{
		{table, "register-worker", certificate(secure.Worker), true},
		{table, "register-worker", certificate(secure.Client), false},
		{table, "identity", certificate(secure.Viewer), true},
		{table, "submit", certificate(secure.Viewer), false},
		{table, "submit", certificate(secure.Client, secure.Viewer), true},
		{table, "submit", certificate(), true}, // a certificate of Dask's
		{table, "submit", nil, true},           // no TLS
		{table, "submit", &tls.ConnectionState{}, false},
		{open, "submit", certificate(secure.Viewer), true},
		{open, "register-worker", certificate(secure.Viewer), false},
	} {
		err := c.table.Authorize(t.Context(), &Request{Body: Body{Op: c.op}, Comm: withTLS{state: c.state}})
		if c.want != (err == nil) || err != nil && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s with %v: %v, want allowed=%v", c.op, c.state, err, c.want)
		}
	}
}
