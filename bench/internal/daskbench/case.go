package daskbench

import (
	"go.millstream.dev/bench/internal/options"
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

// PeerName is the name of Dask on the command line and in figures.
const PeerName = "dask"

// Case is a measurement.
type Case struct {
	Name, About string
	Unit        string
	Better      benchfmt.Better
	// Go is set if Millstream uses Go workers that run Go functions.
	Go bool
	// Bar is the target of the ratio to Dask.
	Bar *benchfmt.Bar
}

func ratio(v float64) *benchfmt.Bar { return &benchfmt.Bar{Value: v, Ratio: true} }

// Cases returns the cases of the benchmark.
func Cases() []Case {
	return []Case{
		{schedulerCPU, "processor time of scheduler and helpers per Python no-op task", benchfmt.UnitMicros,
			benchfmt.Lower, false, ratio(0.25)},
		{mapNoop, "no-op tasks of a Python client, here with Go functions", benchfmt.UnitTaskRate,
			benchfmt.Higher, true, ratio(10)},
		{randomDAG, "a random graph of Python tasks with 1 to 3 dependencies", benchfmt.UnitSeconds, benchfmt.Lower,
			false, ratio(1.05)},
		{mergeTree, "a binary tree of additions in Python", benchfmt.UnitSeconds, benchfmt.Lower, false, ratio(1.05)},
		{frameMerge, "a merge of two dask.dataframes by P2P shuffles", benchfmt.UnitSeconds, benchfmt.Lower, false,
			ratio(1.05)},
	}
}

// CaseNames returns the names of the cases.
func CaseNames() []string { return options.Names(Cases(), func(c Case) string { return c.Name }) }

// Options specify what to measure. Complete sets the defaults.
type Options struct {
	Cases []string
	// Peer enables the comparison with Dask.
	Peer bool
	// Rounds is the number of rounds per figure, whose median counts (default 7, quick 1).
	Rounds int
	// Workers is the number of worker processes and Threads that of concurrent tasks in each (default 2 and 1).
	Workers, Threads int
	// Tasks is the number of tasks of scheduler-cpu and map-noop (default 20,000, quick 2,000), DAG that of random-dag
	// (3,001, quick 501), Leaves that of leaves of merge-tree (2,048, quick 256), Rows that of rows of each frame of
	// df-merge (10,000,000, quick 200,000) and Parts that of its partitions (20, quick 4).
	Tasks, DAG, Leaves, Rows, Parts int
	// Seed is the seed of random graphs and rows (default 1).
	Seed  int
	Quick bool
}

// Complete checks names and sets defaults.
func (o *Options) Complete() error {
	if err := options.Choose("case", &o.Cases, CaseNames(), CaseNames()); err != nil {
		return err
	}
	return options.Positive(o.Quick, []options.Number[int]{
		{What: "rounds", Value: &o.Rounds, Full: 7, Quick: 1},
		{What: "workers", Value: &o.Workers, Full: 2, Quick: 2},
		{What: "threads", Value: &o.Threads, Full: 1, Quick: 1},
		{What: "tasks", Value: &o.Tasks, Full: 20_000, Quick: 2_000},
		{What: "tasks of the graph", Value: &o.DAG, Full: 3_001, Quick: 501},
		{What: "leaves", Value: &o.Leaves, Full: 2_048, Quick: 256},
		{What: "rows", Value: &o.Rows, Full: 10_000_000, Quick: 200_000},
		{What: "partitions", Value: &o.Parts, Full: 20, Quick: 4},
		{What: "seed", Value: &o.Seed, Full: 1, Quick: 1},
	}...)
}
