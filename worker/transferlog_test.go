package worker

import (
	"reflect"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// A report lists a thousand transfers and adds the others up; what a failed heartbeat took is reported again.
func TestTransferLog(t *testing.T) {
	var l transferLog
	if got := transferReport(l.take()); len(got) != 0 {
		t.Errorf("report of nothing: %v", got)
	}
	start := time.Unix(1_700_000_000, 0)
	one := Transfer{Peer: "tcp://b", Incoming: true, Lane: "tls", Keys: 2, Bytes: 10, Start: start, Took: 500 * time.Millisecond}
	l.add(&one)
	l.add(&Transfer{Peer: "tcp://b", Lane: "tls", Error: "busy"})
	want := msgpack.MapOf("millstream", msgpack.MapOf("transfers", []any{[]any{1.7e9, 1.7e9 + 0.5, int64(10), "tls", "tcp://b", "incoming", 2}}, "more-transfers", msgpack.Map{}))
	if got := transferReport(l.take()); !reflect.DeepEqual(got, want) {
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
	list, sums := l.take()
	if got, want := sums["tls"], (transferSum{7, 70, 3.5}); len(list) != maxReported || got != want || len(sums) != 1 {
		t.Errorf("%d transfers and %+v, want %d and %+v", len(list), sums, maxReported, want)
	}
}
