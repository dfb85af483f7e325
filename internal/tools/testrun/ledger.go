package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ledgerRuns is the number of runs of the whole suite in the ledger.
const ledgerRuns = 10

// ledger is the content of .local/test-runs.json: the last runs of the whole suite, oldest first.
type ledger struct {
	Runs []ledgerRun `json:"runs"`
}

// ledgerRun is one run of the whole suite.
type ledgerRun struct {
	// Time is the end of the run, in UTC.
	Time time.Time `json:"time"`
	// Seed is the seed of the test order.
	Seed string `json:"seed"`
	// Unsteady are the flaky tests, by package and name.
	Unsteady []string `json:"unsteady"`
}

// loadLedger reads a ledger. It returns an empty one if the file does not exist.
func loadLedger(file string) (*ledger, error) {
	l := new(ledger)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, l); err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file", file, err)
	}
	return l, nil
}

// add appends a run, and returns an error text for each flaky test that an earlier run has, too.
func (l *ledger) add(run ledgerRun) (problems []string) {
	for _, test := range run.Unsteady {
		var when []string
		for _, old := range l.Runs[max(0, len(l.Runs)-(ledgerRuns-1)):] {
			if slices.Contains(old.Unsteady, test) {
				when = append(when, old.Time.Format(time.DateTime))
			}
		}
		if len(when) > 0 {
			problems = append(problems, fmt.Sprintf("%s is flaky again: it was flaky in the run of %s (UTC), within "+
				"the "+
				"last %d runs; fix the test",
				test, strings.Join(when, ", "), ledgerRuns))
		}
	}
	l.Runs = append(l.Runs, run)
	l.Runs = l.Runs[max(0, len(l.Runs)-ledgerRuns):]
	return problems
}

// save replaces the ledger atomically.
func (l *ledger) save(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	tmp := file + ".new"
	if err := os.WriteFile(tmp, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}
