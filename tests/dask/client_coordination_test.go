package dask

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/wire"
)

func verbPrimitives(t *testing.T, ctx context.Context, r *cluster) {
	v := client.NewVariable[map[string]int](r.c, "var")
	ok(t, "set", v.Set(ctx, map[string]int{"x": 1}))
	want(t, "variable", map[string]int{"x": 1})(v.Get(ctx))
	want(t, "in Python", map[string]int{"x": 1})(client.PythonSource[map[string]int](
		"lambda: __import__('distributed').Variable('var').get()").Submit(ctx, r.c).Result(ctx))
	f := pyAdd.Submit(ctx, r.c, 20, 3)
	vf := client.NewVariable[int](r.c, "varf")
	ok(t, "set a future", vf.SetFuture(ctx, f))
	want(t, "variable with a future", 23)(vf.Get(ctx))
	got, err := vf.GetFuture(ctx)
	ok(t, "get a future", err)
	want(t, "its result", 23)(got.Result(ctx))
	want(t, "in a task",
		23)(client.PythonSource[int]("lambda: __import__('distributed').Variable('varf').get().result()").With(
		client.WithImpure()).Submit(ctx, r.c).Result(ctx))
	ok(t, "delete", vf.Delete())

	q, err := client.NewQueue[int](ctx, r.c, "queue", 0)
	ok(t, "queue", err)
	defer q.Close()
	ok(t, "put", q.Put(ctx, 1))
	ok(t, "put a future", q.PutFuture(ctx, f))
	ok(t, "put from Python", client.PythonSource[any]("lambda: __import__('distributed').Queue('queue').put(3)").With(
		client.WithImpure()).Submit(ctx, r.c).Wait(ctx))
	want(t, "length", 3)(q.Len(ctx))
	want(t, "first", 1)(q.Get(ctx))
	qf, err := q.GetFuture(ctx)
	ok(t, "second", err)
	want(t, "second's result", 23)(qf.Result(ctx))
	want(t, "rest", []int{3})(q.GetAll(ctx))

	e := client.NewFlag(r.c, "flag")
	want(t, "flag at first", false)(e.IsSet(ctx))
	waits := client.PythonSource[bool]("lambda: __import__('distributed').Event('flag').wait()").With(
		client.WithImpure()).Submit(ctx, r.c)
	ok(t, "set", e.Set(ctx))
	want(t, "a task that waits", true)(waits.Result(ctx))
	ok(t, "wait", e.Wait(ctx))
	ok(t, "clear", e.Clear(ctx))
	want(t, "flag at last", false)(e.IsSet(ctx))
}

func verbLocks(t *testing.T, ctx context.Context, r *cluster) {
	l := client.NewLock(r.c, "lock")
	ok(t, "lock", l.Lock(ctx))
	want(t, "locked", true)(l.Locked(ctx))
	want(t, "another", false)(client.NewLock(r.c, "lock").TryLock(ctx))
	want(t, "another in Python",
		false)(client.PythonSource[bool]("lambda: __import__('distributed').Lock('lock').acquire(timeout=0.01)").With(
		client.WithImpure()).Submit(ctx, r.c).Result(ctx))
	ok(t, "unlock", l.Unlock(ctx))
	want(t, "unlocked", false)(l.Locked(ctx))

	s := client.NewSemaphore(r.c, "semaphore", 2)
	ok(t, "acquire", s.Acquire(ctx))
	ok(t, "acquire", s.Acquire(ctx))
	want(t, "a third", false)(s.TryAcquire(ctx))
	want(t, "holders", 2)(s.Value(ctx))
	ok(t, "release", s.Release(ctx))
	want(t, "a third again", true)(s.TryAcquire(ctx))
	ok(t, "release", s.Release(ctx))
	ok(t, "release", s.Release(ctx))
	ok(t, "delete", s.Delete(ctx))

	m := client.NewMultiLock(r.c, "x", "y")
	ok(t, "multi lock", m.Lock(ctx))
	ok(t, "multi unlock", m.Unlock(ctx))
}

