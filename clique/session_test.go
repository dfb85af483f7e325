package clique

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/comm/peernet"
	"go.millstream.dev/internal/task"
)

// newHub is a hub of a worker that is in no cluster.
func newHub() *hub {
	return &hub{host: &task.Host{Worker: "tcp://a:1", Name: "a", Boot: "boot"}, peers: new(peernet.Peers),
		sessions: map[string]*session{},
		stop:     func() {}}
}

func quickContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// formedPair is the sessions of two ranks that are connected.
func formedPair(ctx context.Context, t *testing.T) (gs [2]*collective.Group, ss [2]*session) {
	t.Helper()
	gs = pair(ctx, t)
	for r, g := range gs {
		h := newHub()
		h.host.Worker = fmt.Sprintf("tcp://a:%d", r+1)
		s := newSession(h, "id")
		if err := h.add(s, time.Hour); err != nil {
			t.Fatal(err)
		}
		s.engine = &deviceEngine{g, &devices{by: Comm, ordinal: -1}}
		s.roster.Ranks = []prepared{{Member: Member{Worker: "tcp://a:1"}},
			{Member: Member{Rank: 1, Worker: "tcp://a:2"}}}
		ss[r] = s
		t.Cleanup(func() { h.drop(s, nil) })
	}
	return gs, ss
}

// TestRoster: a worker takes a roster that names it once, with its ranks in order, once.
func TestRoster(t *testing.T) {
	rank := func(i int, w string) prepared { return prepared{Member: Member{Rank: i, Worker: w}} }
	for _, c := range []struct {
		name  string
		ranks []prepared
		want  string
		rank  int
	}{
		{"first", []prepared{rank(0, "tcp://a:1"), rank(1, "tcp://b:1")}, "", 0},
		{"last", []prepared{rank(0, "tcp://b:1"), rank(1, "tcp://a:1")}, "", 1},
		{"not in it", []prepared{rank(0, "tcp://b:1")}, "clique id: worker tcp://a:1 is not in the roster", 0},
		{"empty roster", nil, "is not in the roster", 0},
		{"misnumbered", []prepared{rank(1, "tcp://a:1")}, "clique id: invalid roster: entry 0 has rank 1", 0},
		{"too many", make([]prepared, maxRanks+1), "16385 ranks exceed the maximum of 16384", 0},
	} {
		s := newSession(newHub(), "id")
		got, err := s.begin(formRequest{Ranks: c.ranks})
		if c.want == "" && (err != nil || got != c.rank) || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: rank %d, %v; want %d, %q", c.name, got, err, c.rank, c.want)
		}
		_, err = s.begin(formRequest{Ranks: []prepared{rank(0, "tcp://a:1")}})
		if again := c.want == ""; again != (err != nil) || again &&
			!strings.Contains(err.Error(), "already has a roster") {
			t.Errorf("%s: a second roster: %v, want an error: %t", c.name, err, again)
		}
		s.close(nil)
	}
}

