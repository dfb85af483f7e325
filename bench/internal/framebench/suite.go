package framebench

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/bench/benchfmt"
)

// suite is a benchmark: tables and queries of them.
type suite struct {
	rows  int // default number of rows
	cases []Case
	peers []string
	// tables returns the tables that some of the cases need.
	tables func(o Options, cases []Case) []table
	// unit is that of the figures (default seconds). Rates are those of bytes of the tables.
	unit string
	// sum adds a figure with the sum of all cases.
	sum bool
	// bars are targets of ratios by peer: of the sum if there is one, else of each case.
	bars map[string]float64
}

var suites = map[string]suite{"merge": merge, "groupby": groupBy, "sort": sorts,
	"shuffle": shuffles, "tpch": tpchSuite}

// byDefault returns the names of the cases that run by default.
func (s suite) byDefault() []string {
	var names []string
	for _, c := range s.cases {
		if !c.Optional {
			names = append(names, c.Name)
		}
	}
	return names
}

// bar returns the target of a figure.
func (s suite) bar(peer string) *benchfmt.Bar {
	v, ok := s.bars[peer]
	if !ok {
		return nil
	}
	return &benchfmt.Bar{Value: v, Ratio: true}
}

// Case is a query.
type Case struct {
	// Name is the name on the command line, About describes it.
	Name, About string
	// Optional cases run only if they are selected.
	Optional bool
	// sql is the query of DuckDB; Dask has one by name of benchmark and case.
	sql string
	// tables are the names of the tables that it needs.
	tables []string
	// sorted are the columns by which the result is ordered.
	sorted []string
	ours   func(t map[string]*frame.Query) *frame.Query
	// text returns the query of all sides as SQL, if sql and ours are not set.
	text func(o Options) string
}

// query returns the query of frames.
func (c Case) query(ctx context.Context, cl *client.Client, t map[string]*frame.Query) (*frame.Query, error) {
	if c.ours != nil {
		return c.ours(t), nil
	}
	return frame.SQL(ctx, cl, c.sql, t)
}

// table is a table of generated rows.
type table struct {
	name   string
	schema *arrow.Schema
	rows   int
	// parts is the number of partitions.
	parts int
	// batch returns rows from one to before another.
	batch func(from, to int) arrow.RecordBatch
	// parquet makes both sides read Parquet files in each run, instead of tables in memory.
	parquet bool
}

// wanted returns the tables that cases need, from a list by name.
func wanted(all []table, cases []Case) []table {
	return slices.DeleteFunc(all, func(t table) bool {
		return !slices.ContainsFunc(cases, func(c Case) bool { return slices.Contains(c.tables, t.name) })
	})
}