func verbDatasets(t *testing.T, ctx context.Context, r *cluster) {
	futures := pyAdd.Map(ctx, r.c, []int{1, 2}, []int{100, 200})
	ok(t, "publish", client.Publish(ctx, r.c, "set", futures, false))
	if err := client.Publish(ctx, r.c, "set", futures, false); err == nil {
		t.Error("a dataset can be published twice")
	}
	ok(t, "override", client.Publish(ctx, r.c, "set", futures, true))
	names, err := r.c.Datasets(ctx)
	ok(t, "list", err)
	if !slices.Equal(names, []string{"set"}) {
		t.Errorf("datasets %v", names)
	}
	other := r.client(client.Config{})
	got, err := client.Published[int](ctx, other, "set")
	ok(t, "published", err)
	want(t, "published", []int{101, 202})(client.Gather(ctx, got))
	// A client of Python's, which a task makes, finds it and publishes one itself.
	python := client.PythonSource[[]int](`
		from distributed import worker_client
		def swap():
			with worker_client() as c:
				c.publish_dataset(python=c.map(lambda x: x + 1, range(3)))
				return c.gather(c.get_dataset("set"))
	`)
	want(t, "in Python", []int{101, 202})(python.Submit(ctx, r.c).Result(ctx))
	got, err = client.Published[int](ctx, r.c, "python")
	ok(t, "published by Python", err)
	want(t, "published by Python", []int{1, 2, 3})(client.Gather(ctx, got))
	ok(t, "unpublish", r.c.Unpublish(ctx, "set", "python"))
	if _, err := client.Published[int](ctx, r.c, "set"); err == nil {
		t.Error("a dataset is there after its end")
	}
}

func verbActors(t *testing.T, ctx context.Context, r *cluster) {
	add := client.PythonMethod[int]("add")
	for name, c := range map[string]*client.Client{"direct": r.c,
		"through the scheduler": r.client(client.Config{NoDirect: true})} {
		a := client.Python[any]("late_module:Counter").Kw("start", 5).Start(ctx, c)
		ok(t, name, a.Wait(ctx))
		want(t, name, 7)(add.Call(ctx, a, 2))
		want(t, name, 13)(add.Kw("twice", true).Call(ctx, a, 3))
		want(t, name, 13)(client.Attribute[int](ctx, a, "n"))
		_, err := client.PythonMethod[int]("fail").Call(ctx, a)
		var exc *wire.Exception
		if !errors.As(err, &exc) || exc.Type != "KeyError" {
			t.Errorf("%s: an error of a method is %v", name, err)
		}
		// Tasks get the actor as Python's clients do.
		want(t, name, 14)(client.PythonSource[int]("lambda a: a.add(1).result()").Submit(ctx, c, a).Result(ctx))
		a.Release()
	}
}

func verbRun(t *testing.T, ctx context.Context, r *cluster) {
	pids, err := client.Python[int]("os:getpid").Run(ctx, r.c)
	ok(t, "run", err)
	if len(pids) != 2 || pids[r.workers[0].Address] == 0 || pids[r.workers[0].Address] == pids[r.workers[1].Address] {
		t.Errorf("processes %v", pids)
	}
	one := client.PythonSource[string]("lambda x, dask_worker=None: f'{x} {dask_worker.name}'").With(
		client.WithWorkers(r.workers[1].Address))
	want(t, "run on one", map[string]string{r.workers[1].Address: "at b"})(one.Run(ctx, r.c, "at"))
	want(t, "arguments", map[string]float64{r.workers[1].Address: 4})(client.Python[float64]("numpy:sum").Kw("axis",
		0).With(client.WithWorkers(r.workers[1].Address)).Run(ctx, r.c, []float64{1, 3}))
	var exc *wire.Exception
	if _, err := client.Python[float64]("operator:truediv").Run(ctx, r.c, 1, 0); err == nil {
		t.Error("an error in run is none")
	} else if errors.As(err, &exc) && exc.Type != "ZeroDivisionError" {
		t.Errorf("the error is %v", err)
	}
	want(t, "on the scheduler",
		2)(client.PythonSource[int]("lambda dask_scheduler=None: len(dask_scheduler.workers)").RunOnScheduler(ctx, r.c))
	if _, err := pyAdd.Run(ctx, r.c, pyAdd.Submit(ctx, r.c, 1, 1), 1); err == nil {
		t.Error("run takes a future")
	}
}

