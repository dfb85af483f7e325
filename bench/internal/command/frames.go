package command

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"go.millstream.dev/bench/internal/framebench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

// frameBench describes a benchmark of frames.
type frameBench struct {
	suite, short, long, example string
	// flags adds flags of this benchmark only, with the default of its rows in rows.
	flags func(*pflag.FlagSet, *framebench.Options)
	rows  string
	// values are those of flags, for shell completion.
	values map[string][]string
}

var mergeBench = frameBench{
	suite: "merge",
	short: "Measure the merge of two distributed frames",
	long: `Measure the merge of Dask-CUDA's local_cudf_merge: an inner join of two tables of
--rows rows with a unique key and a payload, both int64, in partitions in random
order. --frac-match is the fraction of keys on the right that occur on the left.`,
	example: `  millstream bench merge --quick
  millstream bench merge --peers duckdb --rows 10000000
  millstream bench merge --case sparse --frac-match 0.9 --json`,
	rows: "10000000, quick 500000",
	flags: func(flags *pflag.FlagSet, o *framebench.Options) {
		flags.Float64Var(&o.FracMatch, "frac-match", 0.3, "fraction of rows on the right with a match")
	},
}

var groupByBench = frameBench{
	suite: "groupby",
	short: "Measure group-bys and joins of distributed frames",
	long: `Measure the ten group-bys and five joins of the database-like ops benchmark of
h2o.ai, on tables made as described there: keys are texts and integers with few
and many values, --rows rows and --groups values of keys with few.`,
	example: `  millstream bench groupby --quick --peers duckdb
  millstream bench groupby --case q1,q2,j5 --rows 1000000 --peers`,
	rows: "10000000, quick 500000",
	flags: func(flags *pflag.FlagSet, o *framebench.Options) {
		flags.IntVar(&o.Groups, "groups", 0, "number of values of keys with few (default 100)")
	},
}

var sortBench = frameBench{
	suite: "sort",
	short: "Measure sorts of distributed frames",
	long: `Measure sorts of a table of --rows rows with a key of several types and an int64
payload. The partitions of the result are ranges of the key, each sorted.`,
	example: `  millstream bench sort --quick
  millstream bench sort --case int64,text --peers duckdb`,
	rows: "10000000, quick 500000",
}

var shuffleBench = frameBench{
	suite: "shuffle",
	short: "Measure the exchange of the rows of a distributed frame",
	long: `Measure the exchange of all rows of a table between the workers by the hash of a
key, as Dask-CUDA's local_cudf_shuffle: bytes of the table per second. A row of
numbers has 64 bytes.`,
	example: `  millstream bench shuffle --quick
  millstream bench shuffle --workers 4 --case numbers --rows 33554432
  millstream bench shuffle --rows 1000000 --peers`,
	rows: "33554432, quick 1677721",
}

var tpchBench = frameBench{
	suite: "tpch",
	short: "Measure the queries of TPC-H on distributed frames",
	long: `Measure the 22 queries of TPC-H as SQL, on tables of an own generator with the
sizes, types and value ranges of TPC-H: the figures are no results of TPC-H.
Tables are in memory or, with --from parquet, files that each run reads.`,
	example: `  millstream bench tpch --quick --peers
  millstream bench tpch --scale 5 --from parquet --case q1,q6`,
	flags: func(flags *pflag.FlagSet, o *framebench.Options) {
		flags.Float64Var(&o.Scale, "scale", 0, "scale factor, 1 is about 1 GB (default 1, quick 0.05)")
		flags.StringVar(&o.Source, "from", framebench.Memory, "where the tables are: memory, parquet")
	},
	values: map[string][]string{"from": framebench.Sources},
}

// frameBenches are the benchmarks of frames.
var frameBenches = []frameBench{mergeBench, groupByBench, sortBench, shuffleBench, tpchBench}

// aboutPeers describes the peers of benchmarks of frames.
var aboutPeers = map[string]string{
	framebench.DuckDB: "tables and results in memory, as many threads; scripts/setup duckdb",
	framebench.Dask:   "Dask DataFrame, as many worker processes; scripts/setup peers",
}

func frameCommand(f frameBench) *cobra.Command {
	o := &framebench.Options{Suite: f.suite}
	peers := framebench.Peers(f.suite)
	return benchmark{
		name: f.suite, short: f.short, example: f.example,
		long: f.long + `

The tables are in the memory of worker processes of a local cluster, and so is
the result. Results of peers must be equal: row by row up to 100000 rows, above by
their number and checksums of all columns.

Cases
` + aboutList(framebench.Cases(f.suite), func(c framebench.Case) (string, string) { return c.Name, c.About }) + `
Peers
` + strings.TrimSuffix(aboutList(peers, func(p string) (string, string) { return p, aboutPeers[p] }), "\n"),
		cases: choice{chosen: &o.Cases, known: framebench.CaseNames(f.suite)},
		flags: func(flags *pflag.FlagSet) {
			if f.rows != "" {
				flags.IntVar(&o.Rows, "rows", 0, "number of rows of the largest tables (default "+f.rows+")")
				flags.IntVar(&o.ChunkSize, "chunk-size", 0, "number of rows of a partition, instead of --partitions")
			}
			flags.IntVar(&o.Partitions, "partitions", 0, "number of partitions of the largest tables "+
				"(default 4 for each thread)")
			flags.IntVar(&o.Workers, "workers", 0, "number of worker processes (default 2)")
			flags.IntVar(&o.Threads, "threads", 0, "number of threads of each worker (default 1)")
			flags.IntVar(&o.Rounds, "runs", 0, "the same as --rounds")
			if f.flags != nil {
				f.flags(flags, o)
			}
		},
		values: f.values,
		peers:  peers,
		rounds: &o.Rounds, roundsHelp: "3, quick 2",
		quick: &o.Quick, quickHelp: "fewer rows and rounds",
		complete: func(*session) error { return o.Complete() },
		prepare: func(s *session) (measurement, error) {
			starters := map[string]benchpeer.Starter{}
			for _, name := range s.peers {
				p, err := s.framePeer(name)
				if err != nil {
					return nil, err
				}
				starters[name] = p.Start
			}
			return func(ctx context.Context, sink benchfmt.Sink, progress *benchfmt.Progress) error {
				return framebench.Run(ctx, starters, *o, sink, progress)
			}, nil
		},
	}.command()
}

// framePeer finds the program of a peer of benchmarks of frames.
func (s *session) framePeer(name string) (*benchpeer.Program, error) {
	if name == framebench.Dask {
		return s.python(name, benchpeer.ScriptFrames)
	}
	python, err := benchpeer.Interpreter{Peer: name, Variable: "MILLSTREAM_DUCKDB",
		Path: ".local/duckdb/env/bin/python", Setup: "scripts/setup duckdb"}.Find(os.Environ())
	if err != nil {
		return nil, err
	}
	return s.keep(benchpeer.Unpack(python, benchpeer.ScriptDuckDB))
}
