package data

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/recovery"
)

// rig is a Data with one worker, which is served at the same address, and a client c.
type rig struct {
	*hosttest.Host
	*Data
	relay  *Relay
	worker *peers.Worker
	fail   error // of the worker
}

func start(t *testing.T) *rig {
	r := &rig{Host: hosttest.New(t)}
	workers, clients := peers.NewWorkers(r.Host.State), peers.NewClients(r.Host.State)
	r.Serve(func(s *rpc.Server) {
		rpc.Handle(s, "echo", func(_ context.Context, _ *rpc.Request, in struct {
			Text string `rpc:"text,optional"`
		}) (string, error) {
			return in.Text, r.fail
		})
		s.Handle("update_data", func(_ context.Context, q *rpc.Request) (any, error) {
			var in struct {
				Data msgpack.Map `rpc:"data"`
			}
			if err := q.Args(&in); err != nil {
				return nil, err
			}
			sizes := msgpack.Map{}
			for _, p := range in.Data {
				sizes = append(sizes, msgpack.Pair{Key: p.Key, Value: 5})
			}
			return msgpack.MapOf("status", "OK", "nbytes", sizes), r.fail
		})
	})
	pool, address := r.Pool()
	r.relay = NewRelay(RelayHost{Loop: r.Host.Loop, Log: r.Host.Log, State: r.Host.State, Workers: workers, Pool: pool})
	r.Data = New(Host{
		Loop: r.Host.Loop, Log: r.Host.Log, State: r.Host.State, Apply: r.Host.Apply, Workers: workers,
		Clients: clients,
		Journal: recovery.NewLog(r.Host.Log, nil), Pool: pool, Relay: r.relay,
		Requests: NewRequests(r.Host.Loop, r.Host.Apply), Tasks: &r.Host.Tasks, WorkersChanged: &r.Host.WorkersChanged,
		Client:  func(name string) *peers.Client { return clients.ByName[name] },
		Publish: func(any, ...string) {},
	})
	r.Do(func() {
		r.worker = &peers.Worker{Address: address, Name: "w", Alias: "\xa1w", Host: "h", Nanny: address}
		r.worker.ID = r.AddWorker(address, r.worker)
		workers.Add(r.worker)
		c := &peers.Client{Name: "c"}
		c.ID = r.AddClient("c", c)
		clients.ByName["c"] = c
	})
	return r
}

// A request is sent to the named workers, or to all; on_error determines how their exceptions are returned.
func TestBroadcast(t *testing.T) {
	r := start(t)
	send := func(b Broadcast) (msgpack.Map, error) {
		if b.Msg == nil {
			b.Msg = msgpack.MapOf("op", "echo", "text", "hi")
		}
		v, err := r.relay.Broadcast(t.Context(), b)
		m, _ := v.(msgpack.Map)
		return m, err
	}
	for _, b := range []Broadcast{
		{OnError: "raise"}, {OnError: "raise", workers: []any{"w", "w"}}, {OnError: "raise", hosts: []any{"h"}},
		{OnError: "raise", Nanny: true},
	} {
		if m, err := send(b); err != nil || len(m) != 1 || m.GetString(r.worker.Address) != "hi" {
			t.Errorf("%+v: got %v, error %v", b, m, err)
		}
	}
	if m, err := send(Broadcast{OnError: "raise", hosts: []any{"other"}}); err != nil || len(m) != 0 {
		t.Errorf("another host: got %v, error %v, want no replies", m, err)
	}
	if _, err := send(Broadcast{OnError: "raise", workers: []any{"nobody"}}); err == nil ||
		!strings.Contains(err.Error(), "KeyError") {
		t.Errorf("unknown worker: got error %v, want KeyError", err)
	}
	if _, err := send(Broadcast{OnError: "panic"}); err == nil || !strings.Contains(err.Error(), "on_error") {
		t.Errorf("invalid on_error: got error %v", err)
	}
	r.fail = errors.New("broken")
	if _, err := send(Broadcast{OnError: "raise"}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("raise: got error %v, want broken", err)
	}
	if m, err := send(Broadcast{OnError: "ignore"}); err != nil || len(m) != 0 {
		t.Errorf("ignore: got %v, error %v, want no replies", m, err)
	}
	if m, err := send(Broadcast{OnError: "return_pickle"}); err != nil || len(m) != 1 ||
		!strings.Contains(fmt.Sprintf("%s", m[0].Value), "broken") {
		t.Errorf("return_pickle: got %v, error %v, want the exception", m, err)
	}
}

