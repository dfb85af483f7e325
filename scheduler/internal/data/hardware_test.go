package data

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/peers"
)

// hardwareRig is a Relay with at most one worker, with fixed answers.
func hardwareRig(t *testing.T, n int) *hosttest.Host {
	t.Helper()
	h := hosttest.New(t)
	workers := peers.NewWorkers(h.State)
	var relay *Relay
	h.Serve(func(s *rpc.Server) {
		for op, v := range map[string]msgpack.Map{
			"benchmark_disk":   msgpack.MapOf("1 kiB", 10.0, "1 MiB", 30),
			"benchmark_memory": msgpack.MapOf("2 kiB", 50.0),
		} {
			s.Handle(op, func(context.Context, *rpc.Request) (any, error) { return v, nil })
		}
		type none = struct{}
		rpc.Handle(s, "benchmark_hardware", func(ctx context.Context, r *rpc.Request, in none) (msgpack.Map, error) {
			return relay.hardwareRPC(ctx, r, in)
		})
	})
	pool, address := h.Pool()
	relay = NewRelay(RelayHost{Loop: h.Loop, Log: h.Log, State: h.State, Workers: workers, Pool: pool})
	h.Do(func() {
		for i := range n {
			w := &peers.Worker{Address: address, Name: fmt.Sprint(i), Alias: fmt.Sprint(i)}
			w.ID = h.AddWorker(w.Address, w)
			workers.Add(w)
		}
	})
	return h
}

func TestHardware(t *testing.T) {
	h := hardwareRig(t, 1)
	m := h.Call("benchmark_hardware").(msgpack.Map)
	if got := fmt.Sprint(m); got != "[{disk [{1 kiB 10} {1 MiB 30}]} {memory [{2 kiB 50}]} {network []}]" {
		t.Errorf("one worker: got %s", got)
	}
	h = hardwareRig(t, 0)
	if got := fmt.Sprint(h.Call("benchmark_hardware")); got != "[{disk []} {memory []} {network []}]" {
		t.Errorf("no workers: got %s", got)
	}
}

func TestMeans(t *testing.T) {
	var m means
	for _, v := range []msgpack.Map{msgpack.MapOf("a", 1.0, "b", int64(4)), msgpack.MapOf("b", 8.0, "a", 3.0),
		msgpack.MapOf("c", 7.0)} {
		if err := m.add(v); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(m.values()); got != "[{a 2} {b 6} {c 7}]" {
		t.Errorf("means: got %s", got)
	}
	many := msgpack.Map{}
	for i := range maxNames + 1 {
		many = append(many, msgpack.Pair{Key: fmt.Sprint(i), Value: 1.0})
	}
	for text, v := range map[string]any{
		"want a map":             "text",
		"want a size":            msgpack.MapOf("a", "fast"),
		"want a size and bytes":  msgpack.Map{{Key: 1, Value: 1.0}},
		"more than 100 sizes":    many,
		"bytes per second":       nil,
		"got a: NaN, want a":     msgpack.MapOf("a", nan()),
		"got a: +Inf, want a si": msgpack.MapOf("a", 1/zero()),
	} {
		if err := new(means).add(v); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: got error %v, want %q", v, err, text)
		}
	}
}

func zero() float64 { return 0 }
func nan() float64  { return zero() / zero() }
