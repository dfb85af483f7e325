package peers

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/inproc"
	_ "go.millstream.dev/internal/comm/tcp"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/wire"
)

// Registrations are checked, and secrets are not kept in Extra.
func TestNewWorker(t *testing.T) {
	good := func() *Registration {
		return &Registration{
			Address: "tcp://10.0.0.1:1234", Threads: 2, Name: "w", MemoryLimit: 1e9,
			Resources: msgpack.MapOf("GPU", int64(2)),
			Extra: msgpack.MapOf("millstream", msgpack.MapOf("registry", "r", "death-token", "secret", "incarnation",
				"i", "python", true)),
		}
	}
	w, ev, err := NewWorker(good())
	if err != nil {
		t.Fatal(err)
	}
	if w.Host != "10.0.0.1" || w.Token != "secret" || w.Incarnation != "i" || fmt.Sprint(w.Extra) == "" ||
		strings.Contains(fmt.Sprint(w.Extra), "secret") {
		t.Errorf("worker: got %+v", w)
	}
	if ev.Threads != 2 || ev.MemoryLimit != 1e9 || ev.Can != state.Go|state.Python || ev.Registry != "r" ||
		len(ev.Resources) != 1 || ev.Status != state.StatusRunning || ev.Name != "w" {
		t.Errorf("event: got %+v", ev)
	}
	for what, change := range map[string]func(*Registration){
		"address":      func(r *Registration) { r.Address = "nowhere" },
		"nthreads":     func(r *Registration) { r.Threads = 0 },
		"status":       func(r *Registration) { r.Status = "asleep" },
		"name":         func(r *Registration) { r.Name = []any{"a"} },
		"memory_limit": func(r *Registration) { r.MemoryLimit = "much" },
		"resources":    func(r *Registration) { r.Resources = msgpack.MapOf("GPU", math.NaN()) },
	} {
		r := good()
		change(r)
		if _, _, err := NewWorker(r); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %v, want an error that names it", what, err)
		}
	}
	python := good()
	python.Extra, python.Name, python.Now = nil, nil, float64(time.Now().Unix())-5
	w, ev, err = NewWorker(python)
	if err != nil || ev.Can != state.Python || w.Name != w.Address || w.Token != "" || w.Delay < 4 || w.Delay > 60 {
		t.Errorf("Dask worker: got %+v, %+v, error %v", w, ev, err)
	}
	python.Name = int64(7)
	if w, ev, err = NewWorker(python); err != nil || ev.Name != "7" || w.Alias != "\x07" {
		t.Errorf("number as a name: got %+v, error %v", w, err)
	}
}

// Workers are found by address, name and alias, until they are removed.
func TestWorkers(t *testing.T) {
	h := hosttest.New(t)
	s := NewWorkers(h.State)
	h.Do(func() {
		add := func(address string, name any) *Worker {
			alias, _ := msgpack.Append(nil, name)
			w := &Worker{Address: address, Name: name, Alias: string(alias)}
			w.ID = h.AddWorker(address, w)
			s.Add(w)
			return w
		}
		a, b := add("tcp://10.0.0.1:1", "alice"), add("tcp://10.0.0.2:1", int64(3))
		for v, want := range map[any]*Worker{"tcp://10.0.0.1:1": a, "10.0.0.1:1": a, "alice": a, int64(3): b, "3": nil,
			"nobody": nil, 2.5: nil} {
			if got := s.Find(v); got != want {
				t.Errorf("Find(%v): got %v, want %v", v, got, want)
			}
		}
		if s.Named(a.Alias) != a || s.Named("x") != nil || s.ByID(b.ID) != b || s.ByID(99) != nil || s.ByID(-1) != nil {
			t.Error("Named or ByID: got the wrong worker")
		}
		names := func(list []any) (out []string) {
			s.Each(list, func(w *Worker, sw *state.Worker) { out = append(out, sw.Address()) })
			return out
		}
		if got := names(nil); len(got) != 2 {
			t.Errorf("all workers: got %v, want 2", got)
		}
		if got := names([]any{int64(3), "nobody"}); len(got) != 1 || got[0] != b.Address {
			t.Errorf("workers by name: got %v, want b", got)
		}
		h.Apply(&state.RemoveWorker{Worker: a.ID})
		if s.ByID(a.ID) != a {
			t.Error("ByID of a removed worker: got another one")
		}
		s.Remove(a)
		if s.Find("alice") != nil || s.Named(a.Alias) != nil || len(s.ByAddress) != 1 {
			t.Error("removed worker: found")
		}
	})
}

