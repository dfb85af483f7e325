package scheduler

import (
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/rpc"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire/msgpack"
)

// With TLS a peer may do what the role of its certificate allows, and no more.
func TestRoles(t *testing.T) {
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	identity := func(role secure.Role) *secure.Identity {
		id, err := ca.Issue(secure.Request{Roles: []secure.Role{role}})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	own := identity(secure.Scheduler)
	listen, err := own.Listen()
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{Listen: []string{"tls://127.0.0.1:0"}, ListenConfig: comm.ListenConfig{TLS: listen, RequireEncryption: true}})
	dial := func(role secure.Role) *rpc.Pool {
		cfg, err := identity(role).Dial()
		if err != nil {
			t.Fatal(err)
		}
		p := rpc.NewPool(comm.Default, rpc.PoolConfig{Dial: comm.DialConfig{TLS: cfg}})
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	for _, test := range []struct {
		role    secure.Role
		op      string
		args    msgpack.Map
		allowed bool
	}{
		{secure.Viewer, "identity", nil, true},
		{secure.Viewer, "terminate", nil, false},
		{secure.Viewer, "who_has", nil, false},
		{secure.Client, "who_has", nil, true},
		{secure.Client, "heartbeat_worker", msgpack.MapOf("address", "tls://127.0.0.1:1", "metrics", msgpack.Map{}), false},
		{secure.Worker, "heartbeat_worker", msgpack.MapOf("address", "tls://127.0.0.1:1", "metrics", msgpack.Map{}), true},
		{secure.Worker, "event_set", msgpack.MapOf("name", "e"), true},
	} {
		var out any
		err := dial(test.role).Call(t.Context(), s.Address(), test.op, test.args, &out)
		if (err == nil) != test.allowed {
			t.Errorf("%s as a %s: %v", test.op, test.role, err)
		}
		if err != nil && !strings.Contains(err.Error(), "PermissionError") {
			t.Errorf("%s as a %s is refused with %v", test.op, test.role, err)
		}
	}
}

// What nobody waits for runs once all the same.
func TestFireAndForget(t *testing.T) {
	s := start(t, Config{})
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}})
	c.send(msgpack.MapOf("op", "client-desires-keys", "keys", names("x"), "client", fireAndForget), msgpack.MapOf("op", "close-client"), msgpack.MapOf("op", "close-stream"))
	c.waitClosed()
	w := join(t, s, "a")
	until(t, "it has run", func() bool { return w.count("x") == 1 })
	until(t, "it is forgotten", func() bool { return !w.holds("x") })
}