// TestSessions: a worker keeps cliques by id, up to a number, until they are dropped; a closed one takes none.
func TestSessions(t *testing.T) {
	h := newHub()
	first := newSession(h, "first")
	if err := h.add(first, time.Hour); err != nil {
		t.Fatal(err)
	}
	if s, err := h.session("first"); s != first || err != nil {
		t.Errorf("%v, %v", s, err)
	}
	twin := newSession(h, "first")
	if err := h.add(twin, time.Hour); err == nil || !strings.Contains(err.Error(),
		"already has a clique with this id") {
		t.Errorf("a second clique of one id: %v", err)
	}
	h.drop(twin, nil) // it is not the one that the hub has
	if _, err := h.session("first"); err != nil {
		t.Errorf("the first one went with the second: %v", err)
	}
	for i := 1; i < maxSessions; i++ {
		if err := h.add(newSession(h, fmt.Sprint(i)), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.add(newSession(h, "one more"), time.Hour); err == nil ||
		!strings.Contains(err.Error(), "has 1024 cliques") {
		t.Errorf("clique %d: %v", maxSessions+1, err)
	}
	if got := h.dissolve("first"); !got.Known || got.Failed != -1 || got.Joined != 0 {
		t.Errorf("dissolved: %+v", got)
	}
	if got := h.dissolve("first"); got.Known || got.Failed != -1 {
		t.Errorf("dissolved twice: %+v", got)
	}
	if context.Cause(first.ctx) != errDissolved || !first.closed {
		t.Errorf("the session ended with %v, want %v", context.Cause(first.ctx), errDissolved)
	}
	last, err := h.session("7")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	if context.Cause(last.ctx) != errEnded || len(h.sessions) != 0 {
		t.Errorf("with the worker ended %v, and %d are left", context.Cause(last.ctx), len(h.sessions))
	}
	if err := h.add(newSession(h, "late"), time.Hour); !errors.Is(err, task.ErrHostClosed) {
		t.Errorf("a clique of a worker that has ended: %v", err)
	}
	if _, _, err := h.ucx.worker(false); !errors.Is(err, task.ErrHostClosed) {
		t.Errorf("UCX of a worker that has ended: %v", err)
	}
}

// TestPrepare: what a worker says of itself, and why it has no UCX.
func TestPrepare(t *testing.T) {
	h := newHub()
	h.host.Trusted = true
	for _, c := range []struct {
		in          prepareRequest
		connections bool
		noUCX       string
		err         string
	}{
		{prepareRequest{ID: "a"}, true, "not requested", ""},
		{prepareRequest{ID: "b", UCX: true}, false, "the worker has no data connections", ""},
		{prepareRequest{ID: ""}, true, "", "invalid clique id"},
		{prepareRequest{ID: strings.Repeat("x", 65)}, true, "", "invalid clique id"},
		{prepareRequest{ID: "a"}, true, "", "already has a clique with this id"},
	} {
		h.host.DataConnections = c.connections
		got, err := h.prepare(t.Context(), c.in)
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%+v: %v, want %q", c.in, err, c.err)
		case c.err == "" && (err != nil || !strings.Contains(got.NoUCX, c.noUCX) || got.Worker != "tcp://a:1" ||
			got.Host != "tcp://a" || got.Boot != "boot" || !got.Trusted || got.Functions == "" ||
			len(got.UCX.Address) > 0):
			t.Errorf("%+v: %+v, %v", c.in, got, err)
		}
	}
	if _, err := h.form(t.Context(), formRequest{ID: "unknown"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("a roster of a clique that was not prepared: %v", err)
	}
	if _, err := h.form(t.Context(), formRequest{ID: "a"}); err == nil {
		t.Error("an empty roster was accepted")
	}
	if _, err := h.session("a"); !errors.Is(err, ErrUnknown) {
		t.Errorf("what could not be formed is still known: %v", err)
	}
	_ = h.close()
}

// TestJoinSession: who may join, and what the session counts.
func TestJoinSession(t *testing.T) {
	ctx := quickContext(t)
	gs, ss := formedPair(ctx, t)
	s := ss[0]
	if _, _, err := newSession(newHub(), "id").join(1); err == nil ||
		!strings.Contains(err.Error(), "is not yet connected to the other ranks") {
		t.Errorf("before it is formed: %v", err)
	}
	g, names, err := s.join(3)
	if err != nil || fmt.Sprint(names) != "[tcp://a:1 tcp://a:2]" || g.Carrier() == nil {
		t.Fatalf("%v, %v", names, err)
	}
	if _, _, err := s.join(3); err == nil || !strings.Contains(err.Error(), "ticket already used") {
		t.Errorf("the same ticket: %v", err)
	}
	if st := s.state(); !st.Known || st.Joined != 1 || st.Failed != -1 || st.Error != "" {
		t.Errorf("state %+v", st)
	}
	s.expire() // it is in use
	if _, err := s.hub.session("id"); err != nil {
		t.Errorf("a session with a task in it expired: %v", err)
	}
	r := &Rank{s: s, g: g, d: s.engine.Devices(), names: names}
	if r.Rank() != 0 || r.Size() != 2 || r.Worker(1) != "tcp://a:2" || r.Worker(2) != "" || r.Worker(-1) != "" ||
		r.Device() != -1 || r.DeviceBackend() != Comm || r.Err() != nil {
		t.Errorf("rank %d of %d, %q, %q, device %d by %q", r.Rank(), r.Size(), r.Worker(1), r.Worker(2), r.Device(),
			r.DeviceBackend())
	}
	if _, _, err := r.NCCL(ctx); err == nil || !strings.Contains(err.Error(),
		`device memory uses backend "comm", not NCCL`) {
		t.Errorf("NCCL of a clique without: %v", err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil || s.state().Joined != 0 {
		t.Errorf("after Close twice: %v, %d have joined", err, s.state().Joined)
	}
	if !errors.Is(r.Err(), ErrClosed) {
		t.Errorf("a closed rank says %v", r.Err())
	}
	r.Abort(errors.New("no luck")) // the session's, of both ranks
	<-gs[1].Done()
	if st := ss[1].state(); st.Failed != 0 || !strings.Contains(st.Error, "no luck") {
		t.Errorf("state %+v, want rank 0's failure", st)
	}
	var gone *RankError
	if _, _, err := ss[1].join(1); !errors.As(err, &gone) || gone.Rank != 0 {
		t.Errorf("joining what has failed: %v", err)
	}
	s.expire()
	if _, err := s.hub.session("id"); !errors.Is(err, ErrUnknown) || context.Cause(s.ctx) != errExpired {
		t.Errorf("an unused session did not expire: %v, %v", err, context.Cause(s.ctx))
	}
	if _, _, err := s.join(9); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "was dissolved") {
		t.Errorf("joining what was dissolved: %v", err)
	}
}

// heldComm is a connection that only ends.
type heldComm struct {
	comm.Comm
	once sync.Once
	done chan struct{}
}

func newHeldComm() *heldComm                { return &heldComm{done: make(chan struct{})} }
func (c *heldComm) Abort()                  { c.once.Do(func() { close(c.done) }) }
func (c *heldComm) Done() <-chan struct{}   { return c.done }
func (c *heldComm) isAborted() (ended bool) { _, open := <-c.done; return !open }

// TestArrivals: connections are handed to the forming; those of no rank that is waited for, and those that come too
// late, are cut.
func TestArrivals(t *testing.T) {
	ctx := quickContext(t)
	s := newSession(newHub(), "id")
	roster := formRequest{Ranks: make([]prepared, 3)}
	for i := range roster.Ranks {
		roster.Ranks[i].Rank, roster.Ranks[i].Worker = i, fmt.Sprintf("tcp://a:%d", i+1)
	}
	type result struct {
		peers []comm.Comm
		err   error
	}
	ended := make(chan result, 1)
	go func() {
		peers, err := s.connect(ctx, 0, roster)
		ended <- result{peers, err}
	}()
	one, two, twin, none, self := newHeldComm(), newHeldComm(), newHeldComm(), newHeldComm(), newHeldComm()
	for _, a := range []arrival{{0, self}, {7, none}, {1, one}, {1, twin}} {
		s.arrivals <- a // taken in this order
	}
	var all sync.WaitGroup
	all.Go(func() { s.deliver(ctx, hello{From: 2}, two) }) // returns with the session
	got := <-ended
	if got.err != nil || got.peers[0] != nil || got.peers[1] != comm.Comm(one) || got.peers[2] != comm.Comm(two) {
		t.Errorf("%v, %v", got.peers, got.err)
	}
	for name, c := range map[string]*heldComm{"itself": self, "rank 7": none, "rank 1 again": twin} {
		if !c.isAborted() {
			t.Errorf("the connection of %s is open", name)
		}
	}
	late := newHeldComm()
	s.arrivals <- arrival{2, late} // stays in the channel
	s.close(errDissolved)
	s.close(nil)
	all.Wait()
	if !late.isAborted() {
		t.Error("a connection that came too late is open")
	}
	s.deliver(ctx, hello{From: 1}, newHeldComm()) // returns at once
}

// TestEndedConnection: a connection that the other rank has closed is kept until the session ends, because the engine
// may not have read its last messages.
func TestEndedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(newHub(), "id")
		c := newHeldComm()
		returned := make(chan struct{})
		go func() {
			s.deliver(t.Context(), hello{From: 1}, c)
			close(returned)
		}()
		<-s.arrivals
		c.Abort()
		synctest.Wait()
		select {
		case <-returned:
			t.Error("the connection was given up before the session has ended")
		default:
		}
		s.close(nil)
		<-returned
	})
}

