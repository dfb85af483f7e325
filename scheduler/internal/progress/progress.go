// Package progress follows tasks for the progress bars of clients.
package progress

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// Host is the part of the scheduler that Feeds uses.
type Host struct {
	Loop    loop.Loop
	Log     *slog.Logger
	State   *state.State
	Apply   func(state.Event)
	Helpers *helpers.Helpers
	// Tasks is fired when tasks are added.
	Tasks *loop.Signal
	// Followed reports whether another part of the scheduler follows a task. It runs in the loop.
	Followed func(task.Key) bool
	// Exception returns a failure in the form of Dask messages. It runs in the loop.
	Exception func(f *state.Failure, ours bool) (exc, trace *wire.Serialized)
}

// Feeds serves the op feed, with which progress bars of Dask are drawn. The loop owns the bars; requests run in
// goroutines of their own.
type Feeds struct {
	Host
	bars map[*Bar]bool // in use
}

// New returns Feeds without bars.
func New(h Host) *Feeds { return &Feeds{Host: h, bars: map[*Bar]bool{}} }

// Register sets the handler of requests.
func (s *Feeds) Register(r *rpc.Server) { r.Handle("feed", s.feed) }

// Bar follows tasks for a progress bar of Dask: distributed.progress. The loop owns it.
type Bar struct {
	want []task.Key
	// all maps the followed tasks to their groups, left has the tasks that are not done.
	all, left map[task.Key]int
	groups    []any // names, for a bar of several
	multi     bool
	status    any // nil, "finished" or "error"
	failure   *state.Failure
	failed    task.Key
}

// Follow follows keys and all their dependencies, once the scheduler knows them. With complete, tasks that are done
// already are counted too.
func (s *Feeds) Follow(ctx context.Context, want []task.Key, complete, multi bool) (*Bar, error) {
	p := &Bar{want: want, all: map[task.Key]int{}, left: map[task.Key]int{}, multi: multi}
	_, err := loop.Await(ctx, s.Loop, nil, func() (<-chan struct{}, error) {
		for _, k := range want {
			if s.State.Task(k) == nil {
				return s.Tasks.Wait(), nil
			}
		}
		s.follow(p, complete)
		return nil, nil
	})
	return p, err
}

// follow finds the tasks. It runs in the loop.
func (s *Feeds) follow(p *Bar, complete bool) {
	for _, k := range p.want {
		p.all[k] = 0
	}
	left, failed := s.needed(p.want, false)
	all := left
	if complete {
		all, _ = s.needed(p.want, true)
	}
	watched := make([]task.Key, 0, len(all))
	for _, t := range all {
		p.all[t.Key()] = 0
		watched = append(watched, t.Key())
	}
	for _, t := range left {
		p.left[t.Key()] = 0
	}
	s.bars[p] = true
	s.Apply(&state.Watch{Keys: watched})
	switch {
	case failed != nil:
		p.fail(failed.Key(), failed.Failure())
	case len(p.left) == 0:
		p.status = "finished"
	}
}

// needed returns the tasks that have to be computed for keys, including the keys themselves, or with complete also
// those that are done. failed is a task that cannot be computed.
func (s *Feeds) needed(keys []task.Key, complete bool) (tasks []*state.Task, failed *state.Task) {
	seen := map[*state.Task]bool{}
	for _, k := range keys {
		t := s.State.Task(k)
		for todo := []*state.Task{t}; len(todo) > 0; {
			t, todo = todo[len(todo)-1], todo[:len(todo)-1]
			if seen[t] || !complete && t.NumHolders() > 0 {
				continue
			}
			seen[t] = true
			if t.Failure() != nil {
				failed = t
			}
			tasks = append(tasks, t)
			for i := range t.NumDeps() {
				todo = append(todo, t.Dep(i))
			}
		}
	}
	return tasks, failed
}

// moved records the new state of a task.
func (p *Bar) moved(a *state.Action) {
	if _, ok := p.all[a.Key]; !ok || p.status != nil {
		return
	}
	switch a.To {
	case state.Memory:
		if delete(p.left, a.Key); len(p.left) == 0 {
			p.status = "finished"
		}
	case state.Erred:
		p.fail(a.Key, a.Task.Failure())
	case state.Forgotten:
		if _, ok := p.left[a.Key]; ok {
			p.fail(a.Key, &state.Failure{Kind: state.TaskFailed, Key: a.Key, ExceptionText: "task " + a.Key.String() +
				" was cancelled"})
		}
	}
}

