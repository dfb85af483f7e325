package client_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// fakeDask is a scheduler that handles the requests of a connecting client like a release of Dask, and keeps the graphs
// that it receives. (tests/dask tests how the real scheduler handles them.)
type fakeDask struct {
	address string
	graphs  chan wire.Dict
}

func newFakeDask(t *testing.T, release string, handle ...func(*rpc.Server)) *fakeDask {
	t.Helper()
	leak.Check(t)
	f := &fakeDask{graphs: make(chan wire.Dict, 10)}
	l, err := comm.Default.Listen(t.Context(), "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	f.address = l.ContactAddr()
	s := rpc.NewServer(rpc.Config{Type: "Scheduler", Logger: quiet})
	s.Handle("versions", func(context.Context, *rpc.Request) (any, error) {
		return wire.NewDict("packages", wire.NewDict("distributed", release, "python", "3.12.1.final.0")), nil
	})
	s.Handle("register-client", func(ctx context.Context, r *rpc.Request) (any, error) {
		m, err := wire.Encode([]any{wire.NewDict("op", "stream-start", "warning", "Mismatched versions found")},
			wire.EncodeOptions{})
		if err != nil {
			return nil, err
		}
		if err := r.Comm.Write(ctx, m); err != nil {
			return nil, err
		}
		f.listen(ctx, r.Comm)
		return rpc.NoReply, nil
	})
	for _, f := range handle {
		f(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(ctx, l) })
	t.Cleanup(func() {
		cancel()
		_ = s.Close()
		wg.Wait()
	})
	return f
}

// listen keeps the graphs of a stream.
func (f *fakeDask) listen(ctx context.Context, c comm.Comm) {
	for {
		m, err := c.Read(ctx)
		if err != nil {
			return
		}
		v, err := wire.Decode(m, wire.DecodeOptions{Keep: true, KeepPickled: true})
		list, _ := v.([]any)
		for _, x := range list {
			if d, ok := x.(wire.Dict); ok && err == nil && d.GetString("op") == "update-graph" {
				f.graphs <- d
			}
		}
	}
}

func TestDaskReleases(t *testing.T) {
	for release, want := range map[string]struct{ err, warning string }{
		"2026.7.1": {}, "2025.4.1": {},
		"2025.3.0": {err: "2025.3.0"}, "2024.12.1": {err: "2024.12.1"},
		"2027.1.0": {warning: "2027.1.0"}, "": {warning: "release"},
	} {
		t.Run(release, func(t *testing.T) {
			f := newFakeDask(t, release)
			var log strings.Builder
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c, err := client.Connect(ctx, f.address, client.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if want.err != "" {
				if err == nil || !strings.Contains(err.Error(), want.err) {
					t.Fatalf("got error %v, want %q", err, want.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if warned := strings.Contains(log.String(), "WARN"); warned != (want.warning != "") ||
				!strings.Contains(log.String(), want.warning) {
				t.Errorf("the log is %s", log.String())
			}
		})
	}
}

// Dask's scheduler receives pickled graphs with the order and annotations of the tasks.
func TestDaskGraphs(t *testing.T) {
	f := newFakeDask(t, "2026.7.1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Connect(ctx, f.address, client.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pyAdd := client.Python[int]("operator:add")

	g := client.NewGraph()
	one := inc.Node(g, "one", client.Val(1), client.WithRetries(2))
	two := pyAdd.With(client.WithWorkers("w"), client.WithPriority(1)).Node(g, "two", one, 5)
	futures, err := client.Compute(ctx, c, g, two)
	if err != nil {
		t.Fatal(err)
	}
	d := <-f.graphs
	graph, _, ok := graphOf(t, d)
	if !ok || graph.Len() != 2 {
		t.Fatalf("graph: got %v, want two tasks", graph)
	}
	if v, _ := d.Get("internal_priority"); v != nil {
		t.Errorf("order of the graph: got %v, want none: the scheduler orders it", v)
	}
	if keys, _ := d.Get("keys"); len(keys.(wire.Set)) != 1 {
		t.Errorf("keys: got %v, want one", keys)
	}
	v, _ := graph.Get("one")
	if refs := pickle.References(v); len(refs) != 0 {
		t.Errorf("references of one: got %v, want none", refs)
	}
	notes, _ := d.Get("annotations")
	tree, err := pickle.Load(notes.(*wire.Pickled).Data, nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	text := pickle.Repr(tree)
	for _, part := range []string{"'retries'", "'priority'", "'workers'", "'resources'", "{'go': 0.0}", "__getitem__"} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is not in the annotations %s", part, text)
		}
	}

	// After a graph that the scheduler orders it orders all, so that none overtakes it.
	after := pyAdd.With(client.WithWorkers("w")).Submit(ctx, c, futures[0], 1)
	d = <-f.graphs
	if v, _ := d.Get("internal_priority"); v != nil {
		t.Errorf("order of a graph after one without an order: got %v, want none", v)
	}
	if notes, _ := d.Get("annotations"); notes.(wire.Dict).Has("retries") || !notes.(wire.Dict).Has("workers") {
		t.Errorf("annotations: got %v, want workers only", notes)
	}
	after.Release()
	futures[0].Release()
	mapped := pyAdd.Map(ctx, c, []int{1, 2, 3}, []int{4, 5, 6})
	d = <-f.graphs
	order, _ := d.Get("internal_priority")
	if m, ok := order.(msgpack.Map); !ok || len(m) != 3 {
		t.Errorf("order of a map: got %v, want that of three tasks", order)
	}
	client.ReleaseAll(mapped)
}

// graphOf decodes expr_ser.
func graphOf(t *testing.T, d wire.Dict) (*pickle.Dict, string, bool) {
	t.Helper()
	v, _ := d.Get("expr_ser")
	s, ok := v.(*wire.Serialized)
	if !ok {
		t.Fatalf("expr_ser is a %T", v)
	}
	tree, err := pickle.Load(s.Frames[0].Bytes(), nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return pickle.AsGraph(tree)
}
