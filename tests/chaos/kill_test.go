package chaos

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// local starts a cluster of process workers, and a client of it.
func local(t *testing.T, o cluster.Config) (*cluster.Cluster, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o.Nanny.MaxFailures = -1
	logs := &tail{}
	o.Nanny.Stderr = logs
	c, err := cluster.Local(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			t.Logf("what the workers said:\n%s", logs)
		}
	})
	cl, err := client.Connect(ctx, c.Address(), client.Config{Dial: c.Dial()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cl.Close()
	})
	return c, cl
}

// onlyHere counts the results that no other worker holds.
func onlyHere(ctx context.Context, pool *rpc.Pool, scheduler, worker string) (int, error) {
	var whoHas map[string][]string
	if err := pool.Call(ctx, scheduler, "who_has", msgpack.Map{}, &whoHas); err != nil {
		return 0, err
	}
	n := 0
	for _, holders := range whoHas {
		if len(holders) == 1 && holders[0] == worker {
			n++
		}
	}
	return n, nil
}

// A random worker is killed every two seconds while a graph runs: the result is that of an undisturbed run.
func TestKilledWorkers(t *testing.T) {
	kills, every := pick(30, 3), pick(2*time.Second, time.Second)
	p := plan{blocks: pick(300, 24), layers: 6, seed: 11}
	c, cl := local(t, cluster.Config{Workers: 4, Threads: 2})
	calm := p.undisturbed(t, cl, false)
	run := p.submit(t, cl, false)
	start := time.Now()
	k := &killer{t: t, c: c, every: every, progress: run.progress}
	k.start()
	defer k.stop()
	disturbed := run.collect()
	k.stop()
	t.Logf("%d tasks of 10 to 50 ms in %v; %d kills, one every %v, %d of them lost results that nobody else had (%d "+
		"results); hash %x, undisturbed %x",
		p.tasks(), time.Since(start).Round(time.Millisecond), k.killed, every, k.lost, k.results, disturbed, calm)
	if disturbed != calm {
		t.Error("the disturbed run gave another result")
	}
	if k.killed < kills || k.lost < pick(5, 1) {
		t.Errorf("%d kills, %d of which lost results: want at least %d and %d", k.killed, k.lost, kills, pick(5, 1))
	}
}

// killer kills a random worker from time to time.
type killer struct {
	t     *testing.T
	c     *cluster.Cluster
	every time.Duration
	// progress of the graph, for people who watch.
	progress func() float64
	// Kills, those that lost results which nobody else had, and how many results. Read them after stop.
	killed, lost, results int

	once sync.Once
	quit chan struct{}
	done chan struct{}
}

func (k *killer) start() {
	k.quit, k.done = make(chan struct{}), make(chan struct{})
	go k.run()
}

func (k *killer) stop() {
	k.once.Do(func() { close(k.quit) })
	<-k.done
}

func (k *killer) run() {
	defer close(k.done)
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{Dial: k.c.Dial()})
	defer pool.Close()
	r := rand.New(rand.NewPCG(5, 5))
	tick := time.NewTicker(k.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-k.quit:
			return
		}
		var running []cluster.WorkerInfo
		for _, w := range k.c.Workers() {
			if w.State == cluster.Running {
				running = append(running, w)
			}
		}
		if len(running) == 0 {
			continue
		}
		w := running[r.IntN(len(running))]
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		n, err := onlyHere(ctx, pool, k.c.Address(), w.Address)
		cancel()
		if err != nil {
			k.t.Errorf("who has what: %v", err)
			return
		}
		if syscall.Kill(w.PID, syscall.SIGKILL) != nil {
			continue // it has just died
		}
		k.killed++
		k.results += n
		if n > 0 {
			k.lost++
		}
		if k.killed%10 == 0 {
			k.t.Logf("%d kills, %d results lost, %.0f %% done", k.killed, k.results, 100*k.progress())
		}
	}
}

// registered counts the workers that the scheduler knows: all, or those with an address.
func registered(t *testing.T, c *cluster.Cluster, address string) int {
	t.Helper()
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{Dial: c.Dial()})
	defer pool.Close()
	var threads map[string]int
	if err := pool.Call(t.Context(), c.Address(), "ncores", msgpack.Map{}, &threads); err != nil {
		t.Fatal(err)
	}
	if address == "" {
		return len(threads)
	}
	if _, ok := threads[address]; ok {
		return 1
	}
	return 0
}
