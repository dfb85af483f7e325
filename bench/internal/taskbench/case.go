package taskbench

import (
	"fmt"
	"slices"

	"go.millstream.dev/bench/internal/options"
	"go.millstream.dev/internal/bench/benchfmt"
)

// Names of the cases.
const (
	mapNoop       = "map-noop"
	tree          = "tree"
	randomDAG     = "random-dag"
	submitLatency = "submit-latency"
	chain         = "chain"
	schedulerOnly = "scheduler-only"
	fetch         = "fetch"
	clientFetch   = "client-fetch"
	shuffle       = "shuffle"
	deviceFetch   = "device-fetch"
	deviceSpill   = "device-spill"
	dashboardCase = "dashboard"
)

// Case is a measurement.
type Case struct {
	Name, About string
	Unit        string
	Better      benchfmt.Better
	// Bar is the target in comparison with Dask; nil if the case has its own targets.
	Bar *benchfmt.Bar
}

func ratio(v float64) *benchfmt.Bar { return &benchfmt.Bar{Value: v, Ratio: true} }

// Cases returns the cases of the benchmark.
func Cases() []Case {
	return []Case{
		{mapNoop, "no-op tasks by Map and Gather, with distinct keys", benchfmt.UnitTaskRate, benchfmt.Higher,
			ratio(50)},
		{tree, "a binary tree of additions", benchfmt.UnitTaskRate, benchfmt.Higher, ratio(30)},
		{randomDAG, "a random graph whose tasks have 2 to 4 dependencies", benchfmt.UnitTaskRate, benchfmt.Higher,
			ratio(30)},
		{submitLatency, "Submit and Result of one task, the median", benchfmt.UnitMicros, benchfmt.Lower, ratio(0.05)},
		{chain, "a chain of additions, the time of one link", benchfmt.UnitMicros, benchfmt.Lower, ratio(0.05)},
		{schedulerOnly, "CPU and memory per task of a scheduler whose workers do nothing", benchfmt.UnitMicros,
			benchfmt.Lower, nil},
		{fetch, "64 MiB between workers, idle and while every slot computes", benchfmt.UnitGBps, benchfmt.Higher, nil},
		{clientFetch, "64 MiB to the client, first and later, against package ucx", benchfmt.UnitGBps,
			benchfmt.Higher, nil},
		{shuffle, "shuffle of rows among 4 workers, against p2p of Dask", benchfmt.UnitGBps,
			benchfmt.Higher, ratio(5)},
		{deviceFetch, "GPU memory between workers, against package ucx; not part of all", benchfmt.UnitGBps,
			benchfmt.Higher, nil},
		{deviceSpill, "GPU results to host memory and back; not part of all",
			benchfmt.UnitGBps, benchfmt.Higher, nil},
		{dashboardCase, "no-op tasks while pages of the dashboard are open, against none", benchfmt.UnitTaskRate,
			benchfmt.Higher, nil},
	}
}

// CaseNames returns the names of the cases.
func CaseNames() []string { return options.Names(Cases(), func(c Case) string { return c.Name }) }

// PeerName is the name of Dask on the command line and in figures.
const PeerName = "dask"

