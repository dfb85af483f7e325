package scheduler

import (
	"log/slog"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/secure"
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
	log := &logText{}
	s := start(t, Config{Listen: []string{"tls://127.0.0.1:0"},
		ListenConfig: comm.ListenConfig{TLS: listen, RequireEncryption: true},
		Logger:       slog.New(slog.NewTextHandler(log, nil))})
	dial := func(role secure.Role) *rpc.Pool {
		cfg, err := identity(role).Dial()
		if err != nil {
			t.Fatal(err)
		}
		p := rpc.NewPool(comm.Default, rpc.PoolConfig{Dial: comm.DialConfig{TLS: cfg}})
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	type call struct {
		role    secure.Role
		op      string
		args    msgpack.Map
		allowed bool
	}
	beat := msgpack.MapOf("address", "tls://127.0.0.1:1", "metrics", msgpack.Map{})
	calls := []call{
		{secure.Viewer, "identity", nil, true},
		{secure.Viewer, "terminate", nil, false},
		{secure.Viewer, "who_has", nil, false},
		{secure.Viewer, "register-client", nil, false},
		{secure.Client, "who_has", nil, true},
		{secure.Client, "heartbeat_worker", beat, false},
		{secure.Worker, "heartbeat_worker", beat, true},
		{secure.Worker, "event_set", msgpack.MapOf("name", "e"), true},
		// rejected because there are no workers
		{secure.Worker, "scatter", msgpack.MapOf("data", msgpack.Map{}, "timeout", 0.01), true},
		{secure.Worker, "retire_workers", msgpack.MapOf("workers", []any{"tls://127.0.0.1:1"}), true},
		{secure.Worker, "retire_workers", msgpack.MapOf("n", 1), false},
		{secure.Worker, "retire_workers", msgpack.MapOf("names", []any{"a"}), false},
		{secure.Worker, "retire_workers", msgpack.MapOf("workers", []any{"tls://10.0.0.1:1", "tls://10.0.0.2:1"}),
			false},
		{secure.Worker, "proxy", msgpack.MapOf("worker", "a", "msg", msgpack.MapOf("op", "run")), false},
		{secure.Worker, "proxy", msgpack.MapOf("worker", "a", "msg", msgpack.MapOf("op", "terminate")), false},
		{secure.Client, "retire_workers", msgpack.MapOf("n", 1), true},
	}
	for _, op := range []string{
		"terminate", "restart", "restart_workers", "broadcast", "run_function", "register_scheduler_plugin",
		"register_worker_plugin",
		"register_nanny_plugin", "unregister_worker_plugin", "unregister_nanny_plugin", "set_resources",
		"set_restrictions", "amm_handler",
		"workers_to_close", "adaptive_target", "get_logs", "worker_logs", "call_stack", "profile",
		"profile_metadata", "subscribe_worker_status",
		"dump_state", "get_runspec",
	} {
		calls = append(calls, call{secure.Worker, op, nil, false})
	}
	for _, test := range calls {
		var out any
		err := dial(test.role).Call(t.Context(), s.Address(), test.op, test.args, &out)
		refused := err != nil && strings.Contains(err.Error(), "PermissionError")
		if refused == test.allowed {
			t.Errorf("%s with %v as a %s: got error %v, want a PermissionError: %t", test.op, test.args, test.role,
				err, !test.allowed)
		}
	}
	// A worker whose address is of another interface than the one from which it connects may retire itself.
	cfg, err := identity(secure.Worker).Dial()
	if err != nil {
		t.Fatal(err)
	}
	x, err := comm.Dial(t.Context(), s.Address(), comm.DialConfig{TLS: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Abort()
	other := &testWorker{peer: &peer{t: t, comm: x}, name: "other", address: "tls://192.0.2.1:1"}
	if r := other.register(); r.GetString("status") != "OK" {
		t.Fatalf("register-worker: got %v, want status OK", r)
	}
	var out any
	if err := dial(secure.Worker).Call(t.Context(), s.Address(), "retire_workers",
		msgpack.MapOf("workers", []any{other.address}, "close_workers", false, "remove", true), &out); err != nil {
		t.Errorf("retirement of a worker with another address: got error %v, want none", err)
	}
	until(t, "the log names who was refused", func() bool {
		return log.has("request refused") && log.has("op=terminate") && log.has("peer=tls://127.0.0.1:")
	})
}

// A dialing side checks the role of its peer: the certificate of a worker is not accepted for a scheduler, one without
// roles is accepted for all.
func TestDialChecksRoles(t *testing.T) {
	leak.Check(t)
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		roles []secure.Role
		want  secure.Role
		ok    bool
	}{
		{[]secure.Role{secure.Scheduler}, secure.Scheduler, true},
		{[]secure.Role{secure.Worker}, secure.Scheduler, false},
		{[]secure.Role{secure.Client}, secure.Scheduler, false},
		{[]secure.Role{secure.Client}, secure.Worker, false},
		{[]secure.Role{secure.Worker, secure.Scheduler}, secure.Scheduler, true},
	} {
		id, err := ca.Issue(secure.Request{Roles: c.roles})
		if err != nil {
			t.Fatal(err)
		}
		listen, err := id.Listen()
		if err != nil {
			t.Fatal(err)
		}
		l, err := comm.Listen(t.Context(), "tls://127.0.0.1:0", comm.ListenConfig{TLS: listen})
		if err != nil {
			t.Fatal(err)
		}
		dial, err := id.Dial()
		if err != nil {
			t.Fatal(err)
		}
		x, err := comm.Dial(t.Context(), l.ContactAddr(), comm.DialConfig{TLS: dial}.To(c.want))
		if (err == nil) != c.ok {
			t.Errorf("certificate of %v for a %s: got error %v, want accepted: %t", c.roles, c.want, err, c.ok)
		}
		if err == nil {
			x.Abort()
		} else if !strings.Contains(err.Error(), "want one of [") {
			t.Errorf("error: got %v, want the roles in it", err)
		}
		_ = l.Close()
	}
}

// A fire-and-forget task runs once.
func TestFireAndForget(t *testing.T) {
	s := start(t, Config{})
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}})
	c.send(msgpack.MapOf("op", "client-desires-keys", "keys", names("x"), "client", peers.FireAndForget),
		msgpack.MapOf("op", "close-client"), msgpack.MapOf("op", "close-stream"))
	c.waitClosed()
	w := join(t, s, "a")
	until(t, "the task has run", func() bool { return w.count("x") == 1 })
	until(t, "the task is forgotten", func() bool { return !w.holds("x") })
}
