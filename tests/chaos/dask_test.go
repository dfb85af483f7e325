//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/tests/dask/rig"
)

// Python workers, Go workers, the sidecars of these and the scheduler's helper are killed in turns, at random, while a
// Python client computes with dask.array: every result is right.
func TestKilledAmongDask(t *testing.T) {
	kills, every := pick(24, 4), pick(5*time.Second, 2*time.Second)
	r := rig.New(t)
	r.Env = append(r.Env, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=1000",
		"DASK_DISTRIBUTED__NANNY__PRE_SPAWN_ENVIRON__OMP_NUM_THREADS=1")
	s := r.Scheduler()
	k := &daskKiller{t: t, scheduler: s, every: every, kills: kills, folder: t.TempDir(), killed: map[string]int{}}
	for i := range 2 {
		k.python = append(k.python, r.DaskWorker(s.Address, "--nanny", "--name", pythonName(i)))
		k.ours = append(k.ours, r.Worker(s.Address, "--nanny", "--name", goName(i)))
	}
	k.start()
	res := r.Python(s.Address, "chaos.py", k.folder, strconv.Itoa(int(pick(9*time.Minute, 2*time.Minute).Seconds())))
	k.stop()
	total := 0
	for _, n := range k.killed {
		total += n
	}
	t.Logf("%v rounds; %d kills, one every %v: %v; %d of them lost results that nobody else had (%d results)",
		res.Values["rounds"], total, every, k.killed, k.lost, k.results)
	if total < pick(20, 3) || k.lost < pick(5, 1) {
		t.Errorf("%d kills, %d of which lost results: want at least %d and %d", total, k.lost, pick(20, 3), pick(5, 1))
	}
}

// What is killed.
const (
	killPython  = "Python worker"
	killGo      = "Go worker"
	killSidecar = "sidecar"
	killHelper  = "helper"
)

// daskKiller kills a random process of a random kind from time to time. Its goroutine owns all but the first fields.
type daskKiller struct {
	t         *testing.T
	scheduler *rig.Process
	python    []*rig.Process // nannies
	ours      []*rig.Process // nannies
	every     time.Duration
	kills     int
	folder    string // where the workload tells that it has begun, and is told to stop

	// Kills by kind, those that lost results which nobody else had, and how many results. Read them after stop.
	killed        map[string]int
	lost, results int

	quit, done chan struct{}
}

func (k *daskKiller) start() {
	k.quit, k.done = make(chan struct{}), make(chan struct{})
	go k.run()
}

func (k *daskKiller) stop() {
	close(k.quit)
	<-k.done
}

func (k *daskKiller) run() {
	defer close(k.done)
	// The last round ends after the last kill.
	defer func() { _ = os.WriteFile(filepath.Join(k.folder, "stop"), nil, 0o666) }()
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{})
	defer pool.Close()
	random := rand.New(rand.NewPCG(7, 7))
	tick := time.NewTicker(k.every)
	defer tick.Stop()
	kinds := []string{killPython, killGo, killSidecar, killHelper}
	for n := 0; n < k.kills; {
		select {
		case <-tick.C:
		case <-k.quit:
			return
		}
		if _, err := os.Stat(filepath.Join(k.folder, "begun")); err != nil {
			continue
		}
		// Each kind has its turn, and one more at random.
		kind := kinds[n%len(kinds)]
		if n >= len(kinds) && random.IntN(2) == 0 {
			kind = kinds[random.IntN(len(kinds))]
		}
		victims := k.find(kind)
		if len(victims) == 0 {
			continue // it is being started again
		}
		v := victims[random.IntN(len(victims))]
		only := k.onlyOn(pool, v.name)
		if syscall.Kill(v.pid, syscall.SIGKILL) != nil {
			continue // it has just died
		}
		n++
		k.killed[kind]++
		k.results += only
		if only > 0 {
			k.lost++
		}
		k.t.Logf("killed a %s, %s, with %d results that nobody else had", kind, v.name, only)
	}
}

// victim is a process, and the name of the worker that it is, or is a part of; the helper has none.
type victim struct {
	pid  int
	name string
}

// find lists the processes of a kind.
func (k *daskKiller) find(kind string) []victim {
	table := processes()
	var out []victim
	below := func(p *rig.Process, name string, want func(process) bool) {
		for _, d := range table.below(p.PID()) {
			if want(d) {
				out = append(out, victim{d.pid, name})
			}
		}
	}
	switch kind {
	case killPython:
		for i, p := range k.python {
			below(p, pythonName(i), func(d process) bool { return strings.Contains(d.line, "spawn_main") })
		}
	case killGo:
		for i, p := range k.ours {
			below(p, goName(i), func(d process) bool { return d.parent == p.PID() })
		}
	case killSidecar:
		for i, p := range k.ours {
			below(p, goName(i), func(d process) bool { return strings.Contains(d.line, "millstream.sidecar") })
		}
	case killHelper:
		below(k.scheduler, "", func(d process) bool { return strings.Contains(d.line, "millstream.materializer") })
	}
	return out
}

func pythonName(i int) string { return fmt.Sprintf("python-%d", i) }
func goName(i int) string     { return fmt.Sprintf("go-%d", i) }

// onlyOn counts the results that only the worker of a name has.
func (k *daskKiller) onlyOn(pool *rpc.Pool, name string) int {
	if name == "" {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var identity, whoHas msgpack.Map
	if err := pool.Call(ctx, k.scheduler.Address, "identity", msgpack.MapOf("n_workers", -1), &identity); err != nil {
		k.t.Errorf("identity: %v", err)
		return 0
	}
	workers, _ := identity.Get("workers")
	list, _ := workers.(msgpack.Map)
	address := ""
	for at, w := range list.All() {
		if m, ok := w.(msgpack.Map); ok && m.GetString("name") == name {
			address, _ = at.(string)
		}
	}
	if err := pool.Call(ctx, k.scheduler.Address, "who_has", msgpack.Map{}, &whoHas); err != nil {
		k.t.Errorf("who has what: %v", err)
		return 0
	}
	n := 0
	for _, holders := range whoHas.All() {
		if h, ok := holders.([]any); ok && len(h) == 1 && h[0] == address {
			n++
		}
	}
	return n
}

// process is an entry of the system's table, with its command line.
type process struct {
	pid, parent int
	line        string
}

type processTable map[int]process

// processes reads the table.
func processes() processTable {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	out := processTable{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		out[pid] = process{pid, parent, strings.ReplaceAll(string(line), "\x00", " ")}
	}
	return out
}

// below lists the descendants of a process.
func (t processTable) below(pid int) []process {
	var out []process
	for _, p := range t {
		for at := p.parent; at > 0; at = t[at].parent {
			if at == pid {
				out = append(out, p)
				break
			}
		}
	}
	return out
}