func TestClients(t *testing.T) {
	h := hosttest.New(t)
	s := NewClients(h.State)
	h.Do(func() {
		c := &Client{Name: "c"}
		c.ID = h.AddClient("c", c)
		if s.ByID(c.ID) != c || s.ByID(c.ID+1) != nil {
			t.Error("ByID of a reused ID: got another worker")
		}
	})
	for name, want := range map[string]bool{"c": false, "fire-and-forget": true, "variable-x": true, "queue-x": true,
		"published-x": true, "variables": false} {
		if IsPart(name) != want {
			t.Errorf("IsPart(%q): got %v, want %v", name, !want, want)
		}
	}
}

// Programs of peers are compared by their functions; the data that a peer reports is bounded.
func TestPrograms(t *testing.T) {
	program := func(registry string, functions ...any) *Program {
		var names, sums []any
		for i := 0; i < len(functions); i += 2 {
			names, sums = append(names, functions[i]), append(sums, functions[i+1])
		}
		return ProgramOf(msgpack.MapOf("registry", registry, "build", "", "functions", names, "signatures", sums))
	}
	if ProgramOf(nil) != nil || program("") != nil || program(strings.Repeat("x", 200)) != nil {
		t.Error("program without a registry: got one")
	}
	client := program("r", "f", "1", "g", "2")
	for want, worker := range map[string]*Program{
		"missing functions f, g":            program("q"),
		"missing function g":                program("q", "f", "1"),
		"another signature of function g":   program("q", "f", "1", "g", "3"),
		"that the client does not have":     program("q", "f", "1", "g", "2", "h", "4"),
		"other functions":                   program("q", "f", "1", "g", "2"),
		"missing functions f, g and 0 more": nil,
	} {
		if worker == nil {
			continue
		}
		if got := worker.Difference(client); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	many := make([]any, 0, 4*MaxFunctions)
	for i := range 2 * MaxFunctions {
		many = append(many, fmt.Sprint("f", i), "x")
	}
	if n := len(program("r", many...).Signatures); n != MaxFunctions {
		t.Errorf("functions: got %d, want %d", n, MaxFunctions)
	}
	if got := program("q").Difference(program("r", "a", "", "b", "", "c", "", "d", "", "e",
		"")); !strings.Contains(got, "a, b, c and 2 more") {
		t.Errorf("difference of many functions: got %q", got)
	}
}

// Workers of another build are reported to a client whose tasks they do not run.
func TestStale(t *testing.T) {
	h := hosttest.New(t)
	s := NewWorkers(h.State)
	h.Do(func() {
		for i, registry := range []string{"functions-old", "functions-new", "others-old"} {
			w := &Worker{Address: fmt.Sprint("tcp://w", i), Alias: fmt.Sprint(i),
				Extra: msgpack.MapOf("millstream", msgpack.MapOf("registry", registry, "build", registry))}
			w.ID = h.AddWorker(w.Address, w)
			s.Add(w)
		}
		s.Add(&Worker{Address: "tcp://dask", Alias: "dask", ID: h.AddWorker("tcp://dask", nil)})
		p := ProgramOf(msgpack.MapOf("registry", "functions-new"))
		if got := s.Stale(p); !strings.Contains(got, "tcp://w0") || strings.Contains(got, "tcp://w1") ||
			strings.Contains(got, "tcp://w2") {
			t.Errorf("got %q, want w0 alone", got)
		}
		if got := s.Stale(nil) + s.Stale(ProgramOf(msgpack.MapOf("registry", "functions"))); got != "" {
			t.Errorf("a client without a build: got %q, want nothing", got)
		}
	})
}

// Implausible figures are clamped, and the worker is logged once.
func TestBelieved(t *testing.T) {
	h := hosttest.New(t)
	w := &Worker{Address: "tcp://liar"}
	for in, want := range map[int64]int64{-1: -1, 0: 0, 7: 7, MaxResult: MaxResult, MaxResult + 1: MaxResult,
		math.MinInt64: -1} {
		if got := w.ClampSize(h.Log, in); got != want {
			t.Errorf("size %d: got %d, want %d", in, got, want)
		}
	}
	if got := w.ClampTime(h.Log, 1.5); got != 1500*time.Millisecond {
		t.Errorf("ClampTime(1.5): got %v, want 1.5s", got)
	}
	if got := w.ClampTime(h.Log, 1e300); got <= 0 || got > 101*24*time.Hour {
		t.Errorf("implausible time: got %v, want it clamped", got)
	}
	for in, want := range map[float64]float64{1e6: 1e6, -1: 0, math.Inf(1): 0, 1e300: 0} {
		if got := w.ClampRate(h.Log, in); got != want {
			t.Errorf("rate %v: got %v, want %v", in, got, want)
		}
	}
	if got := w.ClampRate(h.Log, math.NaN()); got != 0 {
		t.Errorf("rate NaN: got %v, want 0", got)
	}
	if !h.Logged("tcp://liar") {
		t.Error("log: got no line with the worker")
	}
}

func TestIntervals(t *testing.T) {
	last := 0.0
	for n := range 2000 {
		d := IntervalFor(n)
		if d < last || d < 0.5 || d > 11 {
			t.Fatalf("interval of %d peers: got %v after %v", n, d, last)
		}
		last = d
	}
}

// noJournal is a journal that streams do not wait for.
type noJournal struct{}

func (noJournal) Enabled() bool                        { return false }
func (noJournal) Position() uint64                     { return 0 }
func (noJournal) Commit(context.Context, uint64) error { return nil }

// pipe returns a comm and its other end.
func pipe(t *testing.T) (near, far comm.Comm) {
	t.Helper()
	l, err := comm.Default.Listen(t.Context(), "inproc://", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = comm.Default.Dial(t.Context(), l.ContactAddr(), comm.DialConfig{}); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Abort(); far.Abort() })
	return near, far
}

