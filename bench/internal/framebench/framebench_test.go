package framebench

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/bench/internal/benchtest"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/proc/childproc"
)

func TestMain(m *testing.M) {
	benchtest.Role(map[string]benchtest.Serve{"liar": serveLiar})
	cluster.Main()
	childproc.NoRaceSleep()
	os.Exit(m.Run())
}

// duckdb returns the real peer.
func duckdb(t *testing.T) map[string]benchpeer.Starter {
	t.Helper()
	python := os.Getenv("MILLSTREAM_DUCKDB")
	if python == "" {
		t.Fatal("MILLSTREAM_DUCKDB is not set; run scripts/setup duckdb, and the test with scripts/in-env")
	}
	p, err := benchpeer.Unpack(python, benchpeer.ScriptDuckDB)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return map[string]benchpeer.Starter{DuckDB: p.Start}
}

// measured runs a benchmark.
func measured(t *testing.T, peers map[string]benchpeer.Starter, o Options) (benchfmt.Figures, error) {
	t.Helper()
	return benchtest.Run(t, &o, func(ctx context.Context, sink benchfmt.Sink) error {
		return Run(ctx, peers, o, sink, nil)
	})
}

// small returns options of a small run of every benchmark.
func small(suite string) Options {
	return Options{Suite: suite, Rows: 3000, Partitions: 3, Groups: 4, FracMatch: 0.3, Scale: 0.002, Rounds: 2}
}

// TestSuites compares all cases of all benchmarks with DuckDB, row by row; shuffle has another peer.
func TestSuites(t *testing.T) {
	for name, s := range suites {
		peer, start := DuckDB, duckdb(t)
		if name == "shuffle" {
			peer, start = "", nil
		}
		t.Run(name, func(t *testing.T) {
			o := small(name)
			o.Cases = CaseNames(name)
			figures, err := measured(t, start, o)
			if err != nil {
				t.Fatal(err)
			}
			want := len(s.cases)
			if s.sum {
				want++
			}
			if len(figures) != want {
				t.Fatalf("got %d figures, want %d", len(figures), want)
			}
			for _, f := range figures {
				if f.Bench != name || f.Ours <= 0 || (f.Theirs > 0) != (peer != "") ||
					f.Peer != peer || f.Setting != "2 x 1" {
					t.Errorf("figure %+v", f)
				}
			}
			if last := figures[len(figures)-1]; s.bars[DuckDB] > 0 && (last.Bar == nil || !last.Bar.Ratio) {
				t.Errorf("figure %+v has no target", last)
			}
		})
	}
}

// TestParquet runs queries of TPC-H on files.
func TestParquet(t *testing.T) {
	o := small("tpch")
	o.Source, o.Cases = Parquet, []string{"q1", "q3", "q13"}
	if _, err := measured(t, duckdb(t), o); err != nil {
		t.Fatal(err)
	}
}

// TestChecksums compares results that are too large for a comparison row by row.
func TestChecksums(t *testing.T) {
	o := small("merge")
	o.Rows, o.FracMatch, o.Rounds, o.Cases = 2*rowByRow, 0.9, 1, []string{"sparse"}
	if _, err := measured(t, duckdb(t), o); err != nil {
		t.Fatal(err)
	}
}

// serveLiar is a peer whose results have one row, whatever the query.
func serveLiar(_ context.Context, in io.Reader, out io.Writer) error {
	return benchpeer.AnswerLines(in, out, func(c command) any {
		if os.Getenv(failVariable) == c.Op {
			return map[string]string{"error": c.Op + " is broken"}
		}
		return outcome{Seconds: 1, Rows: 1}
	})
}

// failVariable is the operation that fails.
const failVariable = "FRAMEBENCH_TEST_FAIL"

// TestWrongPeer runs a peer whose results differ, and peers that fail.
func TestWrongPeer(t *testing.T) {
	o := small("merge")
	o.Cases = []string{"dense"}
	for fail, text := range map[string]string{"": "dense: liar: results differ: 900 and 1 rows",
		"start": "liar: start is broken", "load": "liar: load table dense_left: load is broken",
		"run": "dense: liar: run is broken", "save": "dense: liar: save is broken"} {
		liar := map[string]benchpeer.Starter{"liar": benchtest.Self("liar", failVariable+"="+fail)}
		if _, err := measured(t, liar, o); err == nil || err.Error() != text {
			t.Errorf("%s: got the error %v, want %s", fail, err, text)
		}
	}
}

func TestOptions(t *testing.T) {
	benchtest.Rejects(t, &Options{Suite: "x"}, &Options{Suite: "merge", Cases: []string{"x"}},
		&Options{Suite: "merge", FracMatch: 1.5}, &Options{Suite: "merge", Rows: -1},
		&Options{Suite: "merge", ChunkSize: -1}, &Options{Suite: "merge", Partitions: -1},
		&Options{Suite: "merge", Scale: 0.0001}, &Options{Suite: "tpch", Source: "paper"})
	o := Options{Suite: "merge", Rows: 1000, ChunkSize: 300}
	if err := o.Complete(); err != nil || o.Partitions != 4 || o.Workers != 2 || !slices.Contains(o.Cases, "dense") {
		t.Errorf("options %+v, %v", o, err)
	}
	quick := Options{Suite: "merge", Quick: true}
	if err := quick.Complete(); err != nil || quick.Rows != 500_000 || quick.Rounds != 2 || quick.Partitions != 8 {
		t.Errorf("options %+v, %v", quick, err)
	}
	if got := strings.Join(Peers("merge"), " "); got != "duckdb dask" {
		t.Errorf("peers %s", got)
	}
}
