package cluster_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
)

// The log and the metrics of the scheduler include transfers between worker processes.
func TestTransfersReachScheduler(t *testing.T) {
	leak.Check(t)
	ctx, lc, c := start(t, cluster.Config{Workers: 2, Threads: 1, Mode: cluster.Processes, DataConnections: "none",
		Dashboard: "127.0.0.1:0"})
	get := func(path string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+lc.Scheduler().DashboardAddress()+path,
			nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, %v", path, r.StatusCode, err)
		}
		return string(b)
	}
	if got := get("/metrics"); strings.Contains(got, "millstream_scheduler_transfers_total{") {
		t.Errorf("transfers before there were any: %s", got)
	}
	const n, each = 5, 300_000
	workers, err := c.Workers(ctx)
	if err != nil || len(workers) != 2 {
		t.Fatalf("workers %v, %v", workers, err)
	}
	var from, to string
	for address, w := range workers {
		if w.Name == "0" {
			from = address
		} else {
			to = address
		}
	}
	for i := range n {
		b := blob.Submit(ctx, c, client.Val(each+i), client.WithWorkers(from))
		got, err := size.Submit(ctx, c, client.List[[]byte](b), client.WithWorkers(to)).Result(ctx)
		if err != nil || got != each+i {
			t.Fatalf("blob %d on the other worker: %d, %v, want %d", i, got, err, each+i)
		}
	}
	type transfer struct {
		Worker, Peer, Scheme string
		Incoming             bool
		Bytes, Keys          int64
		Start, Duration      float64
	}
	var log struct{ Transfers []transfer }
	var count, bytes, seconds float64
	var scheme string
	for count < n { // they arrive with heartbeats
		if ctx.Err() != nil {
			t.Fatalf("%v transfers in the metrics, want %d: %+v", count, n, log.Transfers)
		}
		time.Sleep(20 * time.Millisecond)
		for line := range strings.Lines(get("/metrics")) {
			name, labels, ok := strings.Cut(line, "{scheme=\"")
			if !ok {
				continue
			}
			var value string
			scheme, value, _ = strings.Cut(labels, "\"} ")
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			switch name {
			case "millstream_scheduler_transfers_total":
				count = v
			case "millstream_scheduler_transfer_bytes_total":
				bytes = v
			case "millstream_scheduler_transfer_seconds_total":
				seconds = v
			}
		}
	}
	if count != n || bytes < n*each || bytes > 2*n*each || seconds <= 0 || scheme != "tls" {
		t.Errorf("metrics: %v transfers of %v bytes in %v s over %q, want %d of %d and a bit over tls", count, bytes,
			seconds, scheme, n, n*each)
	}
	incoming, outgoing := 0, 0
	for incoming < n || outgoing < n {
		if ctx.Err() != nil {
			t.Fatalf("log: %d incoming and %d outgoing transfers, want %d each: %+v", incoming, outgoing, n,
				log.Transfers)
		}
		if err := json.Unmarshal([]byte(get("/millstream/transfers")), &log); err != nil {
			t.Fatal(err)
		}
		incoming, outgoing = 0, 0
		for _, x := range log.Transfers {
			switch {
			case x.Incoming && x.Worker == to && x.Peer == from:
				incoming++
				if x.Bytes < each || x.Keys != 1 || x.Scheme != "tls" || x.Duration <= 0 || x.Start < 1e9 {
					t.Errorf("incoming transfer %+v, want one key of %d bytes and a bit over tls", x, each)
				}
			case !x.Incoming && x.Worker == from:
				outgoing++
			case x.Incoming:
				t.Errorf("transfer %+v, want from %s to %s", x, from, to)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}
