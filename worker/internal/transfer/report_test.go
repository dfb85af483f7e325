package transfer

import (
	"reflect"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// A report lists a thousand transfers and sums the others; transfers of a failed heartbeat are reported again.
func TestReport(t *testing.T) {
	var l reportLog
	if got := l.take().Extensions(); len(got) != 0 {
		t.Errorf("empty report: got %v", got)
	}
	start := time.Unix(1_700_000_000, 0)
	one := Record{Peer: "tcp://b", Incoming: true, Scheme: "tls", Keys: 2, Bytes: 10, Start: start,
		Took: 500 * time.Millisecond}
	l.add(&one)
	l.add(&Record{Peer: "tcp://b", Scheme: "tls", Error: "busy"})
	want := msgpack.MapOf("millstream", msgpack.MapOf("transfers", []any{[]any{1.7e9, 1.7e9 + 0.5, int64(10), "tls",
		"tcp://b", "incoming", 2, ""}}, "more-transfers", msgpack.Map{}))
	if got := l.take().Extensions(); !reflect.DeepEqual(got, want) {
		t.Errorf("report %v, want %v", got, want)
	}
	for range maxReported + 7 {
		l.add(&one)
	}
	out := one
	out.Incoming = false
	l.add(&out)
	for range 3 { // heartbeats that fail
		l.putBack(l.take())
	}
	last := l.take()
	list, sums := last.list, last.sums
	if got, want := sums["tls"], (sum{7, 70, 3.5}); len(list) != maxReported || got != want || len(sums) != 1 {
		t.Errorf("%d transfers and %+v, want %d and %+v", len(list), sums, maxReported, want)
	}
}

func TestTransport(t *testing.T) {
	for _, c := range []struct {
		transports []string
		device     int64
		want       string
	}{
		{nil, 0, ""},
		{[]string{"tcp"}, 0, "tcp"},
		{[]string{"sysv", "cma", "cuda_ipc"}, 0, "cma"},
		{[]string{"sysv", "cma", "cuda_ipc"}, 8, "cuda_ipc"},
		{[]string{"tcp", "rc_mlx5"}, 8, "rc_mlx5"},
		{[]string{"staged", "tcp"}, 8, "staged"},
		{[]string{"staged", "tcp"}, 0, "tcp"},
		{[]string{"rcx"}, 0, "rcx"},
	} {
		r := Record{Transports: c.transports, DeviceBytes: c.device}
		if got := r.Transport(); got != c.want {
			t.Errorf("transport of %v with %d bytes of a device: got %q, want %q", c.transports, c.device, got, c.want)
		}
	}
}
