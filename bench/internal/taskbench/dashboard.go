package taskbench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
)

// Viewers of the dashboard, and the targets: tasks per second with them, divided by those without a dashboard, and the
// processor time of the dashboard in percent of a core.
const (
	viewers        = 20
	watchedRate    = 50_000 // tasks per second
	dashboardBar   = 0.95
	dashboardBarPC = 5
)

// watched is one round with or without a dashboard.
type watched struct {
	rate    float64 // tasks per second
	cpu     float64 // processor time of the scheduler in seconds
	seconds float64
	events  int64 // of the live streams
	tiles   int64
}

// dashboard measures the rate of tasks and the processor time of a scheduler with a dashboard and viewers, against one
// without a dashboard, in alternating rounds. The best rate and the median difference of processor time count.
func (b *bench) dashboard(ctx context.Context, c Case, step func(string, ...any)) error {
	var off, on watched
	var extra []float64
	for round := range b.o.Rounds {
		var pair [2]watched
		for i := range pair {
			with := (i+round)%2 == 1
			step("round %d of %d, dashboard %v", round+1, b.o.Rounds, with)
			w, err := b.watch(ctx, with)
			if err != nil {
				return err
			}
			to := &off
			if with {
				to = &on
				pair[1] = w
			} else {
				pair[0] = w
			}
			if w.rate > to.rate {
				*to = w
			}
		}
		extra = append(extra, 100*(pair[1].cpu-pair[0].cpu)/pair[1].seconds)
	}
	if on.events == 0 || on.tiles == 0 {
		return fmt.Errorf("viewers received %d events and %d tiles", on.events, on.tiles)
	}
	setting := fmt.Sprintf("%d viewers, %d tasks/s", viewers, watchedRate)
	figures := []benchfmt.Figure{
		{Case: c.Name, Unit: c.Unit, Better: benchfmt.Higher, Ours: on.rate, Theirs: off.rate, Peer: "off",
			Bar: ratio(dashboardBar)},
		{Case: c.Name + "-cpu", Unit: benchfmt.UnitCorePct, Better: benchfmt.Lower, Ours: max(median(extra), 0),
			Bar: &benchfmt.Bar{Value: dashboardBarPC}},
	}
	for _, f := range figures {
		f.Bench, f.Setting, f.Tasks = "tasks", setting, int64(b.o.Watched)
		if err := b.sink.Add(f); err != nil {
			return err
		}
	}
	return nil
}

// median returns the value in the middle of a list that is not empty.
func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// watch runs one round in three processes, with the viewers in this one.
func (b *bench) watch(ctx context.Context, with bool) (w watched, err error) {
	var processes [3]*process
	for i := range processes {
		p, err := b.startProcess(ctx, side{"millstream", b.programs.Go})
		if err != nil {
			return w, err
		}
		defer p.Stop()
		processes[i] = p
	}
	scheduler, workers, client := processes[0], processes[1], processes[2]
	at, err := scheduler.ask(ctx, command{Do: "scheduler", Dashboard: with})
	if err != nil {
		return w, err
	}
	if _, err = workers.ask(ctx, command{Do: "zero", Address: at.Address, Workers: zeroCount,
		Threads: zeroThreads}); err != nil {
		return w, err
	}
	flood := func(n int) (answer, error) {
		a, err := client.ask(ctx, command{Do: "flood", Address: at.Address, N: n})
		if err != nil {
			return a, err
		}
		_, err = client.ask(ctx, command{Do: "release"})
		if err == nil {
			_, err = scheduler.ask(ctx, command{Do: "empty"})
		}
		return a, err
	}
	if _, err = flood(min(b.o.Watched, warmTasks)); err != nil {
		return w, err
	}
	if with {
		v := startViewers(ctx, at.Dashboard)
		defer func() { w.events, w.tiles = v.close() }()
	}
	before, err := scheduler.ask(ctx, command{Do: "usage"})
	if err != nil {
		return w, err
	}
	a, err := client.ask(ctx, command{Do: "flood", Address: at.Address, N: b.o.Watched, Rate: watchedRate})
	if err != nil {
		return w, err
	}
	after, err := scheduler.ask(ctx, command{Do: "usage", N: b.o.Watched})
	w.rate, w.seconds, w.cpu = float64(a.Tasks)/a.Seconds, a.Seconds, after.CPU-before.CPUAfter
	return w, err
}

// viewerSet are open pages: each reads the live stream and fetches the latest tile once a second.
type viewerSet struct {
	cancel        context.CancelFunc
	running       sync.WaitGroup
	client        *http.Client
	events, tiles atomic.Int64
}

func startViewers(ctx context.Context, hostport string) *viewerSet {
	ctx, cancel := context.WithCancel(ctx)
	v := &viewerSet{cancel: cancel, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: viewers}}}
	for range viewers {
		v.running.Go(func() { v.follow(ctx, "http://"+hostport+"/millstream/live") })
		v.running.Go(func() { v.fetch(ctx, "http://"+hostport+"/millstream/tile") })
	}
	v.waitOpen(ctx)
	return v
}

// waitOpen waits until events and tiles arrive, so that a short run has viewers too. The caller checks the counts.
func (v *viewerSet) waitOpen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for v.events.Load() == 0 || v.tiles.Load() == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// follow counts the events of a live stream.
func (v *viewerSet) follow(ctx context.Context, url string) {
	body, err := v.open(ctx, url)
	if err != nil {
		return
	}
	defer body.Close()
	for lines := bufio.NewScanner(body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			v.events.Add(1)
		}
	}
}

// fetch fetches the tiles of the last seconds: history begins an hour before the scheduler.
func (v *viewerSet) fetch(ctx context.Context, url string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	const level = 16 // buckets of 66 ms, tiles of 17 s
	begin := time.Now()
	for {
		at := time.Hour + time.Since(begin)
		body, err := v.open(ctx, fmt.Sprintf("%s?level=%d&index=%d&from=0&to=64", url, level,
			at.Microseconds()>>(level+8)))
		if err != nil {
			return
		}
		n, _ := io.Copy(io.Discard, body)
		_ = body.Close()
		if n > 0 {
			v.tiles.Add(1)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (v *viewerSet) open(ctx context.Context, url string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	a, err := v.client.Do(r)
	if err != nil {
		return nil, err
	}
	if a.StatusCode != http.StatusOK {
		_ = a.Body.Close()
		return nil, fmt.Errorf("%s: %s", url, a.Status)
	}
	return a.Body, nil
}

// close ends the viewers and returns what they received.
func (v *viewerSet) close() (events, tiles int64) {
	v.cancel()
	v.running.Wait()
	v.client.CloseIdleConnections()
	return v.events.Load(), v.tiles.Load()
}
