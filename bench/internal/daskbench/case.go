package daskbench

import (
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/internal/bench/benchfmt"
)

// Names of the cases.
const (
	schedulerCPU = "scheduler-cpu"
	mapNoop      = "map-noop"
	randomDAG    = "random-dag"
	mergeTree    = "merge-tree"
	frameMerge   = "df-merge"
)

// PeerName is Dask's name on the command line and in figures.
const PeerName = "dask"

// Case is something that is measured.
type Case struct {
	Name, About string
	Unit        string
	Better      benchfmt.Better
	// Go tells that our side has Go workers that run Go functions.
	Go bool
	// Bar is what the ratio to Dask has to reach.
	Bar *benchfmt.Bar
}

func ratio(v float64) *benchfmt.Bar { return &benchfmt.Bar{Value: v, Ratio: true} }

// Cases of the benchmark.
func Cases() []Case {
	return []Case{
		{schedulerCPU, "processor time of scheduler and helpers per Python no-op task", benchfmt.UnitMicros,
			benchfmt.Lower, false, ratio(0.25)},
		{mapNoop, "no-op tasks of a Python client, Go functions on Go workers here", benchfmt.UnitTaskRate,
			benchfmt.Higher, true, ratio(10)},
		{randomDAG, "a random graph of Python tasks with 1 to 3 dependencies", benchfmt.UnitSeconds, benchfmt.Lower,
			false, ratio(1.05)},
		{mergeTree, "a binary tree of additions in Python", benchfmt.UnitSeconds, benchfmt.Lower, false, ratio(1.05)},
		{frameMerge, "a merge of two dask.dataframes by P2P shuffles", benchfmt.UnitSeconds, benchfmt.Lower, false,
			ratio(1.05)},
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

// Options choose what to measure. Complete fills the rest in.
type Options struct {
	Cases []string
	// Peer compares with Dask.
	Peer bool
	// Rounds per figure, whose median counts (default 7, quick 1).
	Rounds int
	// Workers is the number of worker processes and Threads that of tasks at once in each (default 2 and 1).
	Workers, Threads int
	// Tasks of scheduler-cpu and map-noop (default 20,000, quick 2,000), DAG of random-dag (3,001, quick 501), Leaves
	// of merge-tree (2,048, quick 256), Rows of each frame of df-merge (10,000,000, quick 200,000) and Parts, its
	// partitions (20, quick 4).
	Tasks, DAG, Leaves, Rows, Parts int
	// Seed of random graphs and rows (default 1).
	Seed  int
	Quick bool
}

// Complete checks names and sets defaults.
func (o *Options) Complete() error {
	for _, n := range o.Cases {
		if !slices.Contains(CaseNames(), n) {
			return fmt.Errorf("unknown case %q; there are %s", n, strings.Join(CaseNames(), ", "))
		}
	}
	if len(o.Cases) == 0 {
		o.Cases = CaseNames()
	}
	for _, d := range []struct {
		what        string
		v           *int
		full, quick int
	}{
		{"rounds", &o.Rounds, 7, 1}, {"workers", &o.Workers, 2, 2}, {"threads", &o.Threads, 1, 1},
		{"tasks", &o.Tasks, 20_000, 2_000},
		{"tasks of the graph", &o.DAG, 3_001, 501}, {"leaves", &o.Leaves, 2_048, 256},
		{"rows", &o.Rows, 10_000_000, 200_000},
		{"partitions", &o.Parts, 20, 4}, {"seed", &o.Seed, 1, 1},
	} {
		if *d.v == 0 {
			if *d.v = d.full; o.Quick {
				*d.v = d.quick
			}
		}
		if *d.v < 1 {
			return fmt.Errorf("%s: %d must be positive", d.what, *d.v)
		}
	}
	return nil
}
