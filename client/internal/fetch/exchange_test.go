package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/client/internal/link"
	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/inproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// script is a connection with prepared reads and writes.
type script struct {
	reply   *wire.Message
	fail    int // the number of the step that fails: 1 request, 2 reply, 3 acknowledgement; 0 for none
	step    int
	sent    []string
	aborted bool
}

var errBroken = errors.New("the connection is broken")

func (s *script) next() error {
	if s.step++; s.step == s.fail {
		return errBroken
	}
	return nil
}

func (s *script) Write(_ context.Context, m *wire.Message) error {
	s.sent = append(s.sent, string(m.Body()))
	return s.next()
}

func (s *script) Read(context.Context) (*wire.Message, error) { return s.reply, s.next() }

func (s *script) Abort() { s.aborted = true }

// An exchange that was not completed must not continue with the next request: its connection is aborted.
func TestExchange(t *testing.T) {
	good := wire.NewDict("status", "OK", "data", wire.NewDict("a", 1))
	bad := wire.NewDict("status", "uncaught-error", "exception_text", "ValueError")
	for name, c := range map[string]struct {
		reply any
		fail  int
		busy  bool
		want  string // in the error
	}{
		"data":               {reply: good},
		"busy":               {reply: wire.NewDict("status", "busy"), busy: true},
		"no request":         {reply: good, fail: 1, want: "broken"},
		"no reply":           {reply: good, fail: 2, want: "broken"},
		"no acknowledgement": {reply: good, fail: 3, want: "broken"},
		"an error":           {reply: bad, want: "get_data"},
		"no map":             {reply: "text", want: "map"},
	} {
		s := &script{reply: encoded(t, c.reply), fail: c.fail}
		m, _, busy, err := exchange(t.Context(), s, encoded(t, "request"), nil)
		if busy != c.busy || (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: busy %v, %v; want busy %v and an error with %q", name, busy, err, c.busy, c.want)
		}
		if s.aborted != (c.want != "") {
			t.Errorf("%s: aborted %v, want %v", name, s.aborted, c.want != "")
		}
		if err == nil && (m != s.reply || !slices.Equal(s.sent[1:], []string{"\xa2OK"})) {
			t.Errorf("%s: sent %q, want the request and OK", name, s.sent)
		}
	}
}

// serve serves ops at an address of this process.
func serve(t *testing.T, ops map[string]rpc.Handler) (address string) {
	t.Helper()
	return serveAt(t, "inproc://", ops)
}

// serveAt serves ops at an address, and returns the one to contact.
func serveAt(t *testing.T, listen string, ops map[string]rpc.Handler) (address string) {
	t.Helper()
	l, err := comm.Default.Listen(t.Context(), listen, comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer(rpc.Config{Type: "Test", Logger: slog.New(slog.DiscardHandler)})
	for op, h := range ops {
		s.Handle(op, h)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = s.Serve(ctx, l) })
	t.Cleanup(func() {
		cancel()
		_ = s.Close()
		all.Wait()
	})
	return l.ContactAddr()
}

// send sends a message.
func send(ctx context.Context, c comm.Comm, v any) error {
	m, err := wire.Encode(v, wire.EncodeOptions{})
	if err != nil {
		return err
	}
	defer m.Release()
	return c.Write(ctx, m)
}

// newFetcher returns a fetcher of a client of a scheduler that only accepts registrations.
func newFetcher(t *testing.T) *Fetcher {
	t.Helper()
	scheduler := serve(t, map[string]rpc.Handler{
		"register-client": func(ctx context.Context, r *rpc.Request) (any, error) {
			r.Takeover()
			if err := send(ctx, r.Comm, []any{wire.NewDict("op", "stream-start", "millstream",
				wire.NewDict("id", "S", "epoch", 1))}); err != nil {
				return nil, err
			}
			<-r.Comm.Done()
			return rpc.NoReply, nil
		}})
	tr := newTracker()
	l, err := link.Connect(t.Context(), link.Config{Network: comm.Default, Address: scheduler, ID: "C",
		Registry: func() string { return "" }, Heartbeat: time.Hour, Reconnect: -1, Tracker: tr, Resumed: func() {},
		Log: slog.New(slog.DiscardHandler)}, func(*link.Link) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	f := New(Config{Network: comm.Default, Link: l, Tracker: tr, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		tr.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(l.Shutdown(ctx), f.Close(), l.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return f
}

// holder serves one result. It replies after before is closed, and closes after when it has finished.
func holder(t *testing.T, key string, value any, before <-chan struct{}, after chan<- struct{}) string {
	t.Helper()
	return serve(t, map[string]rpc.Handler{"get_data": func(ctx context.Context, r *rpc.Request) (any, error) {
		defer close(after)
		<-before
		if err := send(ctx, r.Comm, wire.NewDict("status", "OK", "data", wire.NewDict(key, value))); err != nil {
			return nil, err
		}
		m, err := r.Comm.Read(ctx)
		if err == nil {
			m.Release()
		}
		return rpc.NoReply, err
	}})
}

// The error of one worker is the error of Fetch, whichever worker replies first.
func TestFetchFailsOnOneWorker(t *testing.T) {
	for _, badFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("bad first ", badFirst), func(t *testing.T) { testFailsOnOneWorker(t, badFirst) })
	}
}

func testFailsOnOneWorker(t *testing.T, badFirst bool) {
	leak.Check(t)
	now, goodDone, badDone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	close(now)
	sunk := make(chan struct{})
	var good, bad string
	if badFirst {
		good, bad = holder(t, "good", 1, sunk, goodDone), holder(t, "bad", 2, now, badDone)
	} else {
		good, bad = holder(t, "good", 1, now, goodDone), holder(t, "bad", 2, sunk, badDone)
	}
	f := newFetcher(t)
	states, err := f.cfg.Tracker.Hold([]task.Key{task.NewKey("good"), task.NewKey("bad")})
	if err != nil {
		t.Fatal(err)
	}
	places, err := msgpack.Append(nil, wire.NewDict("good", []any{good}, "bad", []any{bad}))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.cfg.Tracker.SetPlaces(places); err != nil {
		t.Fatal(err)
	}
	no := errors.New("no")
	var once sync.Once
	missing, err := f.fetchOnce(t.Context(), states, []int{0, 1}, func(i int, _ Value) error {
		defer once.Do(func() { close(sunk) })
		if i == 1 {
			return no
		}
		return nil
	})
	if !errors.Is(err, no) || len(missing) != 0 {
		t.Errorf("got missing %v, %v; want %v", missing, err, no)
	}
	<-goodDone
	<-badDone
}
