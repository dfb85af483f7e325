package spans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"go.millstream.dev/internal/testkit/leak"
)

// origin is that of the histories of tests.
var origin = time.Unix(1_700_000_000, 0)

// later is a clock that is ahead of all spans of tests.
func later() time.Time { return origin.Add(10 * 365 * 24 * time.Hour) }

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	if cfg.Origin.IsZero() {
		cfg.Origin = origin
	}
	if cfg.Now == nil {
		cfg.Now = later
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func syncStore(t rapid.TB, s *Store) {
	t.Helper()
	if err := s.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// ns returns the Unix time of µs since the origin.
func ns(us int64) int64 { return origin.UnixNano() + us*1000 }

func TestQueries(t *testing.T) {
	leak.Check(t)
	s := open(t, Config{})
	a, b := s.Worker("tcp://a:1", "alice"), s.Worker("tcp://b:1", "bob")
	inc, tcp := s.Prefix("inc"), s.Transport("tcp")
	var batch Batch
	batch.Task(a, 77, []byte("k1"), inc, ns(1000), ns(3000), 10, 0)
	batch.Part(a, 77, []byte("k1"), Deserialize, ns(500), ns(1000))
	batch.Task(a, 78, []byte("k2"), inc, ns(1500), ns(2000), 20, FlagError)
	batch.Transfer(a, b, true, tcp, 1<<20, 3, ns(100), ns(400))
	batch.Transfer(a, b, true, tcp, 1<<10, 1, ns(200), ns(300))
	batch.Disk(b, []byte("k3"), true, 5, ns(5000), ns(6000))
	batch.Paused(b, ns(5500), ns(7000))
	if got := s.Put(&batch); got.Len() != 0 {
		t.Errorf("Put returned a batch of %d spans, want an empty one", got.Len())
	}
	syncStore(t, s)

	wantRows := []Row{
		{0, "tcp://a:1", "alice", ThreadRow, 0}, {1, "tcp://a:1", "alice", ThreadRow, 1},
		{2, "tcp://a:1", "alice", TransferRow, 0}, {3, "tcp://a:1", "alice", TransferRow, 1},
		{4, "tcp://b:1", "bob", DiskRow, 0}, {5, "tcp://b:1", "bob", DiskRow, 1},
	}
	if got := s.Rows(); !slices.Equal(got, wantRows) {
		t.Errorf("rows: got %v, want %v", got, wantRows)
	}
	if got, want := s.Names(), append(slices.Clone(fixedNames[:]), "inc"); !slices.Equal(got, want) {
		t.Errorf("names: got %q, want %q", got, want)
	}
	wantMeta := Meta{Origin: origin.UnixMicro(), First: 100, Last: 7000, Spans: 7, Rows: 6, Names: 10}
	if got := s.Meta(); got != wantMeta {
		t.Errorf("meta: got %+v, want %+v", got, wantMeta)
	}
	want := []Span{
		{Row: 2, Category: Transfer, Flags: FlagIncoming, Start: 100, Stop: 400, Bytes: 1 << 20, Keys: 3,
			Peer: "tcp://b:1", Transport: "tcp"},
		{Row: 3, Category: Transfer, Flags: FlagIncoming, Start: 200, Stop: 300, Bytes: 1 << 10, Keys: 1,
			Peer: "tcp://b:1", Transport: "tcp"},
		{Row: 0, Category: Deserialize, Start: 500, Stop: 1000, Key: "k1"},
		{Row: 0, Category: FirstPrefix, Start: 1000, Stop: 3000, Key: "k1", Bytes: 10},
		{Row: 1, Category: Failed, Flags: FlagError, Start: 1500, Stop: 2000, Key: "k2", Bytes: 20},
		{Row: 4, Category: DiskWrite, Start: 5000, Stop: 6000, Key: "k3", Bytes: 5},
		{Row: 5, Category: Paused, Start: 5500, Stop: 7000},
	}
	if got := s.Spans(0, 1e6, AllRows, 100); !slices.Equal(got, want) {
		t.Errorf("spans: got %+v, want %+v", got, want)
	}
	if got := s.Spans(2999, 5001, Range{0, 5}, 100); !slices.Equal(got, []Span{want[3], want[5]}) {
		t.Errorf("spans of a part: got %+v, want %+v", got, []Span{want[3], want[5]})
	}
	if got := s.Spans(0, 1e6, AllRows, 2); !slices.Equal(got, want[:2]) {
		t.Errorf("first spans: got %+v, want %+v", got, want[:2])
	}
	var each []Span
	if err := s.Each(func(sp Span) error { each = append(each, sp); return nil }); err != nil || len(each) != 7 {
		t.Errorf("each: got %d spans, %v, want 7", len(each), err)
	}
	stop := errors.New("stop")
	if err := s.Each(func(Span) error { return stop }); err != stop {
		t.Errorf("each: got %v, want the error of the function", err)
	}

	sum := s.Summary(0, 2000, AllRows)
	if got, want := sum.Categories[FirstPrefix], (Total{1, 0.001, 10}); got != want {
		t.Errorf("summary of inc: got %v, want %v", got, want)
	}
	tr := sum.Transports["tcp"]
	if tr.Count != 2 || tr.Bytes != 1<<20+1<<10 || math.Abs(tr.Seconds-400e-6) > 1e-12 {
		t.Errorf("summary of tcp: got %v", tr)
	}
}

// The wait of a task is kept as far as its thread was idle, and not at all if that is short.
func TestWait(t *testing.T) {
	leak.Check(t)
	s := open(t, Config{})
	w, inc := s.Worker("tcp://a:1", "alice"), s.Prefix("inc")
	var batch Batch
	batch.Task(w, 1, []byte("k1"), inc, ns(1000), ns(3000), 0, 0)
	batch.Wait(w, 1, []byte("k2"), Waiting, ns(2000), ns(4000))
	batch.Wait(w, 1, []byte("k2"), WaitingSlot, ns(3500), ns(5000))
	batch.Task(w, 1, []byte("k2"), inc, ns(5000), ns(6000), 0, 0)
	batch.Wait(w, 1, []byte("k3"), Waiting, ns(5500), ns(6050)) // 50 µs of it idle
	batch.Wait(w, 2, []byte("k4"), Paused, ns(5000), ns(5500))  // another thread
	batch.Wait(w, 2, []byte("k4"), Paused, ns(5100), ns(5400))  // covered
	batch.Wait(w, 2, []byte("k4"), Transfer, ns(6000), ns(7000))
	s.Put(&batch)
	syncStore(t, s)
	want := []Span{
		{Row: 0, Category: FirstPrefix, Start: 1000, Stop: 3000, Key: "k1"},
		{Row: 0, Category: Waiting, Start: 3000, Stop: 4000, Key: "k2"},
		{Row: 0, Category: WaitingSlot, Start: 4000, Stop: 5000, Key: "k2"},
		{Row: 0, Category: FirstPrefix, Start: 5000, Stop: 6000, Key: "k2"},
		{Row: 1, Category: Paused, Start: 5000, Stop: 5500, Key: "k4"},
	}
	got := s.Spans(0, 10_000, AllRows, 100)
	slices.SortFunc(got, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Start, b.Start))
	})
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if m := s.Meta(); m.Spans != int64(len(want)) || m.Dropped != 1 {
		t.Errorf("got %d spans, %d dropped, want %d, 1", m.Spans, m.Dropped, len(want))
	}
}