// TestNotAll: members that are late are named; any other reason is returned unchanged.
func TestNotAll(t *testing.T) {
	s := newSession(newHub(), "id")
	defer s.close(nil)
	roster := formRequest{Ranks: make([]prepared, 3)}
	for i := range roster.Ranks {
		roster.Ranks[i].Rank, roster.Ranks[i].Worker = i, fmt.Sprintf("tcp://a:%d", i+1)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-short.Done()
	_, err := s.connect(short, 0, roster)
	if err == nil || !strings.Contains(err.Error(),
		"rank 0 (tcp://a:1) timed out waiting for rank 1 (tcp://a:2), rank 2 (tcp://a:3)") ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the names of ranks 1 and 2", err)
	}
	stopped, stop := context.WithCancelCause(t.Context())
	stop(errDissolved)
	if _, err := s.connect(stopped, 0, roster); err != errDissolved {
		t.Errorf("%v, want %v", err, errDissolved)
	}
	if _, err := s.connect(t.Context(), 0, formRequest{Ranks: roster.Ranks[:1]}); err != nil {
		t.Errorf("a clique of one: %v", err)
	}
}

// TestHellos: the higher rank connects to the lower, to a clique that the worker has.
func TestHellos(t *testing.T) {
	h := newHub()
	if err := h.add(newSession(h, "id"), time.Hour); err != nil {
		t.Fatal(err)
	}
	defer h.close()
	for _, c := range []struct{ text, want string }{
		{`{"id":"id","from":2,"to":1}`, ""},
		{`{"id":"id","from":1,"to":0}`, ""},
		{`{"id":"id","from":1,"to":1}`, "the higher rank connects"},
		{`{"id":"id","from":1,"to":2}`, "the higher rank connects"},
		{`{"id":"id","from":1,"to":-1}`, "the higher rank connects"},
		{`{"id":"id","from":16384,"to":1}`, "the higher rank connects"},
		{`{"id":"","from":1,"to":0}`, "invalid clique id"},
		{`{"id":"other","from":1,"to":0}`, "has no clique other"},
		{`[`, "invalid hello"},
	} {
		serve, err := h.accept(t.Context(), []byte(c.text))
		if c.want == "" && (err != nil || serve == nil) || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}
