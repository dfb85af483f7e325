package framebench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/internal/bench/benchpeer"
)

// command is a request to a peer.
type command struct {
	// Op is start, load, run, save or drop.
	Op string `json:"op"`
	// Threads and Workers are those of start.
	Threads int `json:"threads,omitempty"`
	Workers int `json:"workers,omitempty"`
	// Table and Paths are the files of a table for load, Parquet files if Parquet is set.
	Table   string   `json:"table,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Parquet bool     `json:"parquet,omitempty"`
	// Suite, Case and SQL are the query of run.
	Suite string `json:"suite,omitempty"`
	Case  string `json:"case,omitempty"`
	SQL   string `json:"sql,omitempty"`
	// Dir is the folder for the files of save.
	Dir string `json:"dir,omitempty"`
}

// peerSide is a peer that has the tables.
type peerSide struct {
	peer  string
	suite string
	dir   string
	lines *benchpeer.Lines
}

// startPeer starts a peer. dir is a folder for its files.
func startPeer(ctx context.Context, name string, start benchpeer.Starter, o Options, dir string) (*peerSide, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	all := strconv.Itoa(o.Workers * o.Threads)
	lines, err := benchpeer.StartLines(ctx, start, []string{"PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=" + all})
	if err != nil {
		return nil, err
	}
	s := &peerSide{peer: name, suite: o.Suite, dir: dir, lines: lines}
	var none outcome
	first := command{Op: "start", Threads: o.Threads, Workers: o.Workers, Dir: dir}
	if err := lines.Ask(ctx, first, &none); err != nil {
		s.stop()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func (s *peerSide) name() string { return s.peer }

func (s *peerSide) load(ctx context.Context, t table, dir string) error {
	pattern := "*.arrow"
	if t.parquet {
		pattern = "parquet/*.parquet"
	}
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return err
	}
	var out outcome
	return s.lines.Ask(ctx, command{Op: "load", Table: t.name, Paths: paths, Parquet: t.parquet}, &out)
}

func (s *peerSide) run(ctx context.Context, c Case) (outcome, error) {
	var out outcome
	err := s.lines.Ask(ctx, command{Op: "run", Suite: s.suite, Case: c.Name, SQL: c.sql}, &out)
	if err == nil && out.Seconds <= 0 {
		err = fmt.Errorf("invalid measurement: %v s", out.Seconds)
	}
	return out, err
}

// check describes the last result, which the peer writes to files.
func (s *peerSide) check(ctx context.Context, _ Case, rows int64) (out checked, err error) {
	var saved struct{ Paths []string }
	if err := s.lines.Ask(ctx, command{Op: "save", Dir: s.dir}, &saved); err != nil {
		return out, err
	}
	err = readFiles(saved.Paths, func(b arrow.RecordBatch) error {
		if rows <= rowByRow {
			out.rows = append(out.rows, rowsIn(b)...)
			return nil
		}
		return out.digest.add(b)
	})
	for _, path := range saved.Paths {
		_ = os.Remove(path) // the folder is removed anyway
	}
	return out, err
}

func (s *peerSide) drop() {
	var none outcome
	_ = s.lines.Ask(context.Background(), command{Op: "drop"}, &none) // an error is that of the next command as well
}

func (s *peerSide) stop() { s.lines.Stop() }