func TestTile(t *testing.T) {
	leak.Check(t)
	s := open(t, Config{})
	w := s.Worker("w", "")
	x, y := s.Prefix("x"), s.Prefix("y")
	b := new(Batch)
	b.Task(w, 0, nil, x, ns(0), ns(512), 0, 0)      // buckets 0 and 1 of level 8
	b.Task(w, 0, nil, y, ns(512), ns(512+64), 0, 0) // a quarter of bucket 2
	b.Task(w, 2, nil, y, ns(65535), ns(65536), 0, 0)
	b = s.Put(b)
	syncStore(t, s)
	px, py := uint8(x), uint8(y)
	for _, test := range []struct {
		level, index int64
		rows         Range
		group        int
		want         []byte
	}{
		{8, 0, AllRows, 0, []byte{0, 3, 2, px, 255, 1, py, 64, 253, 1, 0, 0, 1, 2, 255, 1, 0, 0, 1, py, 1}},
		{8, 0, Range{1, 2}, 0, []byte{0, 2, 255, 1, 0, 0, 1, py, 1}},
		{8, 0, AllRows, 1, []byte{0, 4, 2, px, 128, 1, py, 32, 252, 1, 0, 0, 1, py, 1}},
		{9, 0, AllRows, 0, []byte{0, 3, 1, px, 255, 1, py, 32, 254, 1, 0, 0, 1, 3, 127, 0, 0, 1, py, 1, 128, 1, 0, 0}},
		{8, 1, AllRows, 0, nil},
		{41, 0, AllRows, 0, nil},
		{-1, 0, AllRows, 0, nil},
		{8, -1, AllRows, 0, nil},
		{40, 1, AllRows, 0, nil},
		{8, 0, Range{5, 9}, 0, nil},
	} {
		for range 2 { // from the cache, too
			if got := tileOf(t, s, test.level, test.index, test.rows, test.group); !slices.Equal(got, test.want) {
				t.Errorf("tile %d/%d rows %v group %d: got %v, want %v", test.level, test.index, test.rows, test.group,
					got, test.want)
			}
		}
	}
	// A tile that is cached changes with a span, others stay.
	b.Task(w, 2, nil, y, ns(65536), ns(65536*2), 0, 0)
	s.Put(b)
	syncStore(t, s)
	if got, want := tileOf(t, s, 8, 1, AllRows, 0), []byte{1, 1, 128, 2, py, 255}; !slices.Equal(got, want) {
		t.Errorf("tile after a span: got %v, want %v", got, want)
	}
}

