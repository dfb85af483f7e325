package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
)

// The certificate of a worker can retire the worker that it belongs to and no other, not even one of the same host. The
// secret that distinguishes them is shown to no peer.
func TestWorkerRetiresItselfOnly(t *testing.T) {
	leak.Check(t)
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	listen, err := mustIssue(t, ca, secure.Scheduler).Listen()
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{Listen: []string{"tcp://127.0.0.1:0", "tls://127.0.0.1:0"},
		ListenConfig: comm.ListenConfig{TLS: listen}})
	dial, err := mustIssue(t, ca, secure.Worker).Dial()
	if err != nil {
		t.Fatal(err)
	}
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{Dial: comm.DialConfig{TLS: dial}})
	t.Cleanup(func() { _ = pool.Close() })
	c := connect(t, s, "client-1")
	own := func(name, secret string) *testWorker {
		return join(t, s, name, with("extra", msgpack.MapOf("millstream",
			msgpack.MapOf("registry", task.Hash(), "incarnation", secret))))
	}
	a, b := own("a", "secret-a"), own("b", "secret-b")
	dask := join(t, s, "dask", with("extra", msgpack.Map{}))
	if id := fmt.Sprint(c.call("identity", "n_workers", -1)); strings.Contains(id, "secret-") {
		t.Errorf("identity: got the secret in %s, want it hidden", id)
	}
	secured := s.Addresses()[1]
	retire := func(w *testWorker, secret any) error {
		args := msgpack.MapOf("workers", []any{w.address}, "close_workers", false, "remove", true)
		if secret != nil {
			args.Set("incarnation", secret)
		}
		return pool.Call(t.Context(), secured, "retire_workers", args, nil)
	}
	for _, secret := range []any{nil, "", "secret-b", "secret-"} {
		if err := retire(a, secret); err == nil || !strings.Contains(err.Error(), "PermissionError") {
			t.Errorf("retire a with secret %v: got %v, want a PermissionError", secret, err)
		}
	}
	if err := retire(b, "secret-b"); err != nil {
		t.Errorf("retire b with its own secret: got error %v, want none", err)
	}
	if err := retire(dask, nil); err != nil {
		t.Errorf("retire a Dask worker from its host: got error %v, want none", err)
	}
	workers := fmt.Sprint(c.call("ncores"))
	if !strings.Contains(workers, a.address) || strings.Contains(workers, b.address) ||
		strings.Contains(workers, dask.address) {
		t.Errorf("workers left: got %s, want %s alone", workers, a.address)
	}
	for name, msg := range map[string]msgpack.Map{
		"two ops":      {{Key: "op", Value: "identity"}, {Key: "op", Value: "terminate"}},
		"op of bytes":  {{Key: "op", Value: "identity"}, {Key: []byte("op"), Value: "terminate"}},
		"no op":        {},
		"op of a list": {{Key: "op", Value: []any{"identity"}}},
	} {
		err := pool.Call(t.Context(), secured, "proxy", msgpack.MapOf("worker", a.address, "msg", msg), nil)
		if err == nil || !strings.Contains(err.Error(), "PermissionError") {
			t.Errorf("proxy with %s: got %v, want a PermissionError", name, err)
		}
	}
	if err := pool.Call(t.Context(), secured, "proxy",
		msgpack.MapOf("worker", a.address, "msg", msgpack.MapOf("op", "identity")), nil); err != nil {
		t.Errorf("proxy of identity: got error %v, want none", err)
	}
}

func mustIssue(t *testing.T, ca *secure.CA, role secure.Role) *secure.Identity {
	t.Helper()
	id, err := ca.Issue(secure.Request{Roles: []secure.Role{role}})
	if err != nil {
		t.Fatal(err)
	}
	return id
}
