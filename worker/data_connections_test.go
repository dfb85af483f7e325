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

// fetchLarge makes one worker fetch a large value from another and returns the schemes that
// were used, in order.
func fetchLarge(t *testing.T, cfg worker.DataConnections) (from, to *worker.Worker, schemes []string) {
	t.Helper()
	d := direct(t, "tcp://127.0.0.1:0")
	from, _ = d.worker(t, worker.Config{DataConnections: cfg})
	to, seen := d.worker(t, worker.Config{DataConnections: cfg})
	big := bytes.Repeat([]byte("data"), 1<<20)
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
			schemes = append(schemes, x.Scheme)
		}
	}
	return from, to, schemes
}

// Data is moved over the data connection, messages over the control connection. Any transport can be used for data.
func TestDataConnection(t *testing.T) {
	from, _, schemes := fetchLarge(t, worker.DataConnections{Listen: "inproc://"})
	if len(from.DataAddresses()) != 1 || !strings.HasPrefix(from.DataAddresses()[0], "inproc://") {
		t.Errorf("got data addresses %v", from.DataAddresses())
	}
	if strings.Join(schemes, " ") != "inproc inproc inproc" {
		t.Errorf("got schemes %v, want inproc", schemes)
	}
}

// A worker starts without a data connection that cannot be opened.
func TestNoDataConnection(t *testing.T) {
	from, _, schemes := fetchLarge(t, worker.DataConnections{Listen: "tcp://127.0.0.1:99999"})
	if len(from.DataAddresses()) != 0 || strings.Join(schemes, " ") != "tcp tcp tcp" {
		t.Errorf("got data addresses %v, schemes %v, want none and tcp", from.DataAddresses(), schemes)
	}
}

// A data connection needs an invitation, each invitation admits once, and only data is served.
func TestDataConnectionInvitation(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, _ := d.worker(t, worker.Config{DataConnections: worker.DataConnections{Listen: "tcp://127.0.0.1:0"}})
	ctx := testContext(t)
	dial := func(invitation []byte) (comm.Comm, error) {
		c, err := comm.Dial(ctx, w.DataAddresses()[0], comm.DialConfig{Invitation: invitation, Timeout: 300e6})
		if err != nil {
			return nil, err
		}
		t.Cleanup(c.Abort)
		// A rejected peer gets the error with the first reply.
		err = rpc.Call(ctx, c, "get_data", nil, nil)
		if errors.As(err, new(*rpc.RemoteError)) {
			err = nil // admitted: the request had no arguments
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
	d.call(t, w.Address(), "millstream-data-connections", nil, &reply)
	list, _ := reply.Get("offers")
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
			t.Errorf("%s on the data connection: got %v, want no such handler", op, err)
		}
	}
}

// A data address without a host has the host of the worker.
func TestDataConnectionHost(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, _ := d.worker(t, worker.Config{DataConnections: worker.DataConnections{Listen: "tcp://:0"}})
	if got := w.DataAddresses(); len(got) != 1 || !strings.HasPrefix(got[0], "tcp://127.0.0.1:") {
		t.Errorf("data addresses of %s: got %v", w.Address(), got)
	}
}

// Without trust a data connection listens on the loopback interface, and that of an encrypted worker with another
// host is not opened.
func TestDataConnectionLocal(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	accept := comm.ListenConfig{Refused: func(string, error) {}}
	w, _ := d.worker(t, worker.Config{Listen: "tcp://127.0.0.2:0", Accept: accept,
		DataConnections: worker.DataConnections{Listen: "tcp://:0"}})
	if got := w.DataAddresses(); len(got) != 1 || !strings.HasPrefix(got[0], "tcp://127.0.0.1:") {
		t.Errorf("data address of %s without trust: got %v, want 127.0.0.1", w.Address(), got)
	}
	w, _ = d.worker(t, worker.Config{Listen: "tcp://127.0.0.2:0", Accept: accept,
		DataConnections: worker.DataConnections{Listen: "tcp://:0", Trusted: true}})
	if got := w.DataAddresses(); len(got) != 1 || !strings.HasPrefix(got[0], "tcp://127.0.0.2:") {
		t.Errorf("data address of %s with trust: got %v, want 127.0.0.2", w.Address(), got)
	}
}
