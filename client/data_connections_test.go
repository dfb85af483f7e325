package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/comm"
	"go.millstream.dev/worker"
)

var bigOnes = client.Func("big-ones", func(_ context.Context, n int) ([]byte, error) { return make([]byte, n), nil })

// servedOver are the schemes over which a worker handed n results over, in order. It notes a
// transfer when the client has acknowledged it, so the last may be on its way.
func (r *rig) servedOver(w *worker.Worker, n int) string {
	r.t.Helper()
	for {
		var out []string
		for _, x := range w.Transfers() {
			if !x.Incoming && x.Error == "" {
				out = append(out, x.Scheme)
			}
		}
		if len(out) >= n {
			return strings.Join(out, " ")
		}
		select {
		case <-time.After(time.Millisecond):
		case <-r.ctx.Done():
			r.t.Fatalf("the worker handed over %v, want %d", out, n)
		}
	}
}

// Large results come over the worker's lane once it pays.
func TestResultsOverLanes(t *testing.T) {
	r := newRig(t, "tcp://127.0.0.1:0", 0)
	w := r.addWorker(worker.Config{DataConnections: worker.DataConnections{Listen: "inproc://"}})
	for i := range 4 {
		n := 5<<20 + i
		b, err := bigOnes.Submit(r.ctx, r.c, client.Val(n)).Result(r.ctx)
		if err != nil || len(b) != n {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
	}
	if got := r.servedOver(w, 4); got != "tcp tcp inproc inproc" {
		t.Errorf("results came over: got %s, want tcp tcp inproc inproc", got)
	}
}

// noInproc is a network on which lanes of tests cannot be dialled.
type noInproc struct{ comm.Network }

func (n noInproc) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	if strings.HasPrefix(address, "inproc:") {
		return nil, errors.New("there is no such way")
	}
	return n.Network.Dial(ctx, address, cfg)
}

// Workers without a lane, and lanes that cannot be dialled, hand over at their own address.
func TestResultsWithoutLanes(t *testing.T) {
	r := newRig(t, "tcp://127.0.0.1:0", 1)
	without := r.workers[0]
	with := r.addWorker(worker.Config{DataConnections: worker.DataConnections{Listen: "inproc://"}})
	c, err := client.Connect(r.ctx, r.scheduler.Address(), client.Config{Network: noInproc{comm.Default},
		Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 3 {
		for _, on := range r.workers {
			n := 9<<20 + i
			b, err := bigOnes.Submit(r.ctx, c, client.Val(n), client.WithWorkers(on.Address()),
				client.WithImpure()).Result(r.ctx)
			if err != nil || len(b) != n {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
		}
	}
	for _, w := range []*worker.Worker{without, with} {
		if got := r.servedOver(w, 3); got != "tcp tcp tcp" {
			t.Errorf("results of %s came over %s", w.Address(), got)
		}
	}
}
