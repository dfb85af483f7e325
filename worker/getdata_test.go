package worker_test

import (
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker"
)

// The connections of peers that request data and never acknowledge it are closed, and the log names the peers.
func TestNotAcknowledged(t *testing.T) {
	leak.Check(t)
	d := direct(t, "tcp://127.0.0.1:0")
	var log logBuffer
	a, _ := d.worker(t, worker.Config{Outgoing: 1, AckTimeout: 20 * time.Millisecond, Logger: log.logger()})
	var reply msgpack.Map
	d.call(t, a.Address(), "update_data", msgpack.MapOf("data", msgpack.MapOf("k", 1)), &reply)
	ctx := testContext(t)
	for range 2 { // the limit for one host
		c, err := comm.Dial(ctx, a.Address(), comm.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abort()
		if err := rpc.Call(ctx, c, "get_data", msgpack.MapOf("keys", []any{"k"}, "who", "tcp://192.0.2.7:1"),
			&reply); err != nil {
			t.Fatal(err)
		}
		if m, err := c.Read(ctx); err == nil {
			t.Errorf("got a message %q, want the end of the connection", m.Body())
			m.Release()
		} else if ctx.Err() != nil {
			t.Fatalf("connection not closed: %v", err)
		}
	}
	if v := value(t, d.fetch(t, a.Address(), "k"), "k"); v != int64(1) {
		t.Errorf("got %v, want 1", v)
	}
	for _, want := range []string{"level=WARN", "did not acknowledge", "peer=tcp://192.0.2.7:1",
		"address=tcp://127.0.0.1:"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("got log without %q:\n%s", want, log.String())
		}
	}
}

// A worker whose scheduler is dead cannot move its data: it closes at once.
func TestRetireWithoutScheduler(t *testing.T) {
	leak.Check(t)
	d := direct(t, "tcp://127.0.0.1:0")
	w, _ := d.worker(t, worker.Config{})
	d.close()
	err := w.Retire(testContext(t))
	if err == nil ||
		!strings.Contains(err.Error(), "without moving its data: connection to the scheduler lost") {
		t.Errorf("got %v, want an error about the lost connection to the scheduler", err)
	}
	<-w.Done()
}
