package link

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/inproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/wire"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// startScheduler serves registrations of clients, and returns their streams.
func startScheduler(t *testing.T) (address string, streams <-chan comm.Comm) {
	t.Helper()
	l, err := comm.Default.Listen(t.Context(), "inproc://", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	registered := make(chan comm.Comm, 10)
	s := rpc.NewServer(rpc.Config{Type: "Scheduler", Logger: slog.New(slog.DiscardHandler)})
	s.Handle("register-client", func(ctx context.Context, r *rpc.Request) (any, error) {
		r.Takeover()
		m, err := wire.Encode([]any{wire.NewDict("op", "stream-start", "millstream",
			wire.NewDict("id", "S", "epoch", 1))}, wire.EncodeOptions{})
		if err != nil {
			return nil, err
		}
		defer m.Release()
		if err := r.Comm.Write(ctx, m); err != nil {
			return nil, err
		}
		registered <- r.Comm
		<-r.Comm.Done()
		return rpc.NoReply, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = s.Serve(ctx, l) })
	t.Cleanup(func() {
		cancel()
		_ = s.Close()
		all.Wait()
	})
	return l.ContactAddr(), registered
}

// rig is a link of a client without keys.
type rig struct {
	*Link
	tracker *tracker.Tracker
	resumed chan struct{} // receives a token for each call of Resumed
}

func connect(t *testing.T, address string, network comm.Network) *rig {
	t.Helper()
	r := &rig{resumed: make(chan struct{}, 10)}
	log := slog.New(slog.DiscardHandler)
	r.tracker = tracker.New(tracker.Config{ID: "C", Registry: func() string { return "" }, Log: log})
	l, err := Connect(t.Context(), Config{Network: network, Address: address, ID: "C",
		Registry: func() string { return "" }, Heartbeat: time.Hour, Reconnect: time.Minute, Tracker: r.tracker,
		Resumed: func() { r.resumed <- struct{}{} }, Log: log}, func(*Link) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	r.Link = l
	t.Cleanup(func() {
		r.tracker.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(l.Shutdown(ctx), l.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

// The client reconnects to a lost scheduler, except after Stay.
func TestLost(t *testing.T) {
	address, streams := startScheduler(t)
	r := connect(t, address, comm.Default)
	(<-streams).Abort()
	again := <-streams
	<-r.resumed
	if err := r.tracker.Err(); err != nil {
		t.Errorf("the client ended with %v, want another registration", err)
	}
	r.Stay()
	again.Abort()
	select {
	case <-r.Done():
	case <-streams:
		t.Fatal("client registered again after Stay")
	}
	if err := r.tracker.Err(); !errors.Is(err, tracker.ErrClosed) {
		t.Errorf("the client ended with %v, want ErrClosed", err)
	}
	if n := len(r.resumed); n != 0 {
		t.Errorf("the client resumed %d times more, want 0", n)
	}
}

// stuck is a network whose comms do not send messages while on is set.
type stuck struct {
	comm.Network
	on      atomic.Bool
	waiting chan struct{} // a message waits
}

func (s *stuck) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	c, err := s.Network.Dial(ctx, address, cfg)
	if err != nil {
		return nil, err
	}
	return stuckComm{c, s}, nil
}

type stuckComm struct {
	comm.Comm
	s *stuck
}

func (c stuckComm) Write(ctx context.Context, m *wire.Message) error {
	if !c.s.on.Load() {
		return c.Comm.Write(ctx, m)
	}
	c.s.waiting <- struct{}{}
	<-ctx.Done()
	return context.Cause(ctx)
}

// Shutdown returns the error of its context if that ends first, because the queue may not have been sent.
func TestShutdownCutShort(t *testing.T) {
	address, _ := startScheduler(t)
	network := &stuck{Network: comm.Default, waiting: make(chan struct{}, 1)}
	r := connect(t, address, network)
	network.on.Store(true)
	r.tracker.Close()
	<-network.waiting
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if err := r.Shutdown(t.Context()); err != nil {
		t.Errorf("the second time: %v", err)
	}
}