func verbReplicas(t *testing.T, ctx context.Context, r *cluster) {
	f := pyAdd.With(client.WithImpure()).Submit(ctx, r.c, 7, 7)
	ok(t, "replicate", r.c.Replicate(ctx, 2, nil, f))
	has, err := r.c.WhoHas(ctx, f)
	ok(t, "who_has", err)
	if len(has[f.Key()]) != 2 {
		t.Errorf("%s is at %v", f.Key(), has)
	}
	ok(t, "rebalance", r.c.Rebalance(ctx, nil))
	ok(t, "wait for workers", r.c.WaitForWorkers(ctx, 2))
	workers, err := r.c.Workers(ctx)
	ok(t, "workers", err)
	if w := workers[r.workers[0].Address]; w.Name != "a" || w.Threads != 2 || w.Resources["tape"] != 1 ||
		w.Status != "running" {
		t.Errorf("worker a is %+v", w)
	}
	what, err := r.c.HasWhat(ctx, r.workers[0].Address)
	ok(t, "has_what", err)
	if !slices.Contains(what[r.workers[0].Address], f.Key()) {
		t.Errorf("worker a has %v", what)
	}
}

func verbMetadata(t *testing.T, ctx context.Context, r *cluster) {
	ok(t, "set", r.c.SetMetadata(ctx, map[string]int{"n": 3}, "job", "one"))
	want(t, "metadata", 3)(client.Metadata[int](ctx, r.c, "job", "one", "n"))
	if _, err := client.Metadata[int](ctx, r.c, "job", "two"); err == nil {
		t.Error("metadata that nobody set is there")
	}
	heard := make(chan client.Event, 10)
	stop := r.c.Subscribe("topic", func(e client.Event) { heard <- e })
	defer stop()
	// The subscription is on the stream, the event comes by a request.
	ok(t, "a task behind the subscription", pyAdd.With(client.WithImpure()).Submit(ctx, r.c, 1, 1).Wait(ctx))
	ok(t, "log", r.c.LogEvent(ctx, "topic", "hello"))
	ok(t, "log in a task",
		client.PythonSource[any]("lambda: __import__('distributed').get_worker().log_event('topic', {'x': 1})").With(
			client.WithImpure()).Submit(ctx, r.c).Wait(ctx))
	if e := <-heard; e.Value != "hello" || e.Topic != "topic" {
		t.Errorf("heard %+v", e)
	}
	if e := <-heard; !slices.Equal(e.Value.(wire.Dict), wire.NewDict("x", int64(1), "worker",
		e.Value.(wire.Dict)[1].Value)) && len(e.Value.(wire.Dict)) == 0 {
		t.Errorf("heard %+v", e)
	}
	events, err := r.c.Events(ctx, "topic")
	ok(t, "events", err)
	if len(events) != 2 || events[0].Value != "hello" || events[0].Time == 0 {
		t.Errorf("events %+v", events)
	}
	versions, err := r.c.Versions(ctx)
	ok(t, "versions", err)
	if versions.Scheduler["distributed"] == "" ||
		versions.Workers[r.workers[0].Address]["distributed"] != versions.Scheduler["distributed"] {
		t.Errorf("versions %v", versions)
	}
}

func verbCompleted(t *testing.T, ctx context.Context, r *cluster) {
	futures := client.PythonSource[int]("lambda x: 10 // x").With(client.WithImpure()).Map(ctx, r.c, []int{1, 2, 0, 5})
	sum, failed := 0, 0
	for f, err := range client.AsCompleted(ctx, futures) {
		if err != nil {
			failed++
			continue
		}
		v, err := f.Result(ctx)
		ok(t, "result", err)
		sum += v
	}
	if sum != 17 || failed != 1 {
		t.Errorf("sum %d, %d failed", sum, failed)
	}
	var last client.ProgressEvent
	for e := range client.Progress(ctx, client.Futures(futures)...) {
		last = e
	}
	if last.Finished != 3 || last.Failed != 1 || !last.IsDone() {
		t.Errorf("the last event is %+v", last)
	}
}