// read returns the ops of the next message.
func read(t *testing.T, c comm.Comm) (ops []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hosttest.Patience)
	defer cancel()
	m, err := c.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range v.([]any) {
		ops = append(ops, x.(msgpack.Map).GetString("op"))
	}
	return ops
}

// Messages of a turn are sent at its end, in order, also those with frames; a stream that ends is closed afterwards.
func TestStreams(t *testing.T) {
	near, far := pipe(t)
	s := NewStreams(hosttest.New(t).Loop, slog.New(slog.DiscardHandler), noJournal{}, 1<<20, 1<<20)
	st := s.Open(near)
	st.Out.Start()
	st.Send(&message.KeepAlive{})
	st.SendValue(msgpack.MapOf("op", "two"))
	frames, err := wire.EncodeValue(make([]byte, 100), wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	st.SendValue(msgpack.MapOf("op", "three", "value", frames))
	st.SendValue(msgpack.MapOf("op", "bad", "value", func() {}))
	st.Send(&message.Close{Reason: "over"})
	s.Flush()
	s.Flush()
	if !st.Connected() || (*Stream)(nil).Connected() {
		t.Error("Connected: got the wrong value")
	}
	st.End()
	st.End()
	if st.Connected() {
		t.Error("Connected after End: got true, want false")
	}
	var got []string
	for len(got) < 4 {
		got = append(got, read(t, far)...)
	}
	if text := strings.Join(got, " "); text != "keep-alive two three close" {
		t.Errorf("messages: got %s", text)
	}
	select {
	case <-far.Done():
	case <-time.After(hosttest.Patience):
		t.Error("comm: not closed")
	}
}

// ending is a loop that the test ends.
type ending struct {
	loop.Loop
	done chan struct{}
}

func (l ending) Done() <-chan struct{} { return l.done }

// The number of messages of a stream in the loop is bounded.
func TestCredits(t *testing.T) {
	h := hosttest.New(t)
	near, far := pipe(t)
	l := ending{h.Loop, make(chan struct{})}
	st := NewStreams(l, h.Log, noJournal{}, 1<<20, 1<<20).Open(near)
	go func() {
		for range 2 * streamCredits {
			if Send(t.Context(), far, "x") != nil {
				return
			}
		}
	}()
	ended, delivered := make(chan error, 1), make(chan *wire.Message, 2*streamCredits)
	go func() {
		ended <- st.In.Run(t.Context(), func(m *wire.Message) error { delivered <- m; return nil })
	}()
	st.In.Release(<-delivered)
	for range streamCredits {
		<-delivered
	}
	close(l.done) // no more credits are returned
	if err := <-ended; err != hosttest.ErrClosed {
		t.Errorf("end of the stream after that of the loop: got %v, want %v", err, hosttest.ErrClosed)
	}
	if n := len(delivered); n > 0 {
		t.Errorf("messages beyond the credits: got %d, want 0", n)
	}
}
