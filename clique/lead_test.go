package clique

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestRecords: what Python keeps of a clique makes the same clique again.
func TestRecords(t *testing.T) {
	members := []Member{{Rank: 0, Worker: "tcp://a:1", Host: "tcp://a", GPU: -1},
		{Rank: 1, Worker: "tcp://b:1", GPU: 3, UUID: "GPU-1"}}
	q := &Clique{id: "id", members: members, backend: "shm+tcp", devices: "ucx", why: "as requested",
		opts: Options{Name: "n", Backend: UCX, Deterministic: true, Timeout: 1500 * time.Millisecond,
			Idle: time.Minute}}
	text, err := write(q.record())
	if err != nil {
		t.Fatal(err)
	}
	in, err := read[leadRequest]("test", text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := in.restore(nil)
	if err != nil {
		t.Fatal(err)
	}
	backend, why := got.Devices()
	if got.ID() != "id" || got.Size() != 2 || got.Backend() != "shm+tcp" || backend != UCX || why != q.why ||
		got.Members()[1] != members[1] || got.String() != "clique id of 2 ranks over shm+tcp" ||
		strings.Join(got.Workers(), " ") != "tcp://a:1 tcp://b:1" || got.Client() != nil {
		t.Errorf("%+v", got)
	}
	if o := got.opts; o.Name != "n" || o.Backend != UCX || !o.Deterministic || o.Timeout != q.opts.Timeout ||
		o.Idle != time.Minute {
		t.Errorf("options %+v, want %+v", o, q.opts)
	}
	changed := got.Members()
	if changed[0].Worker = "x"; got.Members()[0].Worker != "tcp://a:1" {
		t.Error("Members gives the clique's own list away")
	}
	for name, c := range map[string]struct {
		r    record
		want string
	}{
		"no id":      {record{Members: members}, "invalid clique id"},
		"no members": {record{ID: "id"}, "invalid record: 0 members"},
		"too many":   {record{ID: "id", Members: make([]Member, maxRanks+1)}, "invalid record: 16385 members"},
	} {
		if _, err := c.r.restore(nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestSeconds: times of Python are seconds; what is none is the default.
func TestSeconds(t *testing.T) {
	for s, want := range map[float64]time.Duration{0: 0, -1: 0, 1.5: 1500 * time.Millisecond, 1e9: 0, math.Inf(1): 0,
		1e-9: 1} {
		if got := seconds(s); got != want {
			t.Errorf("%v seconds are %v, want %v", s, got, want)
		}
	}
	if got := seconds(math.NaN()); got != 0 {
		t.Errorf("NaN seconds are %v", got)
	}
	for s, want := range map[float64]time.Duration{0: 2*defaultTimeout + undoTime, 1: 2*time.Second + undoTime} {
		if got := leadTime(leadRequest{record: record{Timeout: s}}); got != want {
			t.Errorf("a timeout of %v seconds: %v, want %v", s, got, want)
		}
	}
}

// TestTicketNumbers: tickets of a clique are numbered, and none twice.
func TestTicketNumbers(t *testing.T) {
	q := &Clique{id: "a.b"}
	for i := range uint32(20) {
		id, n, err := q.Ticket().parse()
		if id != "a.b" || n != i || err != nil {
			t.Errorf("ticket %d is %q and %d, %v", i, id, n, err)
		}
	}
}

// TestRequestTexts: requests are JSON of bounded length.
func TestRequestTexts(t *testing.T) {
	if _, err := read[idRequest]("f", "{"); err == nil || !strings.HasPrefix(err.Error(), "clique: f: ") {
		t.Errorf("%v", err)
	}
	if _, err := read[idRequest]("f", strings.Repeat(" ", maxRequest+1)); err == nil ||
		!strings.Contains(err.Error(), "33554433 bytes exceed the limit of 33554432") {
		t.Errorf("%v", err)
	}
	if in, err := read[idRequest]("f", `{"id":"x"}`); err != nil || in.ID != "x" {
		t.Errorf("%+v, %v", in, err)
	}
	if _, err := write(make(chan int)); err == nil {
		t.Error("a channel was written")
	}
}
