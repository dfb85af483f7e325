package sim

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

var (
	seedFlag  = flag.Uint64("sim.seed", 0, "the seed that TestSeed runs")
	traceFlag = flag.Bool("sim.trace", false, "TestSeed prints everything that happens")
	seedsFlag = flag.Int("sim.seeds", 100, "how many seeds TestSeeds runs")
	fromFlag  = flag.Uint64("sim.from", 1, "the first of them")
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// TestSeed runs one seed, for debugging.
func TestSeed(t *testing.T) {
	cfg := Random(*seedFlag)
	if *traceFlag {
		cfg.Trace = os.Stdout
	}
	report, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", report)
}

// TestSeeds runs many seeds with all invariants checked.
func TestSeeds(t *testing.T) {
	var next atomic.Uint64
	next.Store(*fromFlag)
	last := *fromFlag + uint64(*seedsFlag)
	var mu sync.Mutex
	var sum Report
	failed := 0
	var wg sync.WaitGroup
	start := time.Now()
	for range min(runtime.GOMAXPROCS(0), 8) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < last; seed = next.Add(1) - 1 {
				report, err := Run(Random(seed))
				mu.Lock()
				sum.add(report)
				if err != nil {
					failed++
					if failed <= 3 {
						t.Errorf("%v\n%s", err, lastLines(t, seed))
					} else {
						t.Errorf("seed %d fails too: %s", seed,
							strings.Join(strings.SplitN(err.(*Error).What, "\n", 3)[:2], " "))
					}
				}
				stop := failed > 40
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds, %d failed, %v: %+v", *seedsFlag, failed, time.Since(start).Round(time.Millisecond), sum)
	if *seedsFlag >= 100 && (sum.LostStores == 0 || sum.Restarts == 0 || sum.Partitions == 0 || sum.Freezes == 0 ||
		sum.Refused == 0 || sum.Checked == 0 || sum.Values == 0 ||
		sum.Ahead == 0) {
		t.Error("seeds: got no run with every kind of fault")
	}
}

// lastLines runs a seed again with a trace, which is written to a file, and returns the end of it.
func lastLines(t *testing.T, seed uint64) string {
	name := filepath.Join(os.TempDir(), fmt.Sprintf("millstream-sim-%d.trace", seed))
	var b bytes.Buffer
	cfg := Random(seed)
	cfg.Trace = &b
	if _, err := Run(cfg); err == nil {
		return "it does not fail again: the simulation is not deterministic"
	}
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Error(err)
	}
	lines := bytes.Split(b.Bytes(), []byte("\n"))
	return "trace: " + name + "\n" + string(bytes.Join(lines[max(0, len(lines)-12):], []byte("\n")))
}

func (r *Report) add(o Report) {
	r.Virtual += o.Virtual
	r.Messages += o.Messages
	r.SchedulerEvents += o.SchedulerEvents
	r.WorkerEvents += o.WorkerEvents
	r.SchedulerCPU += o.SchedulerCPU
	r.WorkerCPU += o.WorkerCPU
	r.Tasks += o.Tasks
	r.Runs += o.Runs
	r.Transfers += o.Transfers
	r.Values += o.Values
	r.Ahead += o.Ahead
	r.Checked += o.Checked
	r.Kills += o.Kills
	r.LostStores += o.LostStores
	r.Breaks += o.Breaks
	r.Partitions += o.Partitions
	r.Freezes += o.Freezes
	r.Restarts += o.Restarts
	r.Refused += o.Refused
	r.Resubmitted += o.Resubmitted
	r.KilledWorker += o.KilledWorker
	r.Canceled += o.Canceled
}

// The same seed gives the same run, line by line.
func TestDeterministic(t *testing.T) {
	for _, seed := range []uint64{1, 2} {
		var sums []uint64
		for range 2 {
			h := fnv.New64a()
			cfg := Random(seed)
			cfg.Trace = h
			if _, err := Run(cfg); err != nil {
				t.Fatal(err)
			}
			sums = append(sums, h.Sum64())
		}
		if sums[0] != sums[1] {
			t.Errorf("seed %d: got two different runs", seed)
		}
	}
}
