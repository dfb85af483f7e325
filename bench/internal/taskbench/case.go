package taskbench

import (
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/internal/bench/benchfmt"
)

// Names of the cases.
const (
	mapNoop       = "map-noop"
	tree          = "tree"
	randomDAG     = "random-dag"
	submitLatency = "submit-latency"
	schedulerOnly = "scheduler-only"
	fetch         = "fetch"
	shuffle       = "shuffle"
	deviceFetch   = "device-fetch"
)

// Case is something that is measured.
type Case struct {
	Name, About string
	Unit        string
	Better      benchfmt.Better
	// Bar is what the figure has to reach beside Dask's; nil where the case has bars of
	// its own.
	Bar *benchfmt.Bar
}

func ratio(v float64) *benchfmt.Bar { return &benchfmt.Bar{Value: v, Ratio: true} }

// Cases of the benchmark.
func Cases() []Case {
	return []Case{
		{mapNoop, "no-op tasks by Map and Gather, each with a key of its own", benchfmt.UnitTaskRate, benchfmt.Higher,
			ratio(50)},
		{tree, "a binary tree of additions", benchfmt.UnitTaskRate, benchfmt.Higher, ratio(30)},
		{randomDAG, "a random graph whose tasks have 2 to 4 dependencies", benchfmt.UnitTaskRate, benchfmt.Higher,
			ratio(30)},
		{submitLatency, "Submit and Result of one task, the median", benchfmt.UnitMicros, benchfmt.Lower, ratio(0.05)},
		{schedulerOnly, "a scheduler whose workers do nothing: CPU and memory per task", benchfmt.UnitMicros,
			benchfmt.Lower, nil},
		{fetch, "64 MiB between workers, idle and while every slot computes", benchfmt.UnitGBps, benchfmt.Higher, nil},
		{shuffle, "rows among 4 workers by the hash of a column, against Dask's p2p", benchfmt.UnitGBps,
			benchfmt.Higher, ratio(5)},
		{deviceFetch, "GPU memory between workers, against package ucx; by name only", benchfmt.UnitGBps,
			benchfmt.Higher, nil},
	}
}

// CaseNames are the names of the cases.
func CaseNames() []string {
	var names []string
	for _, c := range Cases() {
		names = append(names, c.Name)
	}
	return names
}

// PeerName is Dask's name on the command line and in figures.
const PeerName = "dask"

// Options choose what to measure. Complete fills the rest in.
type Options struct {
	Cases []string
	// Peer compares with Dask.
	Peer bool
	// Rounds per figure, of which the best counts (default 3, quick 1). scheduler-only has
	// one round for each number of tasks.
	Rounds int
	// Workers is the number of worker processes and Threads that of tasks at once in each
	// (default 2 and 1). The shuffle has ShuffleWorkers (default 4).
	Workers, Threads, ShuffleWorkers int
	// Quick has smaller graphs: a run of about a minute with Dask.
	Quick bool

	// Tasks of map-noop (default 100,000, quick 5,000), Leaves of the tree, a power of two
	// (32,768, quick 1,024), DAG is the random graph's tasks (50,000, quick 2,000), Submits
	// of the latency (300, quick 50).
	Tasks, Leaves, DAG, Submits int
	// Scheduler are the numbers of tasks of scheduler-only (10,000, 100,000 and 1,000,000,
	// quick 1,000 and 10,000).
	Scheduler []int
	// FetchBytes is the size of the value that is fetched (64 MiB), Fetches how often per
	// round (3, quick 1).
	FetchBytes int64
	Fetches    int
	// ShuffleBytes is what is shuffled (2 GiB, quick 128 MiB), in ShuffleParts partitions
	// (32, quick 16).
	ShuffleBytes int64
	ShuffleParts int
	// DeviceFetches is how often per round device-fetch moves each shape (20, quick 5), Device the
	// GPU that its workers share (0).
	DeviceFetches int
	Device        int
	// Seed of random graphs and rows (default 1).
	Seed uint64
	// Profile, when set, is a folder for CPU profiles of our processes.
	Profile string
}

// set is the value, or its default.
func set[T int | int64 | uint64](v *T, full, quick T, isQuick bool) error {
	if *v == 0 {
		if *v = full; isQuick {
			*v = quick
		}
	}
	if *v < 0 {
		return fmt.Errorf("%d is negative", *v)
	}
	return nil
}

// Complete checks names and sets defaults.
func (o *Options) Complete() error {
	for _, n := range o.Cases {
		if !slices.Contains(CaseNames(), n) {
			return fmt.Errorf("unknown case %q; there are %s", n, strings.Join(CaseNames(), ", "))
		}
	}
	if len(o.Cases) == 0 { // all that run on any machine
		o.Cases = slices.DeleteFunc(CaseNames(), func(n string) bool { return n == deviceFetch })
	}
	q := o.Quick
	for _, d := range []struct {
		what        string
		v           *int
		full, quick int
	}{
		{"rounds", &o.Rounds, 3, 1}, {"workers", &o.Workers, 2, 2}, {"threads", &o.Threads, 1, 1},
		{"workers of the shuffle", &o.ShuffleWorkers, 4, 4},
		{"tasks", &o.Tasks, 100_000, 5_000}, {"leaves", &o.Leaves, 1 << 15, 1 << 10},
		{"tasks of the graph", &o.DAG, 50_000, 2_000},
		{"submits", &o.Submits, 300, 50}, {"fetches", &o.Fetches, 3, 1}, {"partitions", &o.ShuffleParts, 32, 16},
		{"fetches of GPU memory", &o.DeviceFetches, 20, 5},
	} {
		if err := set(d.v, d.full, d.quick, q); err != nil {
			return fmt.Errorf("%s: %w", d.what, err)
		}
	}
	if err := set(&o.FetchBytes, 64<<20, 64<<20, q); err != nil {
		return fmt.Errorf("bytes of a fetch: %w", err)
	}
	if err := set(&o.ShuffleBytes, 2<<30, 128<<20, q); err != nil {
		return fmt.Errorf("bytes of the shuffle: %w", err)
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	if len(o.Scheduler) == 0 {
		o.Scheduler = []int{10_000, 100_000, 1_000_000}
		if q {
			o.Scheduler = []int{1_000, 10_000}
		}
	}
	for _, n := range o.Scheduler {
		if n <= 0 {
			return fmt.Errorf("tasks of scheduler-only: %d must be positive", n)
		}
	}
	if o.Device < 0 {
		return fmt.Errorf("GPU %d: give its number", o.Device)
	}
	if o.Leaves&(o.Leaves-1) != 0 {
		return fmt.Errorf("%d leaves: it must be a power of two", o.Leaves)
	}
	if o.DAG < dagRoots {
		return fmt.Errorf("%d tasks of the graph: it must have %d at least", o.DAG, dagRoots)
	}
	if o.Workers < 2 && slices.Contains(o.Cases, fetch) {
		return fmt.Errorf("a fetch needs two workers")
	}
	return nil
}
