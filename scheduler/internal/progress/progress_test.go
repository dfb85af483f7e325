package progress

import (
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/wire"
)

type rig struct {
	*hosttest.Host
	*Feeds
	client state.ClientID
	worker state.WorkerID
	others map[task.Key]bool // followed by other parts
}

func start(t *testing.T) *rig {
	r := &rig{Host: hosttest.New(t), others: map[task.Key]bool{}}
	r.Feeds = New(Host{
		Loop: r.Host.Loop, Log: r.Host.Log, State: r.Host.State, Tasks: &r.Host.Tasks,
		Helpers: helpers.New(helpers.Config{Off: true, Log: r.Host.Log}),
		Apply: func(ev state.Event) {
			n := len(r.Host.Actions)
			r.Host.Apply(ev)
			for i := range r.Host.Actions[n:] {
				if a := &r.Host.Actions[n+i]; a.Kind == state.TaskMoved {
					r.Moved(a)
				}
			}
		},
		Followed:  func(k task.Key) bool { return r.others[k] },
		Exception: func(f *state.Failure, _ bool) (exc, trace *wire.Serialized) { return nil, nil },
	})
	r.Do(func() { r.client, r.worker = r.AddClient("c", nil), r.AddWorker("tcp://w", nil) })
	return r
}

// finish ends a task like the report of its worker.
func (r *rig) finish(key string) {
	r.Do(func() {
		t := r.Host.State.Task(task.NewKey(key))
		r.Feeds.Apply(&state.TaskFinished{Worker: r.worker, Key: t.Key(), RunID: t.RunID(), NBytes: 1})
	})
}

func (r *rig) draw(b *Bar) (out string) {
	r.Do(func() {
		m := r.Answer(b)
		all, _ := m.Get("all")
		left, _ := m.Get("remaining")
		status, _ := m.Get("status")
		out = fmt.Sprint(all, " ", left, " ", status)
	})
	return out
}

func keys(names ...string) (out []task.Key) {
	for _, n := range names {
		out = append(out, task.NewKey(n))
	}
	return out
}

// A bar counts the dependencies of its keys, until all are done.
func TestBar(t *testing.T) {
	r := start(t)
	got := make(chan *Bar, 1)
	go func() {
		b, err := r.Follow(t.Context(), keys("z"), false, false)
		if err != nil {
			t.Error(err)
		}
		got <- b
	}()
	r.Do(func() {
		r.Submit(r.client, []string{"x"}, []string{"y", "x"}, []string{"z", "y"}, []string{"alone"})
		r.Host.Tasks.Fire()
	})
	b := <-got
	for i, want := range []string{"3 3 <nil>", "3 2 <nil>", "3 1 <nil>", "3 0 finished"} {
		if got := r.draw(b); got != want {
			t.Errorf("after %d tasks: got %s, want %s", i, got, want)
		}
		if i < 3 {
			r.finish([]string{"x", "y", "z"}[i])
		}
	}
	again, err := r.Follow(t.Context(), keys("z"), false, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.draw(again); got != "1 0 finished" {
		t.Errorf("what is done already: got %s, want it alone", got)
	}
	all, err := r.Follow(t.Context(), keys("z"), true, true)
	if err == nil {
		err = r.Group(t.Context(), all, "prefix", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Do(func() {
		m := r.Answer(all)
		groups, _ := m.Get("all")
		if len(groups.(msgpack.Map)) != 3 {
			t.Errorf("groups: got %v, want x, y and z", groups)
		}
		for _, b := range []*Bar{b, again, all} {
			r.End(b)
		}
		if len(r.bars) != 0 {
			t.Errorf("bars: got %d, want 0", len(r.bars))
		}
	})
}

// A task that fails or is forgotten ends the bar.
func TestBarFails(t *testing.T) {
	r := start(t)
	r.Do(func() { r.Submit(r.client, []string{"x"}, []string{"y", "x"}) })
	b, err := r.Follow(t.Context(), keys("y"), false, false)
	if err != nil {
		t.Fatal(err)
	}
	r.Do(func() {
		x := r.Host.State.Task(task.NewKey("x"))
		r.Feeds.Apply(&state.TaskErred{Worker: r.worker, Key: x.Key(), RunID: x.RunID(), ExceptionText: "boom"})
	})
	if got := r.draw(b); got != "2 2 error" {
		t.Errorf("got %s, want error", got)
	}
	after, err := r.Follow(t.Context(), keys("y"), false, false)
	if err != nil {
		t.Fatal(err)
	}
	r.Do(func() {
		m := r.Answer(after)
		if m.GetString("status") != "error" || !m.Has("key") || after.failure == nil {
			t.Errorf("bar that starts after the failure: got %v, want an error", m)
		}
	})
	r.Do(func() { r.Submit(r.client, []string{"gone"}) })
	gone, err := r.Follow(t.Context(), keys("gone"), false, false)
	if err != nil {
		t.Fatal(err)
	}
	r.Do(func() { r.Feeds.Apply(&state.ClientReleases{Client: r.client, Keys: keys("gone")}) })
	if got := r.draw(gone); got != "1 1 error" {
		t.Errorf("a task that is forgotten: got %s, want error", got)
	}
}

// Tasks that several bars follow stay watched until the last of them ends.
func TestFollows(t *testing.T) {
	r := start(t)
	r.Do(func() { r.Submit(r.client, []string{"x"}, []string{"y"}) })
	a, err := r.Follow(t.Context(), keys("x"), false, false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Follow(t.Context(), keys("x", "y"), false, false)
	if err != nil {
		t.Fatal(err)
	}
	r.Do(func() {
		r.End(a)
		if !r.follows(task.NewKey("x")) {
			t.Error("x: not followed")
		}
	})
	r.finish("x")
	if got := r.draw(b); got != "2 1 <nil>" {
		t.Errorf("got %s, want x done", got)
	}
	r.Do(func() {
		r.others[task.NewKey("y")] = true
		r.End(b)
		if r.follows(task.NewKey("y")) {
			t.Error("y: followed by a bar that has ended")
		}
	})
}

func TestInterval(t *testing.T) {
	for _, c := range []struct {
		in    any
		want  time.Duration
		fails bool
	}{{nil, time.Second, false}, {"100 ms", 100 * time.Millisecond, false}, {0.0, minFeed, false}, {[]any{}, 0, true}} {
		got, err := (&feedArgs{Interval: c.in}).every()
		if (err != nil) != c.fails || got != c.want {
			t.Errorf("%v: got %v, %v, want %v", c.in, got, err, c.want)
		}
	}
}
