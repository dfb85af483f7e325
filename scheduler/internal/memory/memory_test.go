package memory

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/peers"
)

type rig struct {
	*hosttest.Host
	*Memory
	clients *peers.Clients
	workers []*peers.Worker
	client  state.ClientID
}

// start returns a Memory with two workers and the client c.
func start(t *testing.T, interval time.Duration) *rig {
	r := &rig{Host: hosttest.New(t)}
	workers := peers.NewWorkers(r.Host.State)
	r.clients = peers.NewClients(r.Host.State)
	r.Memory = New(Host{Loop: r.Host.Loop, Log: r.Host.Log, Apply: r.Host.Apply, Workers: workers, Clients: r.clients,
		Interval: interval, RecentToOld: 30 * time.Second})
	r.Serve(r.Register)
	r.Do(func() {
		for _, a := range []string{"tcp://a", "tcp://b"} {
			w := &peers.Worker{Address: a, Name: a, Alias: a, Host: "h"}
			w.ID = r.AddWorker(a, w)
			workers.Add(w)
			r.workers = append(r.workers, w)
		}
		r.client = r.AddClient("c", nil)
		r.clients.ByName["c"] = &peers.Client{ID: r.client, Name: "c"}
	})
	return r
}

// scatter puts a result onto both workers.
func (r *rig) scatter(key string) {
	r.Do(func() {
		r.Host.Apply(&state.UpdateData{Client: r.client, Data: []state.NewData{{Key: task.NewKey(key), NBytes: 8,
			Workers: []state.WorkerID{r.workers[0].ID, r.workers[1].ID}}}})
	})
}

func (r *rig) holders(key string) (n int) {
	r.Do(func() { n = r.Host.State.Task(task.NewKey(key)).NumHolders() })
	return n
}

func TestManagerRequests(t *testing.T) {
	r := start(t, -1)
	r.OnTick(r.Tick)
	if r.Call("amm_handler", "method", "running") != false {
		t.Error("running before the start: got true, want false")
	}
	r.scatter("x")
	if got := r.holders("x"); got != 2 {
		t.Fatalf("holders before a run: got %d, want 2", got)
	}
	r.Call("amm_handler", "method", "run_once")
	if got := r.holders("x"); got != 1 {
		t.Errorf("holders after run_once: got %d, want 1", got)
	}
	r.Call("amm_handler", "method", "start")
	if r.Call("amm_handler", "method", "running") != true {
		t.Error("running after the start: got false, want true")
	}
	r.Do(func() { r.Memory.Interval = time.Millisecond })
	r.scatter("y")
	r.Until("the periodic run drops a replica", func() bool {
		return r.Host.State.Task(task.NewKey("y")).NumHolders() == 1
	})
	r.Call("amm_handler", "method", "stop")
	if r.Call("amm_handler", "method", "running") != false {
		t.Error("running after the stop: got true, want false")
	}
	r.scatter("z")
	ticks := 0
	r.OnTick(func() { r.Tick(); ticks++ })
	r.Until("ticks pass", func() bool { return ticks > 5 })
	if got := r.holders("z"); got != 2 {
		t.Errorf("holders after the stop: got %d, want 2", got)
	}
	r.Fails("unknown method", "amm_handler", "method", "policies")
}

func TestManagerRunsByDefault(t *testing.T) {
	r := start(t, time.Millisecond)
	if r.Call("amm_handler", "method", "running") != true {
		t.Error("running: got false, want true")
	}
	r.OnTick(r.Tick)
	r.scatter("x")
	r.Until("a run drops a replica", func() bool { return r.Host.State.Task(task.NewKey("x")).NumHolders() == 1 })
}

