package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
)

// report is how every benchmark shows its figures: a table, or JSON lines.
type report struct {
	json   bool
	rounds int
	// counts is which of the rounds stands for all (default best).
	counts string
}

// of runs a benchmark and reports what it measures.
func (r report) of(stdout, stderr io.Writer, run func(benchfmt.Sink, *benchfmt.Progress) error) error {
	var sink benchfmt.Sink = benchfmt.NewTable(stdout)
	if r.json {
		sink = benchfmt.NewJSONWriter(stdout)
	}
	progress := benchfmt.NewProgress(stderr)
	begin := time.Now()
	err := run(sink, progress)
	progress.Clear()
	// What was measured before an error or Ctrl-C is worth having.
	err = errors.Join(err, sink.Close())
	if err == nil && !r.json {
		fmt.Fprintf(stdout, "\n%s of %d rounds, %v in all\n", cmp.Or(r.counts, "best"), r.rounds,
			time.Since(begin).Round(100*time.Millisecond))
	}
	return err
}
