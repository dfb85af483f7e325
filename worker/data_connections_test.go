package worker_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// throughLane has one worker fetch a large value from another and returns the schemes that
// were used, in order.
func throughLane(t *testing.T, lane worker.DataConnections) (from, to *worker.Worker, lanes []string) {
	t.Helper()
	d := direct(t, "tcp://127.0.0.1:0")
	from, _ = d.worker(t, worker.Config{DataConnections: lane})
	to, seen := d.worker(t, worker.Config{DataConnections: lane})
	big := bytes.Repeat([]byte("lane"), 1<<20)
	var reply msgpack.Map
	for i, key := range []string{"one", "two", "three"} {
		d.call(t, from.Address(), "update_data", msgpack.MapOf("data", msgpack.MapOf(key, wire.Serialize{Value: big})),
			&reply)
		seen.send(t, compute("n-"+key, int64(i), spec(t, length, ref[[]byte](key)),
			map[string][]string{key: {from.Address()}}))
		seen.receive(t, "task-finished")
		if n := value(t, d.fetch(t, to.Address(), "n-"+key), "n-"+key); n != int64(len(big)) {
			t.Fatalf("%s has %v bytes", key, n)
		}
	}
	for _, x := range to.Transfers() {
		if x.Incoming && x.Error == "" {
			lanes = append(lanes, x.Scheme)
		}
	}
	return from, to, lanes
}

// Data goes over the second connection, orders over the first. Any transport can be a lane.
func TestLane(t *testing.T) {
	from, _, lanes := throughLane(t, worker.DataConnections{Listen: "inproc://"})
	if len(from.DataAddresses()) != 1 || !strings.HasPrefix(from.DataAddresses()[0], "inproc://") {
		t.Errorf("lanes %v", from.DataAddresses())
	}
	if strings.Join(lanes, " ") != "inproc inproc inproc" {
		t.Errorf("data went over %v", lanes)
	}
}

// A lane that cannot be opened is none, and a worker does without.
func TestNoLane(t *testing.T) {
	from, _, lanes := throughLane(t, worker.DataConnections{Listen: "tcp://127.0.0.1:99999"})
	if len(from.DataAddresses()) != 0 || strings.Join(lanes, " ") != "tcp tcp tcp" {
		t.Errorf("lanes %v, data went over %v", from.DataAddresses(), lanes)
	}
}

// The lane admits nobody without an invitation, each invitation once, and serves nothing but data.
func TestLaneIsGuarded(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, _ := d.worker(t, worker.Config{DataConnections: worker.DataConnections{Listen: "tcp://127.0.0.1:0"}})
	ctx := testContext(t)
	dial := func(invitation []byte) (comm.Comm, error) {
		c, err := comm.Dial(ctx, w.DataAddresses()[0], comm.DialConfig{Invitation: invitation, Timeout: 300e6})
		if err != nil {
			return nil, err
		}
		t.Cleanup(c.Abort)
		// Who is refused learns it with the first answer.
		err = rpc.Call(ctx, c, "get_data", nil, nil)
		if errors.As(err, new(*rpc.RemoteError)) {
			err = nil // it was let in, and asked for nothing
		}
		return c, err
	}
	if _, err := dial(nil); err == nil {
		t.Error("admitted without an invitation")
	}
	if _, err := dial([]byte("guess")); err == nil {
		t.Error("admitted with a guess")
	}
	var reply msgpack.Map
	d.call(t, w.Address(), "millstream-lanes", nil, &reply)
	list, _ := reply.Get("lanes")
	invitation, _ := list.([]any)[0].(msgpack.Map).Get("cookie")
	c, err := dial(invitation.([]byte))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dial(invitation.([]byte)); err == nil {
		t.Error("admitted twice with one invitation")
	}
	for _, op := range []string{"run", "terminate", "update_data", "free_keys", "identity", "echo", "dump_state",
		"connection_stream"} {
		if err := rpc.Call(ctx, c, op, nil, nil); err == nil || !strings.Contains(err.Error(), "no such handler") {
			t.Errorf("%s on the lane: got %v, want that there is no such handler", op, err)
		}
	}
}

// A lane without a host is where the worker is.
func TestLaneHost(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, _ := d.worker(t, worker.Config{DataConnections: worker.DataConnections{Listen: "tcp://:0"}})
	if got := w.DataAddresses(); len(got) != 1 || !strings.HasPrefix(got[0], "tcp://127.0.0.1:") {
		t.Errorf("lanes %v of %s", got, w.Address())
	}
}

// Without trust a lane stays on the loopback interface, and one of an encrypted worker that
// names another host is not opened.
func TestLaneStaysLocal(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	accept := comm.ListenConfig{Refused: func(string, error) {}}
	w, _ := d.worker(t, worker.Config{Listen: "tcp://127.0.0.2:0", Accept: accept,
		DataConnections: worker.DataConnections{Listen: "tcp://:0"}})
	if got := w.DataAddresses(); len(got) != 1 || !strings.HasPrefix(got[0], "tcp://127.0.0.1:") {
		t.Errorf("the lane of %s without trust is at %v, want 127.0.0.1", w.Address(), got)
	}
	w, _ = d.worker(t, worker.Config{Listen: "tcp://127.0.0.2:0", Accept: accept,
		DataConnections: worker.DataConnections{Listen: "tcp://:0", Trusted: true}})
	if got := w.DataAddresses(); len(got) != 1 || !strings.HasPrefix(got[0], "tcp://127.0.0.2:") {
		t.Errorf("the lane of %s with trust is at %v, want 127.0.0.2", w.Address(), got)
	}
}
