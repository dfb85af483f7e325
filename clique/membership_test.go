package clique

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/peernet"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// testCluster is a cluster whose workers a test ends and pauses one by one.
type testCluster struct {
	scheduler *scheduler.Scheduler
	c         *client.Client
	addresses []string // of the workers, sorted
	workers   map[string]*worker.Worker
	used      map[string]*atomic.Int64 // memory in use, of 1000 bytes
}

// startCluster starts workers of one thread each. The client uses a network.
func startCluster(ctx context.Context, t *testing.T, n int, network comm.Network) *testCluster {
	t.Helper()
	leak.Check(t)
	log := slog.New(slog.DiscardHandler)
	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{"inproc://"}, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	closing := func(what string, end func(context.Context) error) {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := end(ctx); err != nil {
				t.Errorf("close the %s: %v", what, err)
			}
		})
	}
	closing("scheduler", s.Shutdown)
	k := &testCluster{scheduler: s, workers: map[string]*worker.Worker{}, used: map[string]*atomic.Int64{}}
	for range n {
		used := new(atomic.Int64)
		w, err := worker.Start(ctx, worker.Config{Scheduler: s.Address(), Threads: 1, Logger: log,
			LocalDirectory: t.TempDir(), MemoryLimit: 1000,
			Memory: worker.Memory{Usage: used.Load, Interval: time.Millisecond, Spill: -1, Target: -1, Terminate: -1}})
		if err != nil {
			t.Fatal(err)
		}
		closing("worker", func(context.Context) error { return w.Close() })
		k.workers[w.Address()], k.used[w.Address()] = w, used
	}
	k.addresses = slices.Sorted(maps.Keys(k.workers))
	if k.c, err = client.Connect(ctx, s.Address(), client.Config{Logger: log, Network: network}); err != nil {
		t.Fatal(err)
	}
	closing("client", k.c.Shutdown)
	return k
}

