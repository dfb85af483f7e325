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

// servedOver returns the schemes over which a worker sent n results, in order. A worker records a transfer when the
// client has acknowledged it, so that the last one may be in flight.
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
			r.t.Fatalf("transfers of the worker: got %v, want %d", out, n)
		}
	}
}

// Large results are sent over the data connection of the worker once it pays off.
func TestResultsOverDataConnections(t *testing.T) {
	r := newRig(t, "tcp://127.0.0.1:0", 0)
	w := r.addWorker(worker.Config{DataConnections: worker.DataConnections{Listen: "inproc://"}})
	for i := range 4 {
		n := 5<<20 + i
		b, err := bigOnes.Submit(r.ctx, r.c, client.Val(n)).Result(r.ctx)
		if err != nil || len(b) != n {
			t.Fatalf("got %d bytes, %v, want %d", len(b), err, n)
		}
	}
	if got := r.servedOver(w, 4); got != "tcp tcp inproc inproc" {
		t.Errorf("schemes: got %s, want tcp tcp inproc inproc", got)
	}
}

// noInproc is a network on which data connections of tests cannot be dialed.
type noInproc struct{ comm.Network }

func (n noInproc) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	if strings.HasPrefix(address, "inproc:") {
		return nil, errors.New("inproc is not available")
	}
	return n.Network.Dial(ctx, address, cfg)
}

// Workers without data connections, or whose data connections cannot be dialed, send over their own address.
func TestResultsWithoutDataConnections(t *testing.T) {
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
				t.Fatalf("got %d bytes, %v, want %d", len(b), err, n)
			}
		}
	}
	for _, w := range []*worker.Worker{without, with} {
		if got := r.servedOver(w, 3); got != "tcp tcp tcp" {
			t.Errorf("results of %s: got %s, want tcp tcp tcp", w.Address(), got)
		}
	}
}
