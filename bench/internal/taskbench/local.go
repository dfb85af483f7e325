package taskbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/task"
)

// local is a cluster and its client.
type local struct {
	cluster *cluster.Cluster
	client  *client.Client
	workers []cluster.WorkerInfo
	threads int
}

// warmMap is the number of warm-up tasks, so that connections and first memory accesses are not measured.
const warmMap = 200

func startLocal(ctx context.Context, c command) (*local, error) {
	cl, err := cluster.Local(ctx, cluster.Config{Workers: c.Workers, Threads: c.Threads, Dashboard: "127.0.0.1:0",
		WorkerDashboard: "127.0.0.1:0", LocalDirectory: c.Directory})
	if err != nil {
		return nil, err
	}
	l := &local{cluster: cl, threads: c.Threads, workers: cl.Workers()}
	if l.client, err = client.Connect(ctx, cl.Address(), client.Config{Dial: cl.Dial()}); err != nil {
		return nil, errors.Join(err, l.close())
	}
	if err := l.warm(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *local) warm(ctx context.Context) error {
	futures := noopFunc.Map(ctx, l.client, inputs(warmMap), client.WithImpure())
	defer client.ReleaseAll(futures)
	if _, err := client.Gather(ctx, futures); err != nil {
		return err
	}
	_, err := l.ran(ctx)
	return err
}

func (l *local) describe() (answer, error) {
	a := answer{Version: "millstream", Pid: os.Getpid()}
	for _, w := range l.workers {
		a.Pids = append(a.Pids, w.PID)
	}
	return a, nil
}

func (l *local) close() error {
	var err error
	if l.client != nil {
		err = l.client.Close()
	}
	return errors.Join(err, l.cluster.Close())
}

func (l *local) do(ctx context.Context, c command) (answer, error) {
	switch c.Do {
	case mapNoop:
		return l.mapNoop(ctx, c.N)
	case tree:
		return l.tree(ctx, c.N)
	case randomDAG:
		return l.randomDAG(ctx, c.N, c.Seed)
	case submitLatency:
		return l.submitLatency(ctx, c.N)
	case chain:
		return l.chain(ctx, c.N)
	case fetch:
		return l.fetch(ctx, c)
	case clientFetch:
		return l.clientFetch(ctx, c)
	case shuffle:
		return l.shuffle(ctx, c)
	case deviceFetch:
		return l.deviceFetch(ctx, c)
	case deviceSpill:
		return l.deviceSpill(ctx, c)
	}
	return answer{}, fmt.Errorf("unknown command %q", c.Do)
}

// profile starts or ends CPU profiles of the workers.
func (l *local) profile(ctx context.Context, path string) error {
	for _, w := range l.workers {
		to := path
		if to != "" {
			to = strings.TrimSuffix(path, ".pprof") + "-worker-" + w.Name + ".pprof"
		}
		f := profileFunc.Submit(ctx, l.client, client.Val(to), client.WithWorkers(w.Address), client.WithImpure())
		_, err := f.Result(ctx)
		f.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func inputs(n int) []int64 {
	in := make([]int64, n)
	for i := range in {
		in[i] = int64(i)
	}
	return in
}

// ran returns how many functions each worker has run.
func (l *local) ran(ctx context.Context) (counts []int64, err error) {
	for _, w := range l.workers {
		f := ranFunc.Submit(ctx, l.client, client.Val(int64(0)), client.WithWorkers(w.Address), client.WithImpure())
		got, err := f.Result(ctx)
		f.Release()
		if err != nil {
			return nil, err
		}
		if got.Pid == int64(os.Getpid()) || got.Pid != int64(w.PID) {
			return nil, fmt.Errorf("worker %s ran a task in process %d; the worker is process %d, the client "+
				"process %d", w.Name, got.Pid,
				w.PID, os.Getpid())
		}
		counts = append(counts, got.Ran)
	}
	return counts, nil
}

// counted returns how many functions ran in each worker. It fails unless exactly n functions ran, all of them in
// workers.
func (l *local) counted(ctx context.Context, n int) ([]int64, error) {
	counts, err := l.ran(ctx)
	if err != nil {
		return nil, err
	}
	var total int64
	for _, c := range counts {
		total += c
	}
	if total != int64(n) || functionsRan.Load() != 0 {
		return nil, fmt.Errorf("submitted %d tasks, but %v functions ran in workers and %d in the process of the "+
			"client", n,
			counts, functionsRan.Load())
	}
	return counts, nil
}

func (l *local) mapNoop(ctx context.Context, n int) (answer, error) {
	in := inputs(n)
	runtime.GC()
	begin := time.Now()
	futures := noopFunc.Map(ctx, l.client, in, client.WithImpure())
	results, err := client.Gather(ctx, futures)
	took := time.Since(begin)
	if err != nil {
		return answer{}, err
	}
	defer client.ReleaseAll(futures)
	keys := make(map[task.Key]bool, n)
	var sum int64
	for i, f := range futures {
		keys[f.Key()] = true
		if results[i] != int64(i) {
			return answer{}, fmt.Errorf("wrong result: noop(%d) is %d", i, results[i])
		}
		sum += results[i]
	}
	if len(keys) != n {
		return answer{}, fmt.Errorf("%d tasks have only %d keys", n, len(keys))
	}
	metrics, err := scrape(ctx, l.cluster.Scheduler().DashboardAddress())
	if err != nil {
		return answer{}, err
	}
	if got := tasksIn(metrics, "memory"); got != float64(n) {
		return answer{}, fmt.Errorf("%v of %d tasks are in memory according to /metrics", got, n)
	}
	counts, err := l.counted(ctx, n)
	return answer{Seconds: took.Seconds(), Tasks: int64(n), Check: fmt.Sprint(sum), Ran: counts}, err
}

func (l *local) submitLatency(ctx context.Context, n int) (answer, error) {
	times := make([]time.Duration, n)
	for i := range times {
		begin := time.Now()
		f := noopFunc.Submit(ctx, l.client, client.Val(int64(i)), client.WithImpure())
		v, err := f.Result(ctx)
		times[i] = time.Since(begin)
		f.Release()
		if err != nil {
			return answer{}, err
		}
		if v != int64(i) {
			return answer{}, fmt.Errorf("wrong result: noop(%d) is %d", i, v)
		}
	}
	if _, err := l.counted(ctx, n); err != nil {
		return answer{}, err
	}
	return answer{Seconds: middle(times).Seconds(), Tasks: int64(n)}, nil
}
