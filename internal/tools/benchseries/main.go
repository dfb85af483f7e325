// Benchseries keeps the figures of benchmarks over time. `benchseries append SERIES RECORD...` adds records of
// `millstream bench --record` to a file, one line each; `benchseries compare SERIES` compares the last run with earlier
// ones of the same machine, and fails if a figure is worse by more than their noise.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"go.millstream.dev/internal/bench/series"
)

func main() {
	if err := command(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchseries:", err)
		os.Exit(1)
	}
}

func command(args []string, out io.Writer) error {
	switch {
	case len(args) >= 3 && args[0] == "append":
		return add(args[1], args[2:], out)
	case len(args) == 2 && args[0] == "compare":
		return report(args[1], out)
	}
	return errors.New("usage: benchseries append SERIES RECORD... | benchseries compare SERIES")
}

// add appends records to a series.
func add(file string, records []string, out io.Writer) error {
	for _, name := range records {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		r, err := readRecord(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := appendRun(file, r); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %d figures of commit %s\n", file, len(r.Figures), r.Commit)
	}
	return nil
}

// report prints the changes of the last run.
func report(file string, out io.Writer) error {
	runs, err := series.Read(file)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("%s has no runs; make bench-series adds one", file)
	}
	changes, compared := compare(runs)
	worse := 0
	for _, c := range changes {
		fmt.Fprintln(out, c)
		if c.worse {
			worse++
		}
	}
	last := runs[len(runs)-1]
	fmt.Fprintf(out, "%s on %s: %d of %d figures compared, %d changed, %d worse\n", last.Commit, last.Machine, compared,
		len(last.Figures), len(changes), worse)
	if worse > 0 {
		return fmt.Errorf("%d figures are worse than the noise of earlier runs; measure again before you conclude",
			worse)
	}
	return nil
}
