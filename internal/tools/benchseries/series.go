package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// maxLine is the largest run that is read from a series, in bytes.
const maxLine = 16 << 20

// run is a record of `millstream bench --record`, and a line of a series.
type run struct {
	Machine string   `json:"machine"`
	Date    string   `json:"date"`
	Commit  string   `json:"commit"`
	Command string   `json:"command"`
	Figures []figure `json:"figures"`
}

// figure is a measurement next to that of a peer in the same run.
type figure struct {
	Bench     string  `json:"bench"`
	Case      string  `json:"case"`
	Setting   string  `json:"setting,omitempty"`
	Transport string  `json:"transport,omitempty"`
	Mode      string  `json:"mode,omitempty"`
	Endpoint  string  `json:"endpoint,omitempty"`
	Size      int64   `json:"size,omitempty"`
	Peer      string  `json:"peer,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"` // ours divided by theirs
	Better    string  `json:"better,omitempty"`
}

// name identifies a figure in all runs.
func (f figure) name() string {
	words := []string{f.Bench, f.Case}
	for _, w := range []string{f.Setting, f.Transport, f.Mode, f.Endpoint} {
		if w != "" {
			words = append(words, w)
		}
	}
	if f.Size > 0 {
		words = append(words, fmt.Sprint(f.Size))
	}
	return strings.Join(words, " ") + " / " + f.Peer
}

// readRecord reads a record. Only figures with a ratio to a peer are kept: those of one machine are comparable even if
// it is busy.
func readRecord(text []byte) (run, error) {
	var r run
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

// readSeries reads the runs of a file, oldest first. A file that does not exist has none.
func readSeries(name string) ([]run, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []run
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var r run
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w; remove the line", name, n, err)
		}
		runs = append(runs, r)
	}
	return runs, lines.Err()
}

// appendRun adds a run to the end of a file.
func appendRun(name string, r run) error {
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
