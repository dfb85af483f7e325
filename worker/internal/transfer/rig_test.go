package transfer

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/internal/comm/dataconn"
	_ "go.millstream.dev/internal/comm/tcp"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/wire"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// node is a Manager with a server, as a worker has them.
type node struct {
	*Manager
	server  *rpc.Server
	address string

	mu        sync.Mutex
	paused    bool
	lost      []task.Key
	actors    map[task.Key]bool
	delivered chan *Fetch
}

func start(t *testing.T, cfg Config) *node {
	t.Helper()
	n := &node{delivered: make(chan *Fetch, 10), actors: map[task.Key]bool{}}
	data, err := store.New(store.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	cfg.Data, cfg.Records = data, 100
	if cfg.Network == nil {
		cfg.Network = comm.Default
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Outgoing == 0 {
		cfg.Outgoing = 50
	}
	if cfg.AckTimeout == 0 {
		cfg.AckTimeout = time.Minute
	}
	cfg.Worker = Worker{
		Context: ctx,
		Go:      all.Go,
		Paused:  func() bool { return n.locked(func() bool { return n.paused }) },
		Lost:    func(k task.Key, _ error) { n.locked(func() bool { n.lost = append(n.lost, k); return true }) },
		Encode:  func(held []*store.Entry) []*store.Entry { return held },
		IsActor: func(k task.Key) bool { return n.locked(func() bool { return n.actors[k] }) },
		Room:    func(*Fetch) {},
		Deliver: func(f *Fetch) { n.delivered <- f },
	}
	n.Manager = New(cfg)
	l, err := comm.Listen(ctx, "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	n.address = l.ContactAddr()
	n.server = rpc.NewServer(rpc.Config{Type: "Worker", Logger: cfg.Logger, Decode: wire.DecodeOptions{Keep: true}})
	n.server.Handle("get_data", n.GetData)
	n.server.Handle(dataconn.Op, n.OfferConnections)
	all.Go(func() { _ = n.server.Serve(ctx, l) })
	if err := n.Listen(t.Context(), n.address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = n.server.Close()
		n.Close()
		all.Wait()
		_ = data.Close()
	})
	return n
}

func (n *node) locked(f func() bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return f()
}

// put stores a value under a key.
func (n *node) put(key string, v any) task.Key {
	k := task.NewKey(key)
	value := task.NewValue(v)
	n.data.Put(k, value, value.Size())
	return k
}

// get fetches keys from a peer.
func (n *node) get(t *testing.T, peer string, keys ...task.Key) *Fetch {
	t.Helper()
	n.Start(peer, keys)
	select {
	case f := <-n.delivered:
		return f
	case <-time.After(time.Minute):
		t.Fatal("timeout: transfer not ended")
		return nil
	}
}

// live returns the values of a fetch by key.
func live(t *testing.T, f *Fetch) map[string]any {
	t.Helper()
	if f.Err != nil || f.Busy {
		t.Fatalf("fetch: got %v, busy %v", f.Err, f.Busy)
	}
	out := map[string]any{}
	for i, v := range f.Values {
		s, err := v.Encoded()
		if err != nil {
			t.Fatal(err)
		}
		x, err := s.Decode(wire.DecodeOptions{})
		if err != nil {
			out[f.Stored[i].Key.String()] = err
			continue
		}
		out[f.Stored[i].Key.String()] = x
	}
	return out
}
