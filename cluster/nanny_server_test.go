package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// A process that is killed through the nanny is replaced; Kill returns when the old process has ended, Restart when the
// new one is ready.
func TestNannyKill(t *testing.T) {
	leak.Check(t)
	n := startNanny(t, "steady", WorkerSpec{Name: "bob"}, NannyConfig{})
	first := ready(t, n)
	if err := n.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := ready(t, n)
	if second.PID == first.PID || second.Starts != 2 {
		t.Errorf("after %+v came %+v", first, second)
	}
	if err := n.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if third := n.Info(); third.Starts != 3 || third.State != Running {
		t.Errorf("after Restart: got %+v, want a running worker after 3 starts", third)
	}
	if err := n.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.Kill(t.Context()); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("Kill after the end: got %v, want an error", err)
	}
}

// fakeScheduler accepts the registrations of nannies.
func fakeScheduler(t *testing.T, registered chan<- string) string {
	t.Helper()
	l, err := comm.Default.Listen(t.Context(), "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer(rpc.Config{Type: "Scheduler", Logger: quiet})
	rpc.Handle(s, "register_nanny", func(_ context.Context, _ *rpc.Request, in struct {
		Address string `rpc:"address"`
	}) (msgpack.Map, error) {
		registered <- string([]byte(in.Address))
		return msgpack.MapOf("status", "OK", "nanny-plugins", msgpack.MapOf("env", []byte("pickle"))), nil
	})
	go func() { _ = s.Serve(t.Context(), l) }()
	t.Cleanup(func() { _ = s.Close() })
	return l.ContactAddr()
}

// The nanny serves the requests of Dask schedulers and clients.
func TestNannyServer(t *testing.T) {
	registered := make(chan string, 4)
	spec := WorkerSpec{Name: "carol", Scheduler: fakeScheduler(t, registered)}
	n, err := StartNanny(spec, NannyConfig{Listen: "tcp://127.0.0.1:0", Logger: quiet, role: "test-steady"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Shutdown(t.Context()) })
	first := ready(t, n)
	var address string
	select {
	case address = <-registered:
	case <-time.After(time.Minute):
		t.Fatal("the nanny did not register")
	}
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{})
	t.Cleanup(func() { _ = pool.Close() })
	ask := func(op string, args msgpack.Map) any {
		t.Helper()
		var reply any
		if err := pool.Call(t.Context(), address, op, args, &reply); err != nil {
			t.Errorf("%s: got %v, want nil", op, err)
		}
		return reply
	}
	if id := ask("identity", nil).(msgpack.Map); id.GetString("type") != "Nanny" ||
		id.GetString("worker") != first.Address {
		t.Errorf("identity: got %v, want the address of the worker", id)
	}
	if e, ok := ask("instantiate", nil).(wire.Enum); !ok || e.Name != "running" {
		t.Errorf("instantiate: got %v, want running", e)
	}
	if v := ask("kill", msgpack.MapOf("reason", "a test", "timeout", 5)); v != nil {
		t.Errorf("kill: got %v, want nil", v)
	}
	ready(t, n)
	if v := ask("restart", msgpack.MapOf("timeout", 60)); v != "OK" || n.Info().Starts != 3 {
		t.Errorf("restart: %v, %+v", v, n.Info())
	}
	m, _ := ask("plugin_add", msgpack.MapOf("plugin", []byte("x"), "name", "p")).(msgpack.Map)
	if text := m.GetString("exception_text"); m.GetString("status") != "error" ||
		!strings.Contains(text, "nanny plugin p not run") {
		t.Errorf("plugin_add: got %s %s, want an error that names the plugin", m.GetString("status"), text)
	}
	if m, _ := ask("plugin_remove", msgpack.MapOf("name", "p")).(msgpack.Map); m.GetString("status") != "OK" {
		t.Errorf("plugin_remove: got %v, want OK", m)
	}
	logs, _ := ask("get_logs", msgpack.MapOf("n", nil)).([]any)
	if text := strings.ToLower(strings.Join(strings.Fields(fmt.Sprint(logs)), " ")); !strings.Contains(text,
		"killed: a test") || !strings.Contains(text, "plugin env") {
		t.Errorf("logs: got %v, want the order and the plugin", logs)
	}
	var reply msgpack.Map
	if err := pool.Call(t.Context(), address, "run", msgpack.MapOf("function", []byte("x")), &reply); err != nil ||
		!strings.Contains(reply.GetString("exception_text"), "has no Python") {
		t.Errorf("run: %v, %v", reply, err)
	}
	ask("close_gracefully", msgpack.MapOf("reason", "retired"))
	if v := ask("terminate", msgpack.MapOf("reason", "enough")); v != "OK" {
		t.Errorf("terminate: got %v, want OK", v)
	}
	if err := ended(t, n); err != nil {
		t.Error(err)
	}
}
