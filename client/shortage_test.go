package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/worker"
)

// shortRig is a scheduler that reports shortages early, and a client with a log.
type shortRig struct {
	*rig
	clientLog, schedulerLog logLines
	c                       *client.Client
}

func newShortRig(t *testing.T, change func(*scheduler.Config, *client.Config)) *shortRig {
	t.Helper()
	leak.Check(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r := &shortRig{rig: &rig{t: t, ctx: ctx}}
	cfg := scheduler.Config{
		Listen: []string{"tcp://127.0.0.1:0"}, Dashboard: "127.0.0.1:0", Logger: r.schedulerLog.logger(),
		Validate:        true,
		UnrunnableAfter: 50 * time.Millisecond,
	}
	ccfg := client.Config{Logger: r.clientLog.logger()}
	if change != nil {
		change(&cfg, &ccfg)
	}
	s, err := scheduler.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.scheduler = s
	t.Cleanup(func() { closeScheduler(t, s) })
	if r.c, err = client.Connect(ctx, s.Address(), ccfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.c.Close(); err != nil {
			t.Errorf("close a client: %v", err)
		}
	})
	return r
}

// get reads a page of the scheduler's HTTP server.
func (r *shortRig) get(path string) string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, "http://"+r.scheduler.DashboardAddress()+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// waiting waits until the client has received a shortage, and returns it.
func (r *shortRig) waiting(reason string) client.Shortage {
	r.t.Helper()
	for {
		if all := r.c.Shortages(); len(all) == 1 && all[0].Reason == reason {
			return all[0]
		}
		select {
		case <-r.ctx.Done():
			r.t.Fatalf("got shortages %+v, want one of reason %s", r.c.Shortages(), reason)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// eventually waits for a condition.
func (r *shortRig) eventually(what string, f func() bool) {
	r.t.Helper()
	for !f() {
		select {
		case <-r.ctx.Done():
			r.t.Fatalf("no %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func checkText(t *testing.T, what, got string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", what, got, want)
		}
	}
}

// TestNoWorkersWarning submits to a scheduler without workers: client and scheduler report it everywhere, until a
// worker connects.
func TestNoWorkersWarning(t *testing.T) {
	r := newShortRig(t, nil)
	f := inc.Submit(r.ctx, r.c, client.Val(1))
	dependent := inc.Submit(r.ctx, r.c, f)
	events := make(chan client.ProgressEvent, 100)
	go func() {
		defer close(events)
		for e := range client.Progress(r.ctx, f) {
			events <- e
		}
	}()
	s := r.waiting("no-workers")
	want := "no workers have joined the scheduler at " + r.scheduler.Address()
	checkText(t, "Shortage.Text", s.Text, want, "worker "+r.scheduler.Address())
	checkText(t, "Future.String", f.String(), "pending: "+want)
	checkText(t, "Future.String of a dependent", dependent.String(), "pending: "+want)
	r.clientLog.wait(t, r.ctx, want)
	r.schedulerLog.wait(t, r.ctx, want)
	checkText(t, "/metrics", r.get("/metrics"), `millstream_scheduler_tasks_unrunnable{reason="no-workers"} 1`)
	checkText(t, "/millstream/unrunnable", r.get("/millstream/unrunnable"), `"reason":"no-workers","tasks":1`, want)
	checkText(t, "events", r.get("/millstream/events?topic=scheduler"), "tasks-unrunnable", want)
	for e := range events {
		if e.Waiting != "" {
			checkText(t, "ProgressEvent.Waiting", e.Waiting, want)
			break
		}
	}
	var bar logLines
	barred := make(chan error, 1)
	go func() { barred <- client.ProgressBar(r.ctx, &bar, f) }()
	bar.wait(t, r.ctx, "waiting: no workers have joined")

	r.addWorker(worker.Config{})
	if got, err := dependent.Result(r.ctx); err != nil || got != 3 {
		t.Fatalf("got %v, %v, want 3", got, err)
	}
	r.eventually("end of the shortage", func() bool { return len(r.c.Shortages()) == 0 })
	r.clientLog.wait(t, r.ctx, "tasks can run again")
	r.schedulerLog.wait(t, r.ctx, "tasks can run again")
	if got, want := f.String(), "finished)"; !strings.HasSuffix(got, want) {
		t.Errorf("Future.String: got %q, want %q at the end", got, want)
	}
	last := client.ProgressEvent{}
	for e := range events {
		last = e
	}
	if last.Finished != 1 || last.Waiting != "" {
		t.Errorf("the last event is %+v, want one finished and no reason", last)
	}
	if err := <-barred; err != nil {
		t.Error(err)
	}
	checkText(t, "/metrics", r.get("/metrics"), `millstream_scheduler_tasks_unrunnable{reason="no-workers"} 0`)
}

// TestRestrictionWarnings submits tasks that no present worker may run, and adds workers that may.
func TestRestrictionWarnings(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   []client.Option
		reason string
		texts  []string
		mend   worker.Config
	}{
		{"workers", []client.Option{client.WithWorkers("alice", "bob")}, "workers",
			[]string{"alice, bob", "none of which has joined", "(name w0)"}, worker.Config{Name: "bob"}},
		{"resources", []client.Option{client.WithResources(map[string]float64{"GPU": 2})}, "resources",
			[]string{"GPU=2", "the most that a worker has is 1", "--resources GPU=2"},
			worker.Config{Resources: map[string]float64{"GPU": 2}}},
		{"no such resource", []client.Option{client.WithResources(map[string]float64{"FPGA": 1})}, "resources",
			[]string{"FPGA=1", "no worker has resource FPGA"}, worker.Config{Resources: map[string]float64{"FPGA": 1}}},
		{"both", []client.Option{client.WithWorkers("w0"), client.WithResources(map[string]float64{"GPU": 1,
			"FPGA": 1})}, "resources",
			[]string{"no worker has resource FPGA"}, worker.Config{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newShortRig(t, nil)
			r.addWorker(worker.Config{Resources: map[string]float64{"GPU": 1}})
			f := inc.Submit(r.ctx, r.c, client.Val(1), c.opts...)
			s := r.waiting(c.reason)
			checkText(t, "Text", s.Text, c.texts...)
			if len(s.Keys) != 1 || s.Keys[0] != f.Key() {
				t.Errorf("got keys %v, want %v", s.Keys, f.Key())
			}
			checkText(t, "Future.String", f.String(), c.texts...)
			r.clientLog.wait(t, r.ctx, c.texts[0])
			// Other tasks run, and a preference is not a restriction.
			other := inc.Submit(r.ctx, r.c, client.Val(7), client.WithWorkers("zoe"), client.WithOtherWorkers())
			if got, err := other.Result(r.ctx); err != nil || got != 8 {
				t.Errorf("a preference: got %v, %v, want 8", got, err)
			}
			if c.mend.Name == "" && c.mend.Resources == nil {
				f.Release()
			} else {
				r.addWorker(c.mend)
				if got, err := f.Result(r.ctx); err != nil || got != 2 {
					t.Errorf("got %v, %v, want 2", got, err)
				}
			}
			r.eventually("end of the shortage", func() bool { return len(r.c.Shortages()) == 0 })
		})
	}
}

var lateFuncs atomic.Int32

// lateFunc registers another function.
func lateFunc() *client.Fn1[int, int] {
	return client.Func(fmt.Sprint("shortage_test.late", lateFuncs.Add(1)), func(_ context.Context, x int) (int, error) {
		return -x, nil
	})
}

// TestClosedCluster submits tasks that no worker can run to a cluster that no other worker can join: they fail at once.
func TestClosedCluster(t *testing.T) {
	r := newShortRig(t, func(s *scheduler.Config, _ *client.Config) { s.Closed, s.UnrunnableAfter = true, time.Hour })
	r.addWorker(worker.Config{})
	opts := client.WithResources(map[string]float64{"GPU": 1})
	_, err := inc.Submit(r.ctx, r.c, client.Val(1), opts).Result(r.ctx)
	if err == nil || r.ctx.Err() != nil {
		t.Fatalf("got %v, want an error at once", err)
	}
	checkText(t, "error", err.Error(), "cannot run", "no worker has resource GPU")

	// A function that was registered after the worker had started.
	late := lateFunc()
	_, err = late.Submit(r.ctx, r.c, client.Val(1)).Result(r.ctx)
	if err == nil || r.ctx.Err() != nil {
		t.Fatalf("got %v, want an error at once", err)
	}
	checkText(t, "error", err.Error(), "no worker has the functions of this client")
	r.addWorker(worker.Config{}) // it has the function
	if got, err := late.Submit(r.ctx, r.c, client.Val(2)).Result(r.ctx); err != nil || got != -2 {
		t.Errorf("got %v, %v, want -2", got, err)
	}
}

// TestSubmitAcrossBuilds submits a graph with a hash without a build, which matches any, see Config.AnyBuild; the
// workers here have one.
func TestSubmitAcrossBuilds(t *testing.T) {
	r := newShortRig(t, func(_ *scheduler.Config, c *client.Config) { c.AnyBuild = true })
	r.addWorker(worker.Config{})
	if got, err := inc.Submit(r.ctx, r.c, client.Val(1)).Result(r.ctx); err != nil || got != 2 {
		t.Errorf("got %v, %v, want 2", got, err)
	}
	if _, build := task.SplitHash(task.Hash()); build != task.BuildID() || build == "" {
		t.Errorf("the hash %s has the build %q, want %q", task.Hash(), build, task.BuildID())
	}
}
