package framebench

import (
	"fmt"
	"slices"

	"go.millstream.dev/bench/internal/options"
)

// Names of the peers on the command line and in figures.
const (
	DuckDB = "duckdb"
	Dask   = "dask"
)

// Sources of tables.
const (
	Memory  = "memory"  // the memory of the workers and of the peer
	Parquet = "parquet" // files that every run reads
)

// Sources are the sources of tables.
var Sources = []string{Memory, Parquet}

// Options specify what to measure. Complete sets the defaults.
type Options struct {
	// Suite is the name of the benchmark, such as "merge".
	Suite string
	// Cases are the queries (default all).
	Cases []string
	// Rows is the number of rows of the largest tables.
	Rows int
	// Partitions is the number of partitions of these tables (default four for each thread). ChunkSize, the number of
	// rows of a partition, determines it instead if it is not 0.
	Partitions, ChunkSize int
	// FracMatch is the fraction of the rows on the right of a merge that have a match on the left.
	FracMatch float64
	// Groups is the number of groups of group-bys with few groups (default 100).
	Groups int
	// Scale is the scale factor of TPC-H.
	Scale float64
	// Source specifies where the tables of TPC-H are: Memory (default) or Parquet.
	Source string
	// Workers and Threads are those of the cluster; DuckDB gets as many threads in total.
	Workers, Threads int
	// Rounds is the number of alternating rounds, of which the best counts.
	Rounds int
	// Quick selects fewer rows and rounds.
	Quick bool
}

// Complete sets the defaults and checks the options.
func (o *Options) Complete() error {
	s, ok := suites[o.Suite]
	if !ok {
		return fmt.Errorf("unknown benchmark %q", o.Suite)
	}
	if err := options.Choose("case", &o.Cases, CaseNames(o.Suite), s.byDefault()); err != nil {
		return err
	}
	if err := options.Positive(o.Quick, []options.Number[int]{
		{What: "rows", Value: &o.Rows, Full: s.rows, Quick: s.rows / 20},
		{What: "groups", Value: &o.Groups, Full: 100, Quick: 100},
		{What: "workers", Value: &o.Workers, Full: 2, Quick: 2},
		{What: "threads", Value: &o.Threads, Full: 1, Quick: 1},
		{What: "rounds", Value: &o.Rounds, Full: 3, Quick: 2},
	}...); err != nil {
		return err
	}
	if o.ChunkSize != 0 {
		if err := options.Positive(false, options.Number[int]{What: "chunk size", Value: &o.ChunkSize}); err != nil {
			return err
		}
		o.Partitions = (o.Rows + o.ChunkSize - 1) / o.ChunkSize
	}
	parts := 4 * o.Workers * o.Threads
	if err := options.Positive(false, options.Number[int]{What: "partitions", Value: &o.Partitions,
		Full: parts}); err != nil {
		return err
	}
	if o.FracMatch < 0 || o.FracMatch > 1 {
		return fmt.Errorf("fraction of matches must be between 0 and 1, not %v", o.FracMatch)
	}
	if o.Scale == 0 {
		if o.Scale = 1; o.Quick {
			o.Scale = 0.05
		}
	}
	if o.Source == "" {
		o.Source = Memory
	}
	if err := options.Known("source", []string{o.Source}, Sources); err != nil {
		return err
	}
	if o.Scale < 0.001 {
		return fmt.Errorf("scale factor must be at least 0.001, not %v", o.Scale)
	}
	return nil
}

// CaseNames returns the names of the cases of a benchmark.
func CaseNames(suite string) []string {
	return options.Names(suites[suite].cases, func(c Case) string { return c.Name })
}

// Cases returns the cases of a benchmark, for help texts.
func Cases(suite string) []Case { return slices.Clone(suites[suite].cases) }

// Peers returns the peers that a benchmark can be compared with.
func Peers(suite string) []string { return slices.Clone(suites[suite].peers) }
