package registration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/tcp"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// scheduler replies to registrations as the test says, and keeps their streams.
type scheduler struct {
	address string
	server  *rpc.Server
	streams chan comm.Comm
	beats   chan msgpack.Map

	mu     sync.Mutex
	reply  any
	status string // of heartbeats
}

func startScheduler(t *testing.T) *scheduler {
	t.Helper()
	l, err := comm.Listen(t.Context(), "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s := &scheduler{address: l.ContactAddr(), streams: make(chan comm.Comm, 10), beats: make(chan msgpack.Map, 1000),
		status: "OK",
		reply:  msgpack.MapOf("status", "OK", "heartbeat-interval", 0.005)}
	s.server = rpc.NewServer(rpc.Config{Type: "Scheduler", Logger: slog.New(slog.DiscardHandler)})
	s.server.Handle("register-worker", func(ctx context.Context, r *rpc.Request) (any, error) {
		r.Takeover()
		s.mu.Lock()
		reply := s.reply
		s.mu.Unlock()
		m, err := wire.Encode(reply, r.Comm.Info().EncodeOptions())
		if err != nil {
			return nil, err
		}
		defer m.Release()
		if err := r.Comm.Write(ctx, m); err != nil {
			return nil, err
		}
		s.streams <- r.Comm
		<-r.Comm.Done()
		return rpc.NoReply, nil
	})
	s.server.Handle("heartbeat_worker", func(_ context.Context, r *rpc.Request) (any, error) {
		m, err := r.Values()
		if err != nil {
			return nil, err
		}
		select {
		case s.beats <- wire.Clone(m).(msgpack.Map):
		default:
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.status == "error" {
			return nil, errors.New("it is Sunday")
		}
		if s.status == "bare" {
			return msgpack.MapOf("status", "OK"), nil
		}
		return msgpack.MapOf("status", s.status, "heartbeat-interval", 0.002), nil
	})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.server.Serve(context.Background(), l) }()
	t.Cleanup(func() { _ = s.server.Close(); <-done })
	return s
}

func (s *scheduler) set(reply any, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply, s.status = reply, status
}

// rig is a Client that a test controls.
type rig struct {
	*Client
	session atomic.Pointer[Session]
	failed  atomic.Int64
	plugins []Plugin
	logs    logText
	end     context.CancelCauseFunc
}

type logText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logText) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *logText) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func newRig(t *testing.T, address string, death time.Duration) *rig {
	t.Helper()
	r := &rig{}
	ctx, end := context.WithCancelCause(context.Background())
	r.end = end
	r.Client = New(Config{Scheduler: address, Network: comm.Default, DeathTimeout: death,
		Dial:   comm.DialConfig{Timeout: 100 * time.Millisecond},
		Logger: slog.New(slog.NewTextHandler(&r.logs, nil)),
		Worker: Worker{Context: ctx,
			Registration: func() msgpack.Map { return msgpack.MapOf("address", "tcp://a:1") },
			Registered:   func(list []Plugin) { r.plugins = list },
			Session:      r.session.Load,
			Heartbeat: func(extensions bool) (msgpack.Map, func()) {
				return msgpack.MapOf("address", "tcp://a:1", "extensions", extensions), func() { r.failed.Add(1) }
			},
		}})
	t.Cleanup(func() {
		end(errors.New("over"))
		r.Close()
	})
	return r
}

func TestConnect(t *testing.T) {
	s := startScheduler(t)
	s.set(msgpack.MapOf("status", "OK", "heartbeat-interval", 0.5, "warning", "mind the gap",
		"worker-plugins", msgpack.MapOf("p", []byte("pickle"), "no bytes", 5)), "OK")
	r := newRig(t, s.address, 0)
	session, err := r.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Send.Abort(nil)
	if !session.Millstream || r.Latency() <= 0 || r.interval.Load() != int64(500*time.Millisecond) ||
		r.Packages() != nil {
		t.Errorf("millstream %v, latency %v, interval %v, packages %v", session.Millstream, r.Latency(),
			r.interval.Load(), r.Packages())
	}
	if want := []Plugin{{"p", []byte("pickle")}}; !reflect.DeepEqual(r.plugins, want) {
		t.Errorf("plugins %v, want %v", r.plugins, want)
	}
	if !strings.Contains(r.logs.String(), "mind the gap") {
		t.Errorf("got no warning in the log: %s", r.logs.String())
	}
}