func TestHostileTimes(t *testing.T) {
	leak.Check(t)
	now := time.Unix(1_800_000_000, 0)
	s, err := Open(Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := s.Worker("w", "")
	p := s.Prefix("p")
	at := now.UnixNano()
	b := new(Batch)
	for _, times := range [][2]int64{
		{at, at - 1}, {-1, at}, {math.MinInt64, math.MaxInt64}, {math.MaxInt64, math.MaxInt64}, {0, 0},
		{at, at + int64(time.Hour)}, {at - int64(3*time.Hour), at - int64(2*time.Hour)},
	} {
		b.Task(w, 0, nil, p, times[0], times[1], -5, 0)
	}
	hostile := int64(b.Len())
	b.Task(w, 0, nil, p, 0, at-int64(50*time.Minute), 1, 0) // cut
	b.Task(w, 0, nil, p, at, at+100, math.MinInt64, 0)      // less than a µs
	b.Task(w, 0, make([]byte, maxKey+1), p, at, at+1, 1, 0) // key too long
	b.Part(w, 0, nil, Paused, at, at+1)                     // no part
	b.Task(w+1, 0, nil, p, at, at+1, 1, 0)                  // unknown worker
	hostile += 3
	s.Put(b)
	syncStore(t, s)
	m := s.Meta()
	if m.Spans != 2 || m.Dropped != hostile {
		t.Errorf("got %d spans and %d dropped, want 2 and %d", m.Spans, m.Dropped, hostile)
	}
	// A clock that is 50 minutes late does not stretch the overview.
	if first, want := m.Origin+m.First, now.Add(-time.Minute).UnixMicro(); first != want {
		t.Errorf("first: got %d, want %d", first, want)
	}
	if last, want := m.Origin+m.Last, now.UnixMicro()+1; last != want {
		t.Errorf("last: got %d, want %d", last, want)
	}
}

func TestBounds(t *testing.T) {
	leak.Check(t)
	s := open(t, Config{})
	for i := range 300 {
		s.Prefix(fmt.Sprint("p", i))
	}
	if got := s.Names(); len(got) != 256 || got[254] != "p245" || got[255] != othersName {
		t.Errorf("got %d names that end with %q", len(got), got[254:])
	}
	if got := s.Prefix("p299"); got != uint32(Others) {
		t.Errorf("prefix without a category: got %d, want %d", got, Others)
	}
	for i := range maxTransports + 10 {
		s.Transport(fmt.Sprint(i))
	}
	for i := range maxWorkers + 10 {
		s.Worker(fmt.Sprint(i), "")
	}
	if got := s.Worker("more", ""); got != noWorker {
		t.Errorf("worker beyond the limit: got %d", got)
	}
	long := s.Worker(strings.Repeat("ü", 300), "")
	if long != noWorker {
		t.Errorf("worker with a long address: got %d", long)
	}
	b := new(Batch)
	for i := range maxThreads + 100 {
		b.Task(0, int64(i), nil, 8, ns(1), ns(2), 0, 0)
	}
	for range 100 {
		b.Transfer(0, 1, false, maxTransports+5, 1, 1, ns(1), ns(2))
	}
	b = s.Put(b)
	syncStore(t, s)
	if got, want := len(s.Rows()), maxThreads+transferSlots; got != want {
		t.Errorf("got %d rows, want %d", got, want)
	}
	for i := range 1 << 9 {
		for thread := range maxThreads {
			b.Task(uint32(i), int64(thread), nil, 8, ns(1), ns(2), 0, 0)
		}
		b = s.Put(b)
		syncStore(t, s)
	}
	if got := len(s.Rows()); got != maxRows {
		t.Errorf("got %d rows, want %d", got, maxRows)
	}
	if s.Meta().Dropped == 0 {
		t.Error("no span dropped")
	}
	if got := clip(strings.Repeat("ü", 300)); got != strings.Repeat("ü", 128) {
		t.Errorf("clip: got %d bytes %q", len(got), got)
	}
	if got := clip("x" + strings.Repeat("ü", 300)); got != "x"+strings.Repeat("ü", 127) {
		t.Errorf("clip: got %d bytes %q", len(got), got)
	}
}

func TestBatchBounds(t *testing.T) {
	var b Batch
	for range maxBatch + 7 {
		b.Paused(0, 1, 2)
	}
	if b.Len() != maxBatch || b.dropped != 7 {
		t.Errorf("got %d spans and %d dropped, want %d and 7", b.Len(), b.dropped, maxBatch)
	}
	b.reset()
	key := make([]byte, maxKey)
	for range maxKeys/maxKey + 3 {
		b.Disk(0, key, false, 1, 1, 2)
	}
	if b.Len() != maxKeys/maxKey || b.dropped != 3 {
		t.Errorf("got %d spans and %d dropped, want %d and 3", b.Len(), b.dropped, maxKeys/maxKey)
	}
}

// TestPutDoesNotBlock fills the queue while the store is busy.
func TestPutDoesNotBlock(t *testing.T) {
	leak.Check(t)
	s := open(t, Config{})
	w := s.Worker("w", "")
	s.mu.Lock()
	b := new(Batch)
	for range 4 * queueLength {
		b.Paused(w, ns(1), ns(2))
		b = s.Put(b)
	}
	s.mu.Unlock()
	syncStore(t, s)
	m := s.Meta()
	if m.Spans+m.Dropped != 4*queueLength || m.Spans < queueLength || m.Dropped == 0 {
		t.Errorf("got %d spans and %d dropped of %d", m.Spans, m.Dropped, 4*queueLength)
	}
}

func TestClose(t *testing.T) {
	leak.Check(t)
	s := open(t, Config{})
	b := new(Batch)
	b.Paused(s.Worker("w", ""), ns(1), ns(2))
	b = s.Put(b)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Meta().Spans; got != 1 {
		t.Errorf("got %d spans, want that which was put before Close", got)
	}
	b.Paused(0, ns(1), ns(2))
	s.Put(b)
	if got := s.Meta().Dropped; got != 1 {
		t.Errorf("got %d dropped, want that which was put after Close", got)
	}
	if err := s.Sync(context.Background()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Sync after Close: got %v, want %v", err, ErrClosed)
	}
}

func TestEvents(t *testing.T) {
	leak.Check(t)
	s := open(t, Config{})
	s.Event(origin.Add(2*time.Second), "b", []byte(`{"x":2}`))
	s.Event(origin.Add(time.Second), "a", []byte(`{"x":1}`))
	s.Event(origin.Add(-time.Second), "old", nil)
	s.Event(origin.Add(time.Second), "huge", make([]byte, maxEvent+1))
	got := s.Events(0)
	if len(got) != 2 || got[0].Kind != "a" || got[1].T != 2e6 || string(got[1].JSON) != `{"x":2}` {
		t.Errorf("got %v", got)
	}
	if got := s.Events(1e6 + 1); len(got) != 1 || got[0].Kind != "b" {
		t.Errorf("since 1 s: got %v, want b", got)
	}
	if got := s.Meta().Dropped; got != 2 {
		t.Errorf("got %d dropped, want 2", got)
	}
	for i := range maxEvents + 10 {
		s.Event(origin.Add(time.Minute+time.Duration(i)), "n", nil)
	}
	if got := s.Events(0); len(got) != maxEvents || got[0].Kind != "n" {
		t.Errorf("got %d events that begin with %q, want %d", len(got), got[0].Kind, maxEvents)
	}
	for range maxEventBytes/maxEvent + 1 {
		s.Event(origin.Add(time.Hour), "big", make([]byte, maxEvent))
	}
	if got := s.Events(0); len(got) != maxEventBytes/maxEvent {
		t.Errorf("got %d big events, want %d", len(got), maxEventBytes/maxEvent)
	}
}

func TestSeries(t *testing.T) {
	leak.Check(t)
	s := open(t, Config{})
	const n = 20_000 // seconds
	for i := range n {
		s.Sample(origin.Add(time.Duration(i)*time.Second+time.Second/2), "ramp", float64(i))
	}
	s.Sample(origin.Add(time.Second), "nan", math.NaN())
	for i := range 2 * maxSeries {
		s.Sample(origin.Add(time.Second), fmt.Sprint(i), 1)
	}
	if got, want := s.Meta().Dropped, int64(1+maxSeries+1); got != want {
		t.Errorf("got %d dropped, want %d", got, want)
	}
	for _, test := range []struct {
		from, to int64
		points   int
		few      int
	}{{(n - 100) * 1e6, n * 1e6, 100, 100}, {0, n * 1e6, 50, 50}, {(n - 3000) * 1e6, n * 1e6, 30, 30}} {
		list := s.Series(test.from, test.to, test.points)["ramp"]
		if len(list) < test.few || len(list) > 2*test.few+2 {
			t.Errorf("%v: got %d points, want about %d", test, len(list), test.few)
		}
		for i, p := range list {
			if math.Abs(float64(p.T)/1e6-0.5-p.V) > 1e-3 {
				t.Errorf("%v: point %d at %d: got %v", test, i, p.T, p.V)
			}
		}
	}
	if got := s.Series(5, 5, 10); len(got) != 0 {
		t.Errorf("empty range: got %v", got)
	}
	// A value that is late goes to its place.
	s.Sample(origin.Add((n-50)*time.Second), "ramp", float64(n-50)+0.5)
	if got := s.Series((n-50)*1e6, (n-49)*1e6, 1)["ramp"]; len(got) != 1 || got[0].V != n-50+0.25 {
		t.Errorf("late value: got %v, want the mean %v", got, n-50+0.25)
	}
}