// Options specify what to measure. Complete sets the defaults.
type Options struct {
	Cases []string
	// Peer enables the comparison with Dask.
	Peer bool
	// Rounds is the number of rounds per figure, of which the best counts (default 3, quick 1). scheduler-only has one
	// round for each number of tasks.
	Rounds int
	// Workers is the number of worker processes and Threads that of concurrent tasks in each (default 2 and 1). The
	// shuffle has ShuffleWorkers (default 4).
	Workers, Threads, ShuffleWorkers int
	// Quick selects smaller graphs, for a run of about a minute with Dask.
	Quick bool

	// Tasks is the number of tasks of map-noop (default 100,000, quick 5,000), Leaves that of leaves of the tree, a
	// power of two (32,768, quick 1,024), DAG that of tasks of the random graph (50,000, quick 2,000), Submits that of
	// tasks of the latency (300, quick 50), Chain that of tasks of the chain (5,000, quick 200).
	Tasks, Leaves, DAG, Submits, Chain int
	// Scheduler are the numbers of tasks of scheduler-only (10,000, 100,000 and 1,000,000, quick 1,000 and 10,000).
	Scheduler []int
	// Watched is the number of tasks of dashboard (500,000, quick 20,000).
	Watched int
	// FetchBytes is the size of the fetched value (64 MiB), Fetches the number of fetches per round (3, quick 1), also
	// to the client, without the first.
	FetchBytes int64
	Fetches    int
	// ShuffleBytes is the size of the shuffle (2 GiB, quick 128 MiB), ShuffleParts the number of partitions (32, quick
	// 16).
	ShuffleBytes int64
	ShuffleParts int
	// DeviceFetches is the number of repetitions of each shape in device-fetch per round (20, quick 5), Device the GPU
	// of the workers of device-fetch and device-spill (0).
	DeviceFetches int
	Device        int
	// Seed is the seed of random graphs and rows (default 1).
	Seed uint64
	// Profile, if set, is a folder for CPU profiles of Millstream processes.
	Profile string
}

// Complete checks names and sets defaults.
func (o *Options) Complete() error {
	// All cases that run on any machine.
	byDefault := slices.DeleteFunc(CaseNames(), func(n string) bool { return n == deviceFetch || n == deviceSpill })
	if err := options.Choose("case", &o.Cases, CaseNames(), byDefault); err != nil {
		return err
	}
	if err := options.Positive(o.Quick, []options.Number[int]{
		{What: "rounds", Value: &o.Rounds, Full: 3, Quick: 1},
		{What: "workers", Value: &o.Workers, Full: 2, Quick: 2},
		{What: "threads", Value: &o.Threads, Full: 1, Quick: 1},
		{What: "workers of the shuffle", Value: &o.ShuffleWorkers, Full: 4, Quick: 4},
		{What: "tasks", Value: &o.Tasks, Full: 100_000, Quick: 5_000},
		{What: "leaves", Value: &o.Leaves, Full: 1 << 15, Quick: 1 << 10},
		{What: "tasks of the graph", Value: &o.DAG, Full: 50_000, Quick: 2_000},
		{What: "tasks of dashboard", Value: &o.Watched, Full: 500_000, Quick: 20_000},
		{What: "submits", Value: &o.Submits, Full: 300, Quick: 50},
		{What: "tasks of the chain", Value: &o.Chain, Full: 5_000, Quick: 200},
		{What: "fetches", Value: &o.Fetches, Full: 3, Quick: 1},
		{What: "partitions", Value: &o.ShuffleParts, Full: 32, Quick: 16},
		{What: "fetches of GPU memory", Value: &o.DeviceFetches, Full: 20, Quick: 5},
	}...); err != nil {
		return err
	}
	if err := options.Positive(o.Quick, []options.Number[int64]{
		{What: "bytes of a fetch", Value: &o.FetchBytes, Full: 64 << 20, Quick: 64 << 20},
		{What: "bytes of the shuffle", Value: &o.ShuffleBytes, Full: 2 << 30, Quick: 128 << 20},
	}...); err != nil {
		return err
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	if len(o.Scheduler) == 0 {
		o.Scheduler = []int{10_000, 100_000, 1_000_000}
		if o.Quick {
			o.Scheduler = []int{1_000, 10_000}
		}
	}
	for _, n := range o.Scheduler {
		if n <= 0 {
			return fmt.Errorf("tasks of scheduler-only: %d must be positive", n)
		}
	}
	if o.Device < 0 {
		return fmt.Errorf("invalid GPU %d", o.Device)
	}
	if o.Leaves&(o.Leaves-1) != 0 {
		return fmt.Errorf("invalid number of leaves %d: want a power of two", o.Leaves)
	}
	if o.DAG < dagRoots {
		return fmt.Errorf("invalid number of tasks of the graph %d: want at least %d", o.DAG, dagRoots)
	}
	if o.Workers < 2 && slices.Contains(o.Cases, fetch) {
		return fmt.Errorf("a fetch needs at least two workers")
	}
	return nil
}