// Connect does not retry after a rejection, nor with an invalid address.
func TestConnectRefused(t *testing.T) {
	s := startScheduler(t)
	for name, c := range map[string]struct {
		reply any
		want  string
	}{
		"a status":       {msgpack.MapOf("status", "error", "message", "name taken"), "name taken"},
		"an exception":   {msgpack.MapOf("status", "uncaught-error", "exception_text", "ValueError"), "rejected"},
		"another server": {[]any{1}, "address is that of a scheduler"},
	} {
		s.set(c.reply, "OK")
		r := newRig(t, s.address, 0)
		if _, err := r.Connect(t.Context()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	r := newRig(t, "nonsense://x", 0)
	if _, err := r.Connect(t.Context()); err == nil || r.logs.String() != "" {
		t.Errorf("got %v after retries: %s", err, r.logs.String())
	}
}

// Without a scheduler Connect waits for it.
func TestConnectWaits(t *testing.T) {
	r := newRig(t, "tcp://127.0.0.1:1", 20*time.Millisecond)
	if _, err := r.Connect(t.Context()); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "death-timeout") {
		t.Errorf("got %v, want the death-timeout", err)
	}
	why := errors.New("why")
	r = newRig(t, "tcp://127.0.0.1:1", 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for !strings.Contains(r.logs.String(), "waiting to connect") {
			time.Sleep(time.Millisecond)
		}
		cancel(why)
	}()
	if _, err := r.Connect(ctx); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	r = newRig(t, "tcp://127.0.0.1:1", 0)
	r.end(why)
	if _, err := r.Connect(t.Context()); !errors.Is(err, why) {
		t.Errorf("closed worker: got %v, want %v", err, why)
	}
}

func TestRetriable(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&comm.ConnectError{}, true}, {comm.ErrClosed, true}, {&rpc.CallError{Err: errors.New("x")}, true},
		{&comm.AddressError{}, false}, {&comm.HandshakeError{}, false}, {fmt.Errorf("x: %w", ErrRefused), false},
		{errors.New("x"), false},
	} {
		if got := retriable(c.err); got != c.want {
			t.Errorf("%T: got %v, want %v", c.err, got, c.want)
		}
	}
}

func TestSessionRead(t *testing.T) {
	s := startScheduler(t)
	r := newRig(t, s.address, 0)
	session, err := r.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stream := <-s.streams
	const n = maxBatches + 10
	go func() {
		for i := range n {
			m, err := wire.Encode([]any{msgpack.MapOf("op", "x", "n", i)}, wire.EncodeOptions{})
			if err == nil {
				err = stream.Write(context.Background(), m)
			}
			if err != nil {
				return
			}
		}
	}()
	got := make(chan *wire.Message, n)
	ended := make(chan error, 1)
	go func() { ended <- session.Read(t.Context(), func(m *wire.Message) { got <- m }) }()
	for range n { // each released batch admits another one
		if wait := len(got); wait > maxBatches {
			t.Fatalf("got %d waiting batches, want at most %d", wait, maxBatches)
		}
		session.Release(<-got)
	}
	why := errors.New("protocol violation")
	session.Fail(why)
	session.Fail(errors.New("too late"))
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	<-session.Over().Done()
}

// The first of several failures is the reason for the end of a session.
func TestSessionFails(t *testing.T) {
	s := startScheduler(t)
	session, err := newRig(t, s.address, 0).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := errors.New("first")
	session.Fail(first)
	session.Fail(errors.New("second"))
	if err := session.Read(t.Context(), func(*wire.Message) {}); !errors.Is(err, first) {
		t.Errorf("got %v, want %v", err, first)
	}
}

// A worker that takes no batches blocks the sends of its scheduler.
func TestSessionCredit(t *testing.T) {
	s := startScheduler(t)
	r := newRig(t, s.address, 0)
	session, err := r.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stream := <-s.streams
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range maxBatches + 2 {
			m, err := wire.Encode([]any{}, wire.EncodeOptions{})
			if err == nil {
				err = stream.Write(context.Background(), m)
			}
			if err != nil {
				return
			}
		}
	}()
	<-sent
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the worker ends")
	delivered := 0
	full := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- session.Read(ctx, func(m *wire.Message) {
			m.Release()
			if delivered++; delivered == maxBatches {
				close(full)
			}
		})
	}()
	<-full
	cancel(why)
	if err := <-ended; delivered != maxBatches || err == nil {
		t.Errorf("got %d batches, want %d; %v", delivered, maxBatches, err)
	}
}

