package taskbench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/proc/gcfloor"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler"
)

// schedulerRole is the scheduler of scheduler-only, in a separate process.
type schedulerRole struct{ s *scheduler.Scheduler }

func startSchedulerRole(ctx context.Context, c command) (*schedulerRole, error) {
	gcfloor.Set(gcfloor.Scheduler) // as the scheduler command does
	cfg := scheduler.Config{Listen: []string{"tcp://127.0.0.1:0"}, Journal: c.Journal}
	if c.Dashboard {
		cfg.Dashboard = "127.0.0.1:0"
	}
	s, err := scheduler.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &schedulerRole{s}, nil
}

func (r *schedulerRole) address() string { return r.s.Address() }

func (r *schedulerRole) close() error {
	return r.s.Close()
}

// usage returns the usage of the process. For empty it waits until no task is left; otherwise, with a number, until
// that many are in memory.
func (r *schedulerRole) usage(ctx context.Context, c command) (answer, error) {
	err := until(ctx, waitSeconds, "the scheduler has the expected number of tasks", func() (bool, error) {
		all, inMemory := r.tasks()
		if c.Do == "empty" {
			return all == 0, nil
		}
		return inMemory >= int64(c.N), nil
	})
	if err != nil {
		return answer{}, err
	}
	return usage()
}

// tasks returns the numbers of all tasks and of those in memory.
func (r *schedulerRole) tasks() (all, inMemory int64) {
	own, _ := r.s.Identity().Get("millstream")
	m, _ := own.(msgpack.Map)
	counts, _ := m.Get("tasks")
	list, _ := counts.(msgpack.Map)
	for _, p := range list {
		n, _ := p.Value.(int)
		if p.Key != "forgotten" {
			all += int64(n)
		}
		if p.Key == "memory" {
			inMemory = int64(n)
		}
	}
	return all, inMemory
}

// waitSeconds bounds how long the number of tasks of the scheduler may take to be as expected.
const waitSeconds = 60

// floodRole is the client of scheduler-only.
type floodRole struct {
	client  *client.Client
	futures []*client.Future[int64]
}

func startFlood(ctx context.Context, address string) (*floodRole, error) {
	c, err := client.Connect(ctx, address, client.Config{})
	if err != nil {
		return nil, err
	}
	return &floodRole{client: c}, nil
}

// run submits n tasks, at a rate per second unless that is 0, and waits for all of them. There are no results to
// gather.
func (r *floodRole) run(ctx context.Context, n, rate int) (answer, error) {
	if len(r.futures) > 0 {
		return answer{}, errors.New("earlier tasks are not released")
	}
	in := inputs(n)
	begin := time.Now()
	if rate > 0 {
		r.paced(ctx, in, rate)
	} else {
		r.futures = noopFunc.Map(ctx, r.client, in, client.WithImpure())
	}
	if err := client.Wait(ctx, r.futures); err != nil {
		return answer{}, err
	}
	took := time.Since(begin)
	for i, f := range r.futures {
		if err := f.Err(); err != nil {
			return answer{}, fmt.Errorf("task %d: %w", i, err)
		}
	}
	return answer{Seconds: took.Seconds(), Tasks: int64(n)}, nil
}

// pace is the time between two submissions of paced.
const pace = 20 * time.Millisecond

// paced submits tasks at a rate per second.
func (r *floodRole) paced(ctx context.Context, in []int64, rate int) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	begin, all := time.Now(), len(in)
	for len(in) > 0 {
		due := int(time.Since(begin).Seconds() * float64(rate))
		if n := min(due-(all-len(in)), len(in)); n > 0 {
			r.futures = append(r.futures, noopFunc.Map(ctx, r.client, in[:n], client.WithImpure())...)
			in = in[n:]
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// release releases all tasks.
func (r *floodRole) release(context.Context) error {
	client.ReleaseAll(r.futures)
	r.futures = nil
	runtime.GC()
	return nil
}

func (r *floodRole) close() error {
	return r.client.Close()
}