func TestMeasures(t *testing.T) {
	r := start(t, -1)
	r.Do(func() {
		begin := r.Host.Loop.Now()
		a, b := &r.workers[0].Recorded, &r.workers[1].Recorded
		a.RSS, a.Managed, a.Spilled = 1000, 300, 50
		b.RSS, b.Managed = 500, 900 // managed memory is reported more often than that of the process
		r.record(begin)
		if got := measures["unmanaged_old"](r.usage()); got != 0 {
			t.Errorf("old memory of new workers: got %d, want 0", got)
		}
		r.record(begin.Add(20 * time.Second))
		a.RSS = 1200
		r.record(begin.Add(40 * time.Second))
		for name, want := range map[string]int64{
			"process": 1700, "managed": 800, "managed_total": 850, "spilled": 50, "unmanaged": 900,
			"unmanaged_old": 700, "unmanaged_recent": 200, "optimistic": 1500,
		} {
			if got := measures[name](r.usage()); got != want {
				t.Errorf("%s: got %d, want %d", name, got, want)
			}
		}
		r.Workers.Remove(r.workers[0])
		r.record(begin.Add(41 * time.Second))
		if len(r.old) != 1 {
			t.Errorf("records of a removed worker: got %d workers, want 1", len(r.old))
		}
	})
}

func TestLowest(t *testing.T) {
	var l lowest
	if got := l.get(); got != 0 {
		t.Errorf("without values: got %d, want 0", got)
	}
	at := time.Unix(1000, 0)
	for i, c := range []struct{ n, want int64 }{{5, 5}, {7, 5}, {3, 3}, {9, 3}, {4, 3}, {8, 3}, {6, 4},
		{6, 4}, {6, 6}} {
		l.add(at.Add(time.Duration(i)*time.Second), c.n, 3*time.Second)
		if got := l.get(); got != c.want {
			t.Errorf("after value %d: got %d, want %d", i, got, c.want)
		}
	}
}

func TestSampler(t *testing.T) {
	r := start(t, -1)
	r.Do(func() { r.workers[0].Recorded.RSS = 100 })
	key := r.Call("memory_sampler_start", "client", "c", "measure", "process", "interval", 0.001).(string)
	other := r.Call("memory_sampler_start", "client", "c", "measure", "spilled", "interval", 1e9).(string)
	r.Until("five samples", func() bool { return len(r.samplers[key].samples) >= 5 })
	samples := r.Call("memory_sampler_stop", "key", key).([]any)
	if len(samples) < 5 {
		t.Errorf("samples: got %d, want at least 5", len(samples))
	}
	last := 0.0
	for _, x := range samples {
		pair := x.([]any)
		if at := pair[0].(float64); at < last || fmt.Sprint(pair[1]) != "100" {
			t.Errorf("sample: got %v after %v, want increasing times and 100 bytes", pair, last)
		}
		last = pair[0].(float64)
	}
	if got := r.Call("memory_sampler_stop", "key", other).([]any); len(got) != 1 {
		t.Errorf("samples at a long interval: got %d, want the first", len(got))
	}
	r.Fails("unknown sampler", "memory_sampler_stop", "key", key)
	r.Fails("unknown measure", "memory_sampler_start", "client", "c", "measure", "_x", "interval", 1.0)
	r.Fails("unknown client", "memory_sampler_start", "client", "d", "measure", "process", "interval", 1.0)
	for _, interval := range []float64{0, -1} {
		r.Fails("interval", "memory_sampler_start", "client", "c", "measure", "process", "interval", interval)
	}
	if names := strings.Join(measureNames(), " "); !strings.Contains(names, "managed managed_total optimistic") {
		t.Errorf("names: got %s", names)
	}
}

// A sampler ends with its client, and keeps a bounded number of samples.
func TestSamplerBounds(t *testing.T) {
	r := start(t, -1)
	key := r.Call("memory_sampler_start", "client", "c", "measure", "process", "interval", 0.001).(string)
	r.Do(func() { delete(r.clients.ByName, "c") })
	r.Until("the sampler ends", func() bool { return r.samplers[key] == nil })

	p := &sampler{interval: time.Second}
	for i := range maxSamples + 1 {
		p.add(sample{bytes: int64(i)})
	}
	if len(p.samples) != maxSamples/2+1 || p.interval != 2*time.Second || p.samples[1].bytes != 2 {
		t.Errorf("got %d samples, interval %v, second %d, want %d, 2s, 2", len(p.samples), p.interval,
			p.samples[1].bytes, maxSamples/2+1)
	}
}
