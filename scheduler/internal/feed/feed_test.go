package feed

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/history"
	"go.millstream.dev/scheduler/internal/peers"
)

// rig is a Feed with its store and workers.
type rig struct {
	*Feed
	store   *spans.Store
	workers map[string]*peers.Worker
	now     time.Time
	t       testing.TB
}

func newRig(t testing.TB) *rig {
	t.Helper()
	store, err := spans.Open(spans.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{store: store, now: time.Now(), t: t, workers: map[string]*peers.Worker{}}
	for _, name := range []string{"tcp://a", "tcp://b", "tcp://python"} {
		r.workers[name] = &peers.Worker{Address: name, Name: strings.TrimPrefix(name, "tcp://"), Incarnation: "x"}
	}
	r.workers["tcp://python"].Incarnation = ""
	r.Feed = New(store, func(address string) *peers.Worker { return r.workers[address] })
	r.Begin(r.now)
	t.Cleanup(func() {
		r.Feed.Close()
		r.Feed.Close() // twice
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// seconds returns a time before now in seconds since 1970.
func (r *rig) seconds(before float64) float64 { return float64(r.now.UnixNano())/1e9 - before }

// spans returns what the store has.
func (r *rig) spans() []spans.Span {
	r.t.Helper()
	r.Flush()
	if err := r.store.Sync(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return r.store.Spans(0, math.MaxInt64>>8, spans.AllRows, 1000)
}

// finished returns the message of a worker about a task with these parts.
func finished(t testing.TB, key any, parts ...message.Part) *message.TaskFinished {
	t.Helper()
	k, err := task.KeyOf(key)
	if err != nil {
		t.Fatal(err)
	}
	var b message.Buffer
	f := message.TaskFinished{Key: k, RunID: 1, Status: "OK", NBytes: 8, Thread: 5,
		StartStops: message.StartStops{Parts: parts}}
	f.Append(&b)
	ops := message.ReadOps(append(msgpack.AppendArrayHeader(nil, 1), b.Body...))
	var out message.TaskFinished
	if !ops.Next() {
		t.Fatalf("message: got none, error %v", ops.Err())
	}
	if err := out.Read(&ops); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestFinished(t *testing.T) {
	leak.Check(t)
	r := newRig(t)
	a := r.workers["tcp://a"]
	p := &state.Prefix{}
	r.Finished(a, finished(t, "x-1", message.Part{Action: "transfer", Start: r.seconds(4), Stop: r.seconds(3)},
		message.Part{Action: "disk-read", Start: r.seconds(3), Stop: r.seconds(2)},
		message.Part{Action: "compute", Start: r.seconds(2), Stop: r.seconds(1)},
		message.Part{Action: "deserialize", Start: r.seconds(1), Stop: r.seconds(0.5)},
		message.Part{Action: "disk-write", Start: r.seconds(0.5), Stop: r.seconds(0.25)}), p)
	r.Finished(a, finished(t, []any{"y", 1},
		message.Part{Action: "compute", Start: r.seconds(1), Stop: r.seconds(1)}), nil)
	list := r.spans()
	var got []string
	names := r.store.Names()
	for _, x := range list {
		got = append(got, names[x.Category]+" "+x.Key)
	}
	slices.Sort(got)
	want := []string{" x-1", "(unknown) ('y', 1)", "deserialize x-1", "disk-read x-1", "disk-write x-1", "waiting x-1"}
	if !slices.Equal(got, want) {
		t.Errorf("spans: got %q, want %q", got, want)
	}
	if n := r.Totals(); n.Finished != 2 || n.Invalid != 0 {
		t.Errorf("totals: got %+v, want 2 finished", n)
	}
	if p.Tag == 0 || a.Recorded.ID == 0 {
		t.Errorf("IDs of the store: got %d and %d, want them kept", p.Tag, a.Recorded.ID)
	}
	for _, row := range r.store.Rows() {
		if row.Worker != "tcp://a" || row.Name != "a" {
			t.Errorf("row: got %+v, want worker a", row)
		}
	}
}

// Threads wait for data while it is transferred, for memory while their worker is paused, otherwise for a slot.
func TestWaits(t *testing.T) {
	leak.Check(t)
	r := newRig(t)
	a := r.workers["tcp://a"]
	compute := func(start, stop float64) message.Part {
		return message.Part{Action: "compute", Start: r.seconds(start), Stop: r.seconds(stop)}
	}
	slot := finished(t, "slot-1", compute(8, 7))
	slot.Waited = 1
	r.Finished(a, slot, nil)
	both := finished(t, "both-1", message.Part{Action: "transfer", Start: r.seconds(6.5), Stop: r.seconds(6)},
		message.Part{Action: "disk-read", Start: r.seconds(5), Stop: r.seconds(4)}, compute(4, 3))
	both.Waited = 1
	r.Finished(a, both, nil)
	r.Begin(r.now.Add(-3 * time.Second))
	r.Status(a, true)
	r.Begin(r.now.Add(-time.Second))
	r.Status(a, false)
	r.Begin(r.now)
	memory := finished(t, "memory-1", compute(1, 0.5))
	memory.Waited = 2
	r.Finished(a, memory, nil)
	for _, v := range []float64{math.NaN(), math.Inf(1), -1, 1e300} { // of a hostile worker
		hostile := finished(t, "hostile-1", compute(0.4, 0.3))
		hostile.Waited = v
		r.Finished(a, hostile, nil)
	}
	names := r.store.Names()
	got := map[string]time.Duration{}
	for _, x := range r.spans() {
		if name := names[x.Category]; x.Key != "" && (strings.HasPrefix(name, "wait") || name == "paused") {
			got[x.Key+" "+name] += time.Duration(x.Stop-x.Start) * time.Microsecond
		}
	}
	want := map[string]time.Duration{"slot-1 waiting-slot": time.Second, "both-1 waiting": 500 * time.Millisecond,
		"both-1 waiting-slot": time.Second, "memory-1 paused": 2 * time.Second}
	for k, d := range want {
		if diff := got[k] - d; diff < -time.Millisecond || diff > time.Millisecond {
			t.Errorf("%s: got %v, want %v", k, got[k], d)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A Dask worker reports the peer of a transfer with the task that needed the data.
func TestDaskTransfer(t *testing.T) {
	leak.Check(t)
	r := newRig(t)
	f := finished(t, "x-1", message.Part{Action: "compute", Start: r.seconds(2), Stop: r.seconds(1)})
	raw, err := msgpack.Append(nil, []any{
		msgpack.MapOf("action", "transfer", "start", r.seconds(4), "stop", r.seconds(3), "source", "tcp://b"),
		msgpack.MapOf("action", "compute", "start", r.seconds(2), "stop", r.seconds(1)),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.StartStops.Raw = raw
	r.Finished(r.workers["tcp://python"], f, nil)
	list := r.spans()
	if len(list) != 3 || list[0].Category != spans.Transfer || list[0].Peer != "tcp://b" ||
		list[0].Transport != "tcp" || list[0].Flags != spans.FlagIncoming || list[1].Category != spans.Waiting {
		t.Errorf("spans: got %+v, want a transfer from b first, then the wait for it", list)
	}
	if b := r.Bandwidth(); len(b.Pairs) != 1 || b.Pairs[0].From != "tcp://b" || b.Pairs[0].To != "tcp://python" {
		t.Errorf("pairs: got %+v, want one from b", b.Pairs)
	}
}

// Times that cannot be, and malformed parts, are left out; the clock of a worker may differ.
func TestHostileTimes(t *testing.T) {
	leak.Check(t)
	r := newRig(t)
	a := r.workers["tcp://a"]
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range [][2]float64{{nan, nan}, {1, inf}, {-inf, inf}, {r.seconds(1), r.seconds(2)}, {0, 0}, {-1, 1},
		{1e300, 1e301}, {1, r.seconds(0)}, {r.seconds(1), r.seconds(-3600)}} {
		r.Finished(a, finished(t, "x", message.Part{Action: "compute", Start: c[0], Stop: c[1]}), nil)
	}
	for _, raw := range []string{"\x92", "\x92\xc0\xc0", "\x93\x81\xa6action\xa8transfer", "\xdd\xff\xff\xff\xff\x80",
		"\x92\x82\xa6action\xa9disk-read\xa5start\xa1x\x80", strings.Repeat("\xdc", maxPartBytes+1)} {
		f := finished(t, "y", message.Part{Action: "compute", Start: r.seconds(2), Stop: r.seconds(1)})
		f.StartStops.Raw = message.Raw(raw)
		r.Finished(a, f, nil)
	}
	list := r.spans()
	if len(list) != 6 {
		t.Errorf("spans: got %d, %+v, want the 6 with possible times", len(list), list)
	}
	if n := r.Totals().Invalid; n != 11 {
		t.Errorf("invalid: got %d, want 9 runs and 2 parts", n)
	}
	a.Delay = 3600 // an hour behind
	r.Finished(a, finished(t, "z", message.Part{Action: "compute", Start: r.seconds(3602), Stop: r.seconds(3601)}), nil)
	if list = r.spans(); len(list) != 7 || list[6].Stop-list[6].Start < 999_000 {
		t.Errorf("worker whose clock is behind: got %+v", list)
	}
	long := finished(t, strings.Repeat("k", 10*maxKey),
		message.Part{Action: "compute", Start: r.seconds(2), Stop: r.seconds(1)})
	a.Delay = 0
	r.Finished(a, long, nil)
	for _, x := range r.spans() {
		if len(x.Key) > maxKey {
			t.Errorf("key: got %d bytes, want at most %d", len(x.Key), maxKey)
		}
	}
}

func FuzzParts(f *testing.F) {
	f.Add([]byte("\x92\x83\xa6action\xa9disk-read\xa5start\xcb\x41\xd9\x00\x00\x00\x00\x00\x00\xa4stop\x01\x80"))
	f.Add([]byte("\x91\x81\xa6source\xa3tcp"))
	r := newRig(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := r.Feed.n
		r.parts(r.workers["tcp://a"], 1, []byte("k"), raw, 0)
		if n := r.Feed.n - before; n > maxParts {
			t.Errorf("parts: got %d, want at most %d", n, maxParts)
		}
	})
}

// transfers returns a report with one transfer.
func transfers(list ...history.Transfer) history.TransferReport {
	return history.TransferReport{List: list}
}

// The incoming end of a transfer is recorded; the outgoing one only if no Millstream worker reports the other.
func TestTransfers(t *testing.T) {
	leak.Check(t)
	r := newRig(t)
	a, b := r.workers["tcp://a"], r.workers["tcp://b"]
	one := history.Transfer{Peer: "tcp://b", Incoming: true, Scheme: "ucxx", Transport: "cma", Bytes: 100, Keys: 2,
		Start: r.seconds(3), Duration: 1}
	short, out, python, client := one, one, one, one
	short.Transport, short.Bytes = "", 1 // of the same connection
	out.Peer, out.Incoming = "tcp://a", false
	python.Peer, python.Incoming, python.Scheme, python.Transport = "tcp://python", false, "tcp", ""
	client.Peer, client.Incoming, client.Scheme, client.Transport = "tcp://client", false, "tls", ""
	r.Transfers(a, transfers(one, short, python, client))
	r.Transfers(b, transfers(out))
	list := r.spans()
	if len(list) != 4 || list[0].Bytes != 100 || list[0].Keys != 2 || list[0].Transport != "cma" {
		t.Errorf("spans: got %+v, want 4", list)
	}
	m := r.Bandwidth()
	var got []string
	for _, p := range m.Pairs {
		got = append(got, p.From+" "+p.To+" "+p.Transport)
	}
	want := []string{"tcp://a tcp://client tls", "tcp://a tcp://python tcp", "tcp://b tcp://a cma"}
	if !slices.Equal(got, want) || m.Pairs[2].Bytes != 101 || m.Pairs[2].Count != 2 || m.Pairs[2].Rate != 50.5 {
		t.Errorf("pairs: got %+v, want %v", m.Pairs, want)
	}
	if n := m.Transports["cma"]; n.Bytes != 101 || n.Count != 2 || n.Seconds != 2 {
		t.Errorf("cma: got %+v, want 101 bytes in 2 transfers", n)
	}
	if n := r.Totals().Moved; len(n) != 1 || n["cma"] != 101 {
		t.Errorf("moved: got %v, want 101 bytes over cma", n)
	}
	if !slices.Equal(a.Recorded.Transports, []string{"cma", "tcp", "tls"}) {
		t.Errorf("transports of a: got %v", a.Recorded.Transports)
	}
	r.Forget("tcp://a")
	if m := r.Bandwidth(); len(m.Pairs) != 0 {
		t.Errorf("pairs after Forget: got %+v, want none", m.Pairs)
	}
}

// Workers choose the names of transports and peers; they are bounded.
func TestHostileNames(t *testing.T) {
	leak.Check(t)
	r := newRig(t)
	a := r.workers["tcp://a"]
	for i := range 2 * maxPeers {
		n := strings.Repeat("x", i%100) + string(rune('a'+i%26)) + time.Duration(i).String()
		r.Transfers(a, transfers(history.Transfer{Peer: n, Incoming: true, Scheme: n, Start: r.seconds(2),
			Duration: 1}))
	}
	if n := len(r.pairs.peers); n > maxPeers+1 {
		t.Errorf("peers: got %d, want at most %d", n, maxPeers+1)
	}
	if n := len(r.pairs.transports); n > maxTransports+1 {
		t.Errorf("transports: got %d, want at most %d", n, maxTransports+1)
	}
	if n := len(a.Recorded.Transports); n > maxOfWorker {
		t.Errorf("transports of a worker: got %d, want at most %d", n, maxOfWorker)
	}
	if n := len(r.totals.Moved); n > maxTransports+1 {
		t.Errorf("totals: got %d, want at most %d", n, maxTransports+1)
	}
}

// failures returns the failures in the store.
func (r *rig) failures() []dashboard.Failure {
	r.t.Helper()
	r.writer.close()
	var list []dashboard.Failure
	for _, e := range r.store.Events(0) {
		var f dashboard.Failure
		if err := json.Unmarshal(e.JSON, &f); err != nil || e.Kind != dashboard.FailureEvent {
			r.t.Fatalf("event: got %s %s, error %v", e.Kind, e.JSON, err)
		}
		list = append(list, f)
	}
	return list
}

func TestFailures(t *testing.T) {
	leak.Check(t)
	r := newRig(t)
	a := r.workers["tcp://a"]
	key, err := task.KeyOf("x-1")
	if err != nil {
		t.Fatal(err)
	}
	m := &message.TaskErred{Key: key, Thread: 5, ExceptionText: "boom", TracebackText: strings.Repeat("é", maxText),
		StartStops: message.StartStops{Start: r.seconds(2), Stop: r.seconds(1)}}
	r.Erred(a, m, nil, false)
	r.Erred(a, m, nil, true)
	r.Lost(a, "killed", false, 3, 2)
	r.Lost(a, "retired", true, 0, 0) // is none
	shared := &state.Failure{Kind: state.KilledWorker, Key: key, ExceptionText: "3 workers died", Cause: "oom"}
	for range 3 {
		r.KeyErred(r.now, &state.Action{Kind: state.KeyErred, Failure: shared})
	}
	r.KeyErred(r.now, &state.Action{Kind: state.KeyErred, Failure: &state.Failure{Kind: state.TaskFailed}})
	list := r.spans()
	if len(list) != 2 || list[0].Category != spans.Failed || list[0].Flags&spans.FlagError == 0 {
		t.Errorf("spans: got %+v, want 2 failed runs", list)
	}
	if n := r.Totals().Failures; n != 4 {
		t.Errorf("failures: got %d, want 4", n)
	}
	got := r.failures()
	want := []dashboard.Failure{
		{Kind: "task-erred", Worker: "tcp://a", Key: "x-1", Cause: "boom", Text: strings.Repeat("é", maxText/2)},
		{Kind: "task-retried", Worker: "tcp://a", Key: "x-1", Cause: "boom", Text: strings.Repeat("é", maxText/2)},
		{Kind: "worker-lost", Worker: "tcp://a", Cause: "killed", Text: `lost: {"processing":3,"results":2}`},
		{Kind: "task-erred", Key: "x-1", Cause: "3 workers died", Text: "oom"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("failures: got %+v, want %+v", got, want)
	}
}

func TestPaused(t *testing.T) {
	leak.Check(t)
	r := newRig(t)
	a, b := r.workers["tcp://a"], r.workers["tcp://b"]
	r.Status(a, false)
	r.Status(a, true)
	r.Status(b, true)
	r.Begin(r.now.Add(time.Second))
	r.Status(a, true)
	r.Status(a, false)
	r.Lost(b, "killed", false, 0, 0)
	list := r.spans()
	if len(list) != 2 || list[0].Category != spans.Paused || list[0].Stop-list[0].Start != 1e6 ||
		list[1].Stop-list[1].Start != 1e6 {
		t.Errorf("spans: got %+v, want 2 pauses of a second", list)
	}
}

func TestSamples(t *testing.T) {
	leak.Check(t)
	r := newRig(t)
	a, b := r.workers["tcp://a"], r.workers["tcp://b"]
	a.Recorded.RSS, a.Recorded.Managed, a.Recorded.CPU = 100, 50, 75
	b.Recorded.RSS, b.Recorded.Spilled = 10, 5
	workers := slices.Values([]*peers.Worker{a, b})
	r.Tick(r.now, workers)
	r.totals.Finished, r.totals.Moved["cma"] = 20, 4000
	r.Tick(r.now.Add(sampleInterval/2), workers) // is none
	r.Tick(r.now.Add(2*time.Second), workers)
	r.writer.close()
	got := r.store.Series(0, math.MaxInt64>>8, 1000)
	for name, want := range map[string]float64{SeriesMemory: 110, SeriesManaged: 50, SeriesSpilled: 5, SeriesCPU: 75,
		SeriesRate: 10, SeriesMoved: 2000} {
		if list := got[name]; len(list) == 0 || list[len(list)-1].V != want {
			t.Errorf("%s: got %v, want %g", name, list, want)
		}
	}
}

// Without a dashboard nothing happens.
func TestNil(t *testing.T) {
	var f *Feed
	w := &peers.Worker{Address: "tcp://a"}
	f.Begin(time.Now())
	f.Finished(w, &message.TaskFinished{}, nil)
	f.Erred(w, &message.TaskErred{}, nil, false)
	f.Transfers(w, history.TransferReport{})
	f.Status(w, true)
	f.Lost(w, "", false, 0, 0)
	f.LostData(time.Now(), &state.Action{})
	f.KeyErred(time.Now(), &state.Action{})
	f.Tick(time.Now(), nil)
	f.Forget("x")
	f.Flush()
	f.Close()
	if b, n := f.Bandwidth(), f.Totals(); len(b.Pairs) != 0 || n.Finished != 0 {
		t.Errorf("got %+v, %+v, want nothing", b, n)
	}
	if w.Recorded.Paused != 0 {
		t.Error("paused worker without a dashboard: got a record")
	}
}

// The loop spends no memory for a finished task.
func TestFinishedAllocates(t *testing.T) {
	r := newRig(t)
	a := r.workers["tcp://a"]
	p := &state.Prefix{}
	m := finished(t, "x-0123456789abcdef", message.Part{Action: "compute", Start: r.seconds(2), Stop: r.seconds(1)})
	run := func() {
		for range 100 {
			r.Finished(a, m, p)
		}
	}
	for range 10 * batchSpans / 100 {
		run()
	}
	if got := testing.AllocsPerRun(100, run); got > 20 { // the store, which copies spans meanwhile, has some
		t.Errorf("100 finished tasks: got %g allocations, want a few of the store at most", got)
	}
}

func BenchmarkFinished(b *testing.B) {
	r := newRig(b)
	a := r.workers["tcp://a"]
	p := &state.Prefix{}
	m := finished(b, "x-0123456789abcdef", message.Part{Action: "compute", Start: r.seconds(2), Stop: r.seconds(1)})
	b.ReportAllocs()
	for b.Loop() {
		r.Begin(r.Feed.sampled)
		r.Feed.now = r.now.UnixNano()
		r.Finished(a, m, p)
	}
}
