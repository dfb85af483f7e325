package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/proc/stdio"
	"go.millstream.dev/worker"
)

// demoWork is the size of the workload.
type demoWork struct{ parts, rows, buckets int }

// work returns a workload of a few seconds on two processors.
func work(workers int) demoWork {
	return demoWork{parts: 8 * workers, rows: 250_000, buckets: 4 * workers}
}

// demoStep is one row of the table.
type demoStep struct {
	name  string
	tasks int
	bytes int64
	rows  int64
	took  time.Duration
}

// demoCluster starts a cluster on this machine and runs the workload. The caller closes the cluster, which is nil after
// an error.
func demoCluster(ctx context.Context, out, stderr io.Writer) (*cluster.Cluster, error) {
	begin := time.Now()
	c, err := cluster.Local(ctx, cluster.Config{Workers: max(2, cluster.CPUs()), Threads: 1,
		Dashboard: "127.0.0.1:0", WorkerDashboard: "127.0.0.1:0"})
	if err != nil {
		return nil, err
	}
	if err := demoWorkload(ctx, c, time.Since(begin), out, stderr); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// demoWorkload runs the workload.
func demoWorkload(ctx context.Context, c *cluster.Cluster, started time.Duration, out, stderr io.Writer) error {
	cl, err := c.Client(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	workers := c.Workers()
	fmt.Fprintf(out, "a cluster of %d worker processes at %s, started in %v\n", len(workers), c.Address(),
		started.Round(time.Millisecond))
	for _, w := range workers {
		data := "data over the control connection"
		if len(w.DataAddresses) > 0 {
			data = "data over " + strings.Join(w.DataAddresses, ", ")
		}
		fmt.Fprintf(out, "  worker %s  process %d at %s, %s\n", w.Name, w.PID, w.Address, data)
	}
	d := demoRun{ctx: ctx, c: cl, work: work(len(workers)), bar: stderr}
	want, text := demoExpected(d.work.parts, d.work.rows)
	d.text = text
	totals, err := d.run()
	if err != nil {
		return err
	}
	if !slices.Equal(totals, want) {
		return errors.New("wrong totals: this is a bug in Millstream, please report it")
	}
	d.report(out, totals)
	return demoTransfers(ctx, out, workers)
}

// demoRun is a running workload.
type demoRun struct {
	ctx   context.Context
	c     *client.Client
	work  demoWork
	text  int64 // size of all texts in bytes
	bar   io.Writer
	steps []demoStep
}

// run runs the graph step by step, so that each step can be measured.
func (d *demoRun) run() ([]int64, error) {
	w := d.work
	seeds, rows := make([]int, w.parts), make([]int, w.parts)
	for i := range seeds {
		seeds[i], rows[i] = i, w.rows
	}
	total := int64(w.parts) * int64(w.rows)
	var texts []*client.Future[[]byte]
	err := d.step("generate", w.parts, d.text, 0, func() []client.AnyFuture {
		texts = demoGenerate.Map(d.ctx, d.c, seeds, rows)
		return client.Futures(texts)
	})
	if err != nil {
		return nil, err
	}
	var parsed []*client.Future[[]int32]
	err = d.step("parse", w.parts, d.text, total, func() []client.AnyFuture {
		parsed = demoParse.MapArgs(d.ctx, d.c, client.Args(texts))
		return client.Futures(parsed)
	})
	if err != nil {
		return nil, err
	}
	for _, f := range texts {
		f.Release() // no longer needed
	}
	var totals []*client.Future[[]int64]
	err = d.step("shuffle", w.parts*w.buckets+w.buckets, total*8, total, func() []client.AnyFuture {
		for j := range w.buckets {
			column := make([]*client.Future[[]int32], w.parts)
			for i, p := range parsed {
				column[i] = demoBucket.Submit(d.ctx, d.c, p, client.Val(j), client.Val(w.buckets))
			}
			totals = append(totals, demoAggregate.Submit(d.ctx, d.c, client.ListOf(column)))
		}
		return client.Futures(totals)
	})
	if err != nil {
		return nil, err
	}
	var all *client.Future[[]int64]
	if err := d.step("combine", 1, 0, 0, func() []client.AnyFuture {
		all = demoCombine.Submit(d.ctx, d.c, client.ListOf(totals))
		return []client.AnyFuture{all}
	}); err != nil {
		return nil, err
	}
	return all.Result(d.ctx)
}

// step submits tasks, shows their progress, and measures the time.
func (d *demoRun) step(name string, tasks int, bytes, rows int64, submit func() []client.AnyFuture) error {
	begin := time.Now()
	futures := submit()
	if stdio.IsTerminal(d.bar) {
		fmt.Fprintln(d.bar, name)
	} else {
		fmt.Fprint(d.bar, name+" ")
	}
	if err := client.ProgressBar(d.ctx, d.bar, futures...); err != nil {
		return err
	}
	for _, f := range futures {
		if err := f.Err(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	d.steps = append(d.steps, demoStep{name, tasks, bytes, rows, time.Since(begin)})
	return nil
}

// report prints the result and the table of steps.
func (d *demoRun) report(out io.Writer, totals []int64) {
	type host struct{ id, requests, bytes int64 }
	var hosts []host
	var requests, bytes int64
	for i := 0; i+2 < len(totals); i += 3 {
		hosts = append(hosts, host{totals[i], totals[i+1], totals[i+2]})
		requests, bytes = requests+totals[i+1], bytes+totals[i+2]
	}
	slices.SortFunc(hosts, func(a, b host) int { return int(b.requests - a.requests) })
	fmt.Fprintf(out, "\n%d requests of %d hosts, %s in all; the busiest:", requests, len(hosts),
		benchfmt.FormatSize(bytes))
	for _, h := range hosts[:min(3, len(hosts))] {
		fmt.Fprintf(out, " host-%d (%d)", h.id, h.requests)
	}
	fmt.Fprintf(out, "\nall totals verified\n\n")
	columns := []benchfmt.Column{{Name: "step"}, {Name: "tasks", Right: true}, {Name: "ms", Right: true},
		{Name: "tasks/s", Right: true}, {Name: "M rows/s", Right: true}, {Name: "MB/s", Right: true}}
	var rows [][]string
	for _, s := range d.steps {
		seconds := s.took.Seconds()
		row := []string{s.name, fmt.Sprint(s.tasks), benchfmt.FormatValue(seconds * 1e3),
			benchfmt.FormatValue(float64(s.tasks) / seconds), "-", "-"}
		if s.rows > 0 {
			row[4] = benchfmt.FormatValue(float64(s.rows) / seconds / 1e6)
		}
		if s.bytes > 0 {
			row[5] = benchfmt.FormatValue(float64(s.bytes) / seconds / 1e6)
		}
		rows = append(rows, row)
	}
	benchfmt.WriteColumns(out, "  ", columns, rows)
}

// demoTransfers prints the schemes over which the workers fetched from each other, from their records.
func demoTransfers(ctx context.Context, out io.Writer, workers []cluster.WorkerInfo) error {
	type total struct {
		transfers int
		bytes     int64
		seconds   float64
	}
	totals := map[string]*total{}
	for _, w := range workers {
		var records []worker.Transfer
		if err := getJSON(ctx, "http://"+w.HTTP+"/millstream/transfers", &records); err != nil {
			return fmt.Errorf("transfers of worker %s: %w", w.Name, err)
		}
		for _, r := range records {
			if !r.Incoming || r.Error != "" {
				continue
			}
			if totals[r.Scheme] == nil {
				totals[r.Scheme] = &total{}
			}
			l := totals[r.Scheme]
			l.transfers, l.bytes, l.seconds = l.transfers+1, l.bytes+r.Bytes, l.seconds+r.Duration
		}
	}
	fmt.Fprintln(out)
	columns := []benchfmt.Column{{Name: "data between workers"}, {Name: "transfers", Right: true},
		{Name: "data", Right: true}, {Name: "ms each", Right: true}}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		l := totals[name]
		// All processors are busy: the time includes the wait until the task could continue.
		each := benchfmt.FormatValue(l.seconds / float64(l.transfers) * 1e3)
		rows = append(rows, []string{name, fmt.Sprint(l.transfers), benchfmt.FormatSize(l.bytes), each})
	}
	benchfmt.WriteColumns(out, "  ", columns, rows)
	return nil
}

// getJSON fetches JSON from a server of this machine.
func getJSON(ctx context.Context, url string, to any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(to)
}