func TestHeartbeats(t *testing.T) {
	s := startScheduler(t)
	r := newRig(t, s.address, 0)
	session, err := r.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Send.Abort(nil)
	done := make(chan struct{})
	go func() { defer close(done); r.SendHeartbeats() }()
	r.session.Store(session)
	for range 3 {
		if b := <-s.beats; b.GetString("address") != "tcp://a:1" {
			t.Errorf("got %v", b)
		} else if x, _ := b.Get("extensions"); x != true {
			t.Errorf("heartbeat to a Millstream scheduler: got %v, want extensions", b)
		}
	}
	if got := time.Duration(r.interval.Load()); got != 2*time.Millisecond {
		t.Errorf("interval: got %v, want that of the scheduler", got)
	}
	s.set(nil, "error")
	for r.failed.Load() == 0 {
		<-s.beats
	}
	for !strings.Contains(r.logs.String(), "it is Sunday") {
		<-s.beats
	}
	r.end(errors.New("over"))
	<-done
}

// A reply without an interval does not change it.
func TestHeartbeatInterval(t *testing.T) {
	s := startScheduler(t)
	r := newRig(t, s.address, 0)
	r.interval.Store(int64(time.Hour))
	for _, c := range []struct {
		status string
		want   time.Duration
	}{{"bare", time.Hour}, {"OK", 2 * time.Millisecond}, {"bare", 2 * time.Millisecond}} {
		s.set(nil, c.status)
		if err := r.heartbeat(true); err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(r.interval.Load()); got != c.want {
			t.Errorf("after a reply %s: got interval %v, want %v", c.status, got, c.want)
		}
	}
}

// A worker that is unknown to its scheduler waits for a message on its stream before it ends the session.
func TestUnknown(t *testing.T) {
	s := startScheduler(t)
	r := newRig(t, s.address, 0)
	r.handleUnknown() // no effect without a session
	session, err := r.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.session.Store(session)
	ended := make(chan error, 1)
	go func() { ended <- session.Read(t.Context(), func(*wire.Message) {}) }()
	(<-s.streams).Abort()
	<-ended
	begun := time.Now()
	if r.handleUnknown(); time.Since(begun) >= lastMessagesTime {
		t.Error("waited for a closed session")
	}
	if session, err = r.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.session.Store(session)
	go func() { ended <- session.Read(t.Context(), func(*wire.Message) {}) }()
	s.set(nil, "missing")
	if err := r.heartbeat(true); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "unknown to the scheduler") {
		t.Errorf("end of the session: got %v", err)
	}
}

// deadNetwork is a network in which no scheduler listens. It records the times of attempts.
type deadNetwork struct {
	comm.Network
	at []time.Time
}

func (n *deadNetwork) Dial(context.Context, string, comm.DialConfig) (comm.Comm, error) {
	n.at = append(n.at, time.Now())
	return nil, &comm.ConnectError{}
}

// The delays between attempts to connect grow up to a second.
func TestConnectPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n deadNetwork
		c := New(Config{Scheduler: "tcp://127.0.0.1:1", Network: &n, DeathTimeout: 20 * time.Second,
			Logger: slog.New(slog.DiscardHandler), Worker: Worker{Context: t.Context()}})
		defer c.Close()
		if _, err := c.Connect(t.Context()); !errors.Is(err, ErrLost) {
			t.Fatalf("got %v, want %v", err, ErrLost)
		}
		var last time.Duration
		for i := range n.at[1:] {
			pause := n.at[i+1].Sub(n.at[i])
			if pause < last || pause > time.Second || pause <= 0 {
				t.Errorf("pause %d: got %v after %v, want it to grow up to 1s", i, pause, last)
			}
			last = pause
		}
		if last != time.Second {
			t.Errorf("last pause: got %v, want 1s", last)
		}
	})
}
