package worker_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"go.millstream.dev/internal/proc/hostid"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/ucx"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// A worker reports its location, its resources and its last transfers: first none, then the one it fetched.
func TestDiagnosis(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	a, _ := d.worker(t, worker.Config{})
	b, _ := d.worker(t, worker.Config{DataConnections: worker.DataConnections{Trusted: true},
		GPU: &task.Device{UUID: "GPU-1234"}})
	ask := func(w *worker.Worker) worker.Diagnosis {
		t.Helper()
		var g worker.Diagnosis
		d.call(t, w.Address(), worker.DiagnosisOp, nil, &g)
		return g
	}
	first := ask(b)
	ipc, _ := os.Readlink("/proc/self/ns/ipc")
	pid, _ := os.Readlink("/proc/self/ns/pid")
	if first.Boot != hostid.Boot() || first.IPC != ipc || first.PID != pid || !strings.HasPrefix(first.IPC, "ipc:[") {
		t.Errorf("place: %+v", first)
	}
	if !first.Trusted || ask(a).Trusted || first.GPU != "GPU-1234" || ask(a).GPU != "" ||
		first.Registry != task.Hash() || len(first.Transfers) != 0 {
		t.Errorf("%+v", first)
	}
	if available := ucx.Available() == nil; available != (first.UCX == "") {
		t.Errorf("UCX %q", first.UCX)
	}
	big := bytes.Repeat([]byte("m"), 2<<20)
	d.call(t, a.Address(), "update_data", msgpack.MapOf("data", msgpack.Map{{Key: "big",
		Value: wire.Serialize{Value: big}}}), nil)
	d.call(t, b.Address(), "gather", msgpack.MapOf("who_has", msgpack.MapOf("big", []any{a.Address()})), nil)
	got := ask(b).Transfers
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	if x := got[0]; x.Peer != a.Address() || !x.Incoming || x.Scheme != "tcp" || x.Bytes < int64(len(big)) ||
		x.Device != 0 || x.Seconds <= 0 || len(x.Transports) != 0 || x.Error != "" {
		t.Errorf("%+v", x)
	}
	until(t, "the acknowledgement has arrived", func() bool { return len(a.Transfers()) == 1 })
	if other := ask(a).Transfers; len(other) != 1 || other[0].Incoming || other[0].Bytes < int64(len(big)) {
		t.Errorf("worker that served: got %+v", other)
	}
}

// Only the last transfers are reported, oldest first.
func TestDiagnosisIsShort(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	a, _ := d.worker(t, worker.Config{})
	d.call(t, a.Address(), "update_data", msgpack.MapOf("data", msgpack.Map{{Key: "n", Value: 5}}), nil)
	for range 100 {
		d.fetch(t, a.Address(), "n")
	}
	until(t, "all transfers are recorded", func() bool { return len(a.Transfers()) == 100 })
	var g worker.Diagnosis
	d.call(t, a.Address(), worker.DiagnosisOp, nil, &g)
	if len(g.Transfers) != 64 || len(a.Transfers()) != 100 {
		t.Errorf("got %d transfers of %d, want 64 of 100", len(g.Transfers), len(a.Transfers()))
	}
}