// until waits until a worker is in a status at the scheduler, "" for gone.
func (k *testCluster) until(ctx context.Context, t *testing.T, worker, status string) {
	t.Helper()
	for {
		all, err := k.c.Workers(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if all[worker].Status == status {
			return
		}
	}
}

// Workers that are short of memory do not fill a clique up.
func TestReformPastPaused(t *testing.T) {
	ctx := quickContext(t)
	k := startCluster(ctx, t, 3, nil)
	first, paused, last := k.addresses[0], k.addresses[1], k.addresses[2]
	k.used[paused].Store(900)
	k.until(ctx, t, paused, "paused")
	q, err := Form(ctx, k.c, Options{Workers: []string{first}})
	if err != nil {
		t.Fatal(err)
	}
	two, err := q.Reform(ctx, ReformOptions{Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := two.Workers(), []string{first, last}; !slices.Equal(got, want) {
		t.Errorf("got ranks on %v, want %v", got, want)
	}
	if err := two.Dissolve(ctx); err != nil {
		t.Error(err)
	}
}

var (
	gateOpen = make(chan struct{}, 1)
	gateFn   = client.Func0("test.clique.gate", func(ctx context.Context) (int, error) {
		select {
		case <-gateOpen:
			return 1, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
)

// The task of a rank whose worker is gone is canceled while others still run, and its error says that it is gone.
func TestWaitForGone(t *testing.T) {
	ctx := quickContext(t)
	k := startCluster(ctx, t, 2, nil)
	q, err := Form(ctx, k.c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var futures []*client.Future[int]
	for _, w := range q.Workers() {
		futures = append(futures, gateFn.Submit(ctx, k.c, client.WithWorkers(w), client.WithImpure()))
	}
	ended := make(chan error, 1)
	go func() { ended <- q.Wait(ctx, "gate", client.Futures(futures)) }()
	victim := q.Workers()[1]
	if err := k.workers[victim].Close(); err != nil {
		t.Fatal(err)
	}
	k.until(ctx, t, victim, "")
	if err := client.Wait(ctx, futures[1:]); err != nil {
		t.Fatal(err)
	}
	if got := futures[1].Status(); got != client.Canceled {
		t.Errorf("the task of the rank that is gone is %v, want %v", got, client.Canceled)
	}
	gateOpen <- struct{}{}
	err = <-ended
	var failed *RunError
	if !errors.As(err, &failed) || len(failed.Ranks) != 1 || !slices.Equal(failed.Dead, []int{1}) {
		t.Fatalf("got %v, want the end of rank 1 alone", err)
	}
	var gone *RankError
	if !errors.As(failed.Ranks[1], &gone) || gone.Rank != 1 ||
		!strings.Contains(gone.Error(), "the worker has left the cluster") {
		t.Errorf("rank 1 ended with %v, want that the worker has left the cluster", failed.Ranks[1])
	}
	if err := q.Dissolve(ctx); err != nil {
		t.Error(err)
	}
}

// A clique is dissolved once: the second time asks no worker, and so does not need the client.
func TestDissolveTwice(t *testing.T) {
	ctx := quickContext(t)
	k := startCluster(ctx, t, 2, nil)
	q, err := Form(ctx, k.c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(q.Dissolve(ctx), k.c.Close()); err != nil {
		t.Fatal(err)
	}
	if err := q.Dissolve(ctx); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

// forgery is a network whose comms replace the answer of a worker to the roster, once it is set, by an error.
type forgery struct {
	comm.Network
	worker atomic.Pointer[string]
}

func (f *forgery) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	c, err := f.Network.Dial(ctx, address, cfg)
	if err != nil {
		return nil, err
	}
	return forgedComm{c, f}, nil
}

type forgedComm struct {
	comm.Comm
	f *forgery
}

func (c forgedComm) Read(ctx context.Context) (*wire.Message, error) {
	m, err := c.Comm.Read(ctx)
	victim := c.f.worker.Load()
	if err != nil || victim == nil {
		return m, err
	}
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		return m, nil // not an answer of workers
	}
	all, _ := v.(msgpack.Map)
	answer, _ := all.Get(*victim)
	one, ok := answer.(msgpack.Map)
	if text := one.GetString("result"); !ok || !strings.Contains(text, `"backend"`) {
		return m, nil
	}
	one.Set("result", `{"error":"out of luck"}`)
	all.Set(*victim, one)
	defer m.Release()
	return wire.Encode(all, wire.EncodeOptions{})
}

// When one worker cannot become a rank, the others forget the clique that they have formed.
func TestFormFailsOnOne(t *testing.T) {
	ctx := quickContext(t)
	network := &forgery{Network: comm.Default}
	k := startCluster(ctx, t, 2, network)
	victim, other := k.addresses[1], k.addresses[0]
	network.worker.Store(&victim)
	_, err := Form(ctx, k.c, Options{Backend: Comm})
	var failed *FormError
	if !errors.As(err, &failed) || len(failed.Workers) != 1 || failed.Workers[victim] != "out of luck" {
		t.Fatalf("got %v, want the error of %s", err, victim)
	}
	for _, w := range []string{victim, other} {
		answers, err := request[stateReply](ctx, k.c, dissolveFn, idRequest{failed.Clique}, []string{w})
		if err != nil || answers[w].Known {
			t.Errorf("%s: got %+v, %v; want a worker without the clique", w, answers[w], err)
		}
	}
}

// answered is a connection that has been accepted.
type answered struct{ *heldComm }

func (c answered) Write(context.Context, *wire.Message) error { return nil }
func (c answered) Err() error                                 { return nil }
func (c answered) PeerAddr() string                           { return "tcp://a:1" }
func (c answered) Info() comm.Info                            { return comm.Info{} }
func (c answered) Read(context.Context) (*wire.Message, error) {
	return wire.Encode("OK", wire.EncodeOptions{})
}

// halfNetwork reaches rank 0, but only after rank 1 could not be reached.
type halfNetwork struct {
	comm.Network
	c comm.Comm
}

var errNoRoute = errors.New("no route")

func (n halfNetwork) Dial(ctx context.Context, address string, _ comm.DialConfig) (comm.Comm, error) {
	if address != "tcp://a:1" {
		return nil, errNoRoute
	}
	<-ctx.Done()
	return n.c, nil
}

// A connection that comes about after the forming has failed is cut.
func TestConnectFails(t *testing.T) {
	h := newHub()
	h.host.Worker = "tcp://a:3"
	c := answered{newHeldComm()}
	h.peers = &peernet.Peers{Network: halfNetwork{c: c}}
	s := newSession(h, "id")
	defer s.close(nil)
	roster := formRequest{Ranks: []prepared{{Member: Member{Worker: "tcp://a:1"}},
		{Member: Member{Rank: 1, Worker: "tcp://a:2"}}, {Member: Member{Rank: 2, Worker: "tcp://a:3"}}}}
	if _, err := s.connect(quickContext(t), 2, roster); !errors.Is(err, errNoRoute) ||
		!strings.Contains(err.Error(), "connect to rank 1 (tcp://a:2)") {
		t.Errorf("got %v, want that rank 1 is not reached", err)
	}
	select {
	case <-c.Done():
	default:
		t.Error("the connection to rank 0 is open")
	}
}

// What a worker has prepared waits a second for the roster at least, and a session that was in use when its time was
// over ends when it has been idle for as long again.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		known := func(id string) bool { _, err := h.session(id); return err == nil }
		for _, keep := range []time.Duration{-time.Hour, 0, time.Millisecond, time.Second} {
			if err := h.add(newSession(h, "id"), keep); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second - 1)
			if synctest.Wait(); !known("id") {
				t.Errorf("what waits %v for its roster is gone within a second", keep)
			}
			time.Sleep(time.Nanosecond)
			if synctest.Wait(); known("id") {
				t.Errorf("what waits %v for its roster is there after a second", keep)
			}
		}
		s := newSession(h, "used")
		s.idle, s.joined = time.Minute, 1
		if err := h.add(s, time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if synctest.Wait(); !known("used") {
			t.Fatal("a session in use is gone")
		}
		s.leave()
		time.Sleep(time.Minute - 1)
		if synctest.Wait(); !known("used") {
			t.Error("a session is gone before it was idle for its time")
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); known("used") {
			t.Error("a session that is no longer used is still there")
		}
	})
}