// Data is sent to workers in turn and registered with its sizes; an unregistered client is rejected.
func TestScatter(t *testing.T) {
	r := start(t)
	scatter := func(client string) ([]any, error) {
		return r.scatterRPC(t.Context(), nil, struct {
			Data      msgpack.Map `rpc:"data"`
			Workers   []any       `rpc:"workers,optional"`
			Client    string      `rpc:"client,optional"`
			Broadcast any         `rpc:"broadcast,optional"`
			Timeout   any         `rpc:"timeout,optional"`
		}{Data: msgpack.MapOf("x", "1", "y", "2"), Client: client, Timeout: 5.0})
	}
	if keys, err := scatter("c"); err != nil || len(keys) != 2 {
		t.Fatalf("scatter: got %v, error %v, want 2 keys", keys, err)
	}
	r.Do(func() {
		for _, k := range []string{"x", "y"} {
			if x := r.Host.State.Task(task.NewKey(k)); x == nil || x.State() != state.Memory || x.NBytes() != 5 {
				t.Errorf("%s: got %+v, want 5 bytes in memory", k, x)
			}
		}
		if r.first != 2 {
			t.Errorf("first worker of the next scatter: got %d, want 2", r.first)
		}
	})
	if _, err := scatter("stranger"); err == nil || !strings.Contains(err.Error(), "is not registered") {
		t.Errorf("unregistered client: got error %v", err)
	}
	r.fail = errors.New("disk full")
	if _, err := scatter("c"); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("failing worker: got error %v", err)
	}
	r.Do(func() { r.Host.Apply(&state.WorkerStatusChange{Worker: r.worker.ID, Status: state.StatusPaused}) })
	if _, err := r.scatterRPC(t.Context(), nil, struct {
		Data      msgpack.Map `rpc:"data"`
		Workers   []any       `rpc:"workers,optional"`
		Client    string      `rpc:"client,optional"`
		Broadcast any         `rpc:"broadcast,optional"`
		Timeout   any         `rpc:"timeout,optional"`
	}{Data: msgpack.MapOf("z", "1"), Timeout: 0.001}); err == nil ||
		!strings.Contains(err.Error(), "No valid workers") {
		t.Errorf("no running worker: got error %v", err)
	}
}

// who_has and nbytes are read as data; unknown holders are ignored.
func TestReadData(t *testing.T) {
	list, err := readData(msgpack.MapOf("x", []any{"w", "gone"}, "y", []any{}), msgpack.MapOf("x", int64(3)))
	if err != nil || len(list) != 2 || list[0].size != 3 || list[1].size != -1 {
		t.Fatalf("readData: got %+v, error %v, want sizes 3 and -1", list, err)
	}
	for _, m := range []msgpack.Map{{{Key: msgpack.Map{}, Value: []any{}}}} {
		if _, err := readData(m, nil); err == nil {
			t.Error("map as a key: got no error")
		}
		if _, err := readData(nil, m); err == nil {
			t.Error("map as a key of sizes: got no error")
		}
	}
	r := start(t)
	r.Do(func() {
		r.update("c", list)
		if x, y := r.Host.State.Task(task.NewKey("x")), r.Host.State.Task(task.NewKey("y")); x == nil ||
			x.NumHolders() != 1 || y != nil {
			t.Errorf("got %v and %v, want one holder and no task", x, y)
		}
	})
}