func (p *Bar) fail(key task.Key, f *state.Failure) {
	p.status, p.failed, p.failure = "error", key, f
}

// Answer returns the data of the bar.
func (s *Feeds) Answer(p *Bar) msgpack.Map {
	var m msgpack.Map
	if !p.multi {
		m = msgpack.MapOf("all", len(p.all), "remaining", len(p.left), "status", p.status)
	} else {
		all, left := make([]int, len(p.groups)), make([]int, len(p.groups))
		for k, g := range p.all {
			all[g]++
			if _, ok := p.left[k]; ok {
				left[g]++
			}
		}
		a, l := msgpack.Map{}, msgpack.Map{}
		for i, g := range p.groups {
			a = append(a, msgpack.Pair{Key: g, Value: all[i]})
			l = append(l, msgpack.Pair{Key: g, Value: left[i]})
		}
		m = msgpack.MapOf("all", a, "remaining", l, "status", p.status)
	}
	if p.status == "error" {
		exc, _ := s.Exception(p.failure, false)
		m = append(m, msgpack.MapOf("exception", val.OrNil(exc), "key", p.failed.Raw())...)
	}
	return m
}

// End stops following tasks that no other bar follows.
func (s *Feeds) End(p *Bar) {
	delete(s.bars, p)
	var off []task.Key
	for k := range p.all {
		if !s.follows(k) && !s.Followed(k) {
			off = append(off, k)
		}
	}
	s.Apply(&state.Watch{Keys: off, Off: true})
}

// follows reports whether a bar follows a task.
func (s *Feeds) follows(k task.Key) bool {
	for p := range s.bars {
		if _, ok := p.all[k]; ok {
			return true
		}
	}
	return false
}

// Moved records the new state of a task. It runs in the loop, while actions are carried out.
func (s *Feeds) Moved(a *state.Action) {
	for p := range s.bars {
		p.moved(a)
	}
}

// Group assigns each task to a group: the prefix of its key, or the result of a function of the client.
func (s *Feeds) Group(ctx context.Context, p *Bar, how string, feed any) error {
	keys, names := make([]task.Key, 0, len(p.all)), []any(nil)
	err := s.Loop.Do(ctx, func() {
		for k := range p.all {
			keys = append(keys, k)
			if t := s.State.Task(k); t != nil && how == "prefix" {
				names = append(names, t.Prefix().Name())
			} else {
				names = append(names, "default")
			}
		}
	})
	if err == nil && how == "function" {
		var m []any
		if m, err = s.list(ctx, "feed-groups", msgpack.MapOf("id", feed, "keys", val.RawKeys(keys))); err == nil &&
			len(m) != len(keys) {
			err = fmt.Errorf("grouping function returned %d groups for %d tasks", len(m), len(keys))
		}
		names = m
	}
	if err != nil {
		return err
	}
	return s.Loop.Do(ctx, func() {
		for i, k := range keys {
			g := -1
			for j := range p.groups {
				if msgpack.Equal(p.groups[j], names[i]) {
					g = j
				}
			}
			if g < 0 {
				g = len(p.groups)
				p.groups = append(p.groups, names[i])
			}
			p.all[k] = g
		}
	})
}

// list calls the service and returns its reply, a list.
func (s *Feeds) list(ctx context.Context, op string, body any) ([]any, error) {
	m, err := s.Helpers.Call(ctx, helpers.Service, op, body, nil)
	if err != nil {
		return nil, err
	}
	v, err := msgpack.Decode(m.Body)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: reply is not a list", op)
	}
	return list, nil
}

// feedArgs are the arguments of feed.
type feedArgs struct {
	Function []byte `rpc:"function,optional"`
	Setup    []byte `rpc:"setup,optional"`
	Teardown []byte `rpc:"teardown,optional"`
	Interval any    `rpc:"interval,optional"`
}

// minFeed is the shortest interval of a feed.
const minFeed = 10 * time.Millisecond

func (in *feedArgs) every() (time.Duration, error) {
	d, limited, err := loop.Timeout(in.Interval)
	if err != nil {
		return 0, &rpc.Exception{Type: "TypeError", Message: "feed: interval: " + err.Error()}
	}
	if !limited {
		d = time.Second
	}
	return max(d, minFeed), nil
}
