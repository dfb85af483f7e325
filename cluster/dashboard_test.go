package cluster_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/task"
	"go.millstream.dev/worker"
)

// The dashboard of a local cluster has every task and transfer of its worker processes, also in a second run.
func TestDashboardShowsRun(t *testing.T) {
	leak.Check(t)
	ctx, lc, c := start(t, cluster.Config{Workers: 2, Threads: 1, Mode: cluster.Processes, DataConnections: "none",
		Dashboard: "127.0.0.1:0"})
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string, out any) {
		t.Helper()
		r, err := web.Get("http://" + lc.Scheduler().DashboardAddress() + "/millstream/" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if err := json.NewDecoder(r.Body).Decode(out); err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, error %v", path, r.StatusCode, err)
		}
	}
	var from, to string
	for _, w := range lc.Workers() {
		if w.Name == "0" {
			from = w.Address
		} else {
			to = w.Address
		}
	}
	const n, each = 5, 300_000
	for run := 1; run <= 2; run++ {
		for i := range n {
			b := blob.Submit(ctx, c, client.Val(each+i), client.WithWorkers(from), client.WithImpure())
			got, err := size.Submit(ctx, c, client.List[[]byte](b), client.WithWorkers(to),
				client.WithImpure()).Result(ctx)
			if err != nil || got != each+i {
				t.Fatalf("blob %d on the other worker: %d, %v, want %d", i, got, err, each+i)
			}
		}
		var rows struct {
			Rows  []struct{ Worker, Kind string }
			Names []string
		}
		var list struct {
			Spans []struct {
				Row, Cat    int
				Key, Peer   string
				Bytes       int64
				Incoming    bool
				Start, Stop int64
			}
		}
		tasks, waits, moved := map[string]int{}, map[string]int{}, 0
		for len(tasks) == 0 || tasks[from] < run*n || tasks[to] < run*n || moved < run*n { // with heartbeats
			if ctx.Err() != nil {
				t.Fatalf("run %d: got tasks %v and %d transfers, want %d each", run, tasks, moved, run*n)
			}
			time.Sleep(20 * time.Millisecond)
			get("rows.json", &rows)
			list.Spans = nil
			get("spans.json?limit=1000", &list)
			clear(tasks)
			clear(waits)
			moved = 0
			for _, s := range list.Spans {
				if s.Row >= len(rows.Rows) {
					continue // newer than the page of rows, which is kept for a moment
				}
				r := rows.Rows[s.Row]
				switch {
				case r.Kind == "thread" && rows.Names[s.Cat] == "waiting":
					waits[r.Worker]++
				case r.Kind == "thread" && strings.HasPrefix(rows.Names[s.Cat], "cluster_test"):
					tasks[r.Worker]++
				case r.Kind == "transfer" && s.Incoming && r.Worker == to && s.Peer == from && s.Bytes >= each:
					moved++
				}
			}
		}
		if tasks[from] != run*n || tasks[to] != run*n || moved != run*n {
			t.Errorf("run %d: got tasks %v and %d transfers, want %d each", run, tasks, moved, run*n)
		}
		if waits[to] == 0 || waits[from] > 0 {
			t.Errorf("run %d: got waits for data %v, want some of %s only", run, waits, to)
		}
	}
	var workers struct{ Workers []dashboard.Worker }
	get("workers.json", &workers)
	if len(workers.Workers) != 2 || workers.Workers[0].Memory.RSS <= 0 {
		t.Errorf("workers: got %+v, want 2 with their memory", workers.Workers)
	}
	var matrix dashboard.Bandwidth
	get("bandwidth.json", &matrix)
	if len(matrix.Pairs) != 1 || matrix.Pairs[0].From != from || matrix.Pairs[0].To != to ||
		matrix.Pairs[0].Count < 2*n || matrix.Pairs[0].Rate <= 0 {
		t.Errorf("bandwidth: got %+v, want %d transfers from %s to %s", matrix.Pairs, 2*n, from, to)
	}
	if p := matrix.Pairs[0]; p.Transport == "tls" && p.Reason == "" {
		t.Errorf("pair over tls: got no reason, want why it is not faster")
	}
}

var secede = client.Func("cluster_test.secede", func(ctx context.Context, ms int) (int, error) {
	if err := task.Secede(ctx); err != nil {
		return 0, err
	}
	time.Sleep(time.Duration(ms) * time.Millisecond)
	return ms, nil
})

// A task that needs a resource of a task that has left its thread waits for a slot, although the thread is idle.
func TestDashboardShowsWaitForSlot(t *testing.T) {
	leak.Check(t)
	ctx, lc, c := start(t, cluster.Config{Workers: 1, Threads: 1, Mode: cluster.Goroutines, Dashboard: "127.0.0.1:0"})
	w, err := worker.Start(ctx, worker.Config{Scheduler: lc.Address(), Threads: 1,
		Resources: map[string]float64{"LICENSE": 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const ms = 100
	license := client.WithResources(map[string]float64{"LICENSE": 1})
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		// On a busy machine the second task may arrive when the first one has almost ended: then they run again.
		first := secede.Submit(ctx, c, client.Val(ms), license, client.WithImpure())
		second := inc.Submit(ctx, c, client.Val(1), license, client.WithPriority(-1), client.WithImpure())
		if _, err := client.Gather(ctx, []*client.Future[int]{first, second}); err != nil {
			t.Fatal(err)
		}
		r, err := web.Get("http://" + lc.Scheduler().DashboardAddress() + "/millstream/summary.json")
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Categories []struct {
				Name    string
				Seconds float64
			}
		}
		err = json.NewDecoder(r.Body).Decode(&got)
		_ = r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, total := range got.Categories {
			if total.Name == "waiting-slot" && total.Seconds >= 0.5*ms/1000 {
				return
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("got %+v, want %d ms of waiting for a slot", got, ms)
		}
	}
}
