package framebench

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

// rowByRow is the number of rows up to which results are compared row by row; larger ones are compared by checksums.
const rowByRow = 100_000

// outcome is the measurement of a run.
type outcome struct {
	Seconds float64 `json:"seconds"`
	Rows    int64   `json:"rows"`
}

// checked is a result for comparison: its rows or, if there are many, their digest.
type checked struct {
	rows   []row
	digest Digest
}

func (c checked) equal(o checked) error {
	if c.rows != nil || o.rows != nil {
		return compareRows(c.rows, o.rows)
	}
	return c.digest.equal(o.digest)
}

// side is one side of the comparison.
type side interface {
	name() string
	// load makes a table available, whose files are in a folder.
	load(ctx context.Context, t table, dir string) error
	// run runs a query and keeps its result until drop.
	run(ctx context.Context, c Case) (outcome, error)
	// check describes the last result.
	check(ctx context.Context, c Case, rows int64) (checked, error)
	drop()
	stop()
}

// Run measures according to the options and passes each figure to the sink immediately. peers start the peers by name.
func Run(ctx context.Context, peers map[string]benchpeer.Starter, o Options, sink benchfmt.Sink,
	progress *benchfmt.Progress) (err error) {
	b := &bench{o: o, suite: suites[o.Suite], sink: sink, progress: progress}
	if b.dir, err = os.MkdirTemp("", "millstream-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	defer b.stop()
	for _, c := range b.suite.cases {
		if slices.Contains(o.Cases, c.Name) {
			if c.text != nil {
				c.sql = c.text(o)
			}
			b.cases = append(b.cases, c)
		}
	}
	if err := b.start(ctx, peers); err != nil {
		return err
	}
	return b.measureAll(ctx)
}

// bench is one run.
type bench struct {
	o        Options
	suite    suite
	cases    []Case
	dir      string
	sides    []side
	bytes    map[string]int64 // of tables
	sink     benchfmt.Sink
	progress *benchfmt.Progress
}

// start writes the tables, and starts the sides, which load them.
func (b *bench) start(ctx context.Context, peers map[string]benchpeer.Starter) error {
	tables := b.suite.tables(b.o, b.cases)
	b.bytes = map[string]int64{}
	for i, t := range tables {
		b.progress.Step(i, len(tables), "table %s: %d rows", t.name, t.rows)
		n, err := t.write(b.tableDir(t), b.o.Workers*b.o.Threads)
		if err != nil {
			return fmt.Errorf("table %s: %w", t.name, err)
		}
		b.bytes[t.name] = n
	}
	ours, err := startOurs(ctx, b.o)
	if err != nil {
		return err
	}
	b.sides = []side{ours}
	for _, name := range slices.Sorted(maps.Keys(peers)) {
		s, err := startPeer(ctx, name, peers[name], b.o, filepath.Join(b.dir, "result-"+name))
		if err != nil {
			return err
		}
		b.sides = append(b.sides, s)
	}
	for _, t := range tables {
		for i, s := range b.sides {
			b.progress.Step(i, len(b.sides), "%s: load table %s", s.name(), t.name)
			if err := s.load(ctx, t, b.tableDir(t)); err != nil {
				return fmt.Errorf("%s: load table %s: %w", s.name(), t.name, err)
			}
		}
	}
	return nil
}

func (b *bench) tableDir(t table) string { return filepath.Join(b.dir, t.name) }

func (b *bench) stop() {
	for _, s := range b.sides {
		s.stop()
	}
}

// measureAll measures all cases and, if the benchmark has one, their sum.
func (b *bench) measureAll(ctx context.Context) error {
	best, median := make([]float64, len(b.sides)), make([]float64, len(b.sides))
	for i, c := range b.cases {
		rounds, err := b.measure(ctx, c, func(round int, side string) {
			b.progress.Step(i*b.o.Rounds+round, len(b.cases)*b.o.Rounds, "%s, round %d: %s", c.Name, round+1, side)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		for k := range rounds {
			best[k] += rounds[k].Best()
			median[k] += rounds[k].Median()
		}
		if err := b.report(c.Name, b.caseBytes(c), !b.suite.sum, func(k int) (float64, float64) {
			return rounds[k].Best(), rounds[k].Median()
		}); err != nil {
			return err
		}
	}
	if !b.suite.sum {
		return nil
	}
	return b.report("sum", 0, true, func(k int) (float64, float64) { return best[k], median[k] })
}

// measure runs the rounds of a case, starting with a different side in each. The first round has the comparison of the
// results, the others that of the numbers of rows.
func (b *bench) measure(ctx context.Context, c Case, step func(int, string)) ([]benchfmt.Rounds, error) {
	rounds := make([]benchfmt.Rounds, len(b.sides))
	results := make([]checked, len(b.sides))
	rows := make([]int64, len(b.sides))
	for round := range b.o.Rounds {
		for k := range b.sides {
			at := (k + round) % len(b.sides)
			s := b.sides[at]
			step(round, s.name())
			out, err := s.run(ctx, c)
			if err == nil && round == 0 {
				results[at], err = s.check(ctx, c, out.Rows)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name(), err)
			}
			s.drop()
			rounds[at].Better = benchfmt.Lower
			rounds[at].Add(out.Seconds)
			rows[at] = out.Rows
		}
		for k, s := range b.sides[1:] {
			if rows[0] != rows[k+1] {
				return nil, fmt.Errorf("%s: results differ: %d and %d rows", s.name(), rows[0], rows[k+1])
			}
			if round > 0 {
				continue
			}
			if err := results[0].equal(results[k+1]); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name(), err)
			}
		}
	}
	return rounds, nil
}

// caseBytes returns the size of the tables of a case.
func (b *bench) caseBytes(c Case) int64 {
	var n int64
	for _, t := range c.tables {
		n += b.bytes[t]
	}
	return n
}

// report passes the figures of a case to the sink: one for each peer, or one without a peer.
func (b *bench) report(name string, bytes int64, bars bool, seconds func(side int) (best, median float64)) error {
	f := benchfmt.Figure{Bench: b.o.Suite, Case: name, Size: bytes, Unit: benchfmt.UnitSeconds, Better: benchfmt.Lower,
		Setting: fmt.Sprintf("%d x %d", b.o.Workers, b.o.Threads)}
	value := func(v float64) float64 { return v }
	if b.suite.unit == benchfmt.UnitGBps {
		f.Unit, f.Better = b.suite.unit, benchfmt.Higher
		value = func(v float64) float64 { return benchfmt.GBps(float64(bytes), v) }
	}
	best, median := seconds(0)
	f.Ours, f.OursMedian = value(best), value(median)
	if len(b.sides) == 1 {
		return b.sink.Add(f)
	}
	for k, s := range b.sides[1:] {
		best, median := seconds(k + 1)
		f.Peer, f.Theirs, f.TheirsMedian = s.name(), value(best), value(median)
		f.Bar = nil
		if bars {
			f.Bar = b.suite.bar(s.name())
		}
		if err := b.sink.Add(f); err != nil {
			return err
		}
	}
	return nil
}
