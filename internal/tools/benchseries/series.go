package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"go.millstream.dev/internal/bench/series"
)

// readRecord reads a record. Only figures with a ratio to a peer are kept: those of one machine are comparable even if
// it is busy.
func readRecord(text []byte) (series.Run, error) {
	var r series.Run
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("no record of millstream bench --record: %w", err)
	}
	kept := r.Figures[:0]
	for _, f := range r.Figures {
		if f.Ratio > 0 && (f.Better == "lower" || f.Better == "higher") {
			kept = append(kept, f)
		}
	}
	if r.Figures = kept; len(kept) == 0 {
		return r, errors.New("the record has no figures with a ratio; measure with --peers")
	}
	return r, nil
}

// appendRun adds a run to the end of a file.
func appendRun(name string, r series.Run) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
