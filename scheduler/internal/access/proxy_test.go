package access

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
)

// peer is a connection whose peer has a certificate, or none.
type peer struct {
	comm.Comm
	tls *tls.ConnectionState
}

func (p peer) Info() comm.Info  { return comm.Info{TLS: p.tls} }
func (p peer) PeerAddr() string { return "tls://10.0.0.9:1" }

// certified returns a peer whose certificate has roles.
func certified(roles ...string) peer {
	cert := &x509.Certificate{}
	for _, r := range roles {
		cert.URIs = append(cert.URIs, &url.URL{Scheme: "millstream", Host: "cluster", Path: "/role/" + r})
	}
	return peer{tls: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}}
}

// TestCheckProxy checks that a peer without a certificate of a worker may proxy anything, a worker only requests that
// it may send to another worker directly, with one op, whatever else the message has.
func TestCheckProxy(t *testing.T) {
	worker := certified("worker")
	for name, c := range map[string]struct {
		p    peer
		want bool
	}{
		"worker": {worker, true}, "no TLS": {peer{}, false}, "client": {certified("client"), false},
		"scheduler": {certified("scheduler"), false}, "both": {certified("worker", "client"), false},
		"no role":        {certified(), false}, // a certificate without roles has all of them
		"unknown role":   {certified("gardener"), true},
		"no certificate": {peer{tls: &tls.ConnectionState{}}, true},
	} {
		if got := IsOnlyWorker(c.p); got != c.want {
			t.Errorf("%s: IsOnlyWorker: got %t, want %t", name, got, c.want)
		}
	}
	for _, c := range []struct {
		name string
		msg  msgpack.Map
		want string // of a worker; "" is allowed
	}{
		{"get_data", msgpack.MapOf("op", "get_data", "keys", []any{"x"}), ""},
		{"actor_execute", msgpack.MapOf("op", "actor_execute"), ""},
		{"actor_attribute", msgpack.MapOf("op", "actor_attribute"), ""},
		{"update_data", msgpack.MapOf("op", "update_data"), ""},
		{"identity", msgpack.MapOf("op", "identity"), ""},
		{"ping", msgpack.MapOf("op", "ping"), ""},
		{"run", msgpack.MapOf("op", "run"), `call "run" of another worker`},
		{"terminate", msgpack.MapOf("op", "terminate"), `call "terminate" of another worker`},
		{"no op", msgpack.MapOf("keys", 1), "a message with 0 ops"},
		{"nothing", nil, "a message with 0 ops"},
		{"two ops", msgpack.Map{{Key: "op", Value: "ping"}, {Key: "op", Value: "ping"}}, "a message with 2 ops"},
		{"a second op", msgpack.Map{{Key: "op", Value: "ping"}, {Key: "op", Value: "run"}}, `call "run"`},
		{"an op as bytes", msgpack.Map{{Key: "op", Value: "ping"}, {Key: []byte("op"), Value: "run"}}, `call "run"`},
		{"an op of another type", msgpack.MapOf("op", 7), `call "7"`},
	} {
		var log bytes.Buffer
		err := CheckProxy(slog.New(slog.NewTextHandler(&log, nil)), worker, c.msg)
		switch {
		case c.want == "" && (err != nil || log.Len() > 0):
			t.Errorf("%s: got error %v, log %q, want it allowed", c.name, err, log.String())
		case c.want != "" && (!errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "tls://10.0.0.9:1") || !strings.Contains(log.String(), "request refused")):
			t.Errorf("%s: got error %v, log %q, want %q", c.name, err, log.String(), c.want)
		}
		if err := CheckProxy(slog.New(slog.DiscardHandler), peer{}, c.msg); err != nil {
			t.Errorf("%s of a peer without a certificate: got error %v, want none", c.name, err)
		}
	}
}
