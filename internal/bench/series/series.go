// Package series reads the runs of make bench-series, which the benchmarks page plots.
package series

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

// Run is a record of `millstream bench --record`, and a line of a series.
type Run struct {
	Machine string   `json:"machine"`
	Date    string   `json:"date"`
	Commit  string   `json:"commit"`
	Command string   `json:"command"`
	Figures []Figure `json:"figures"`
}

// Figure is a measurement next to that of a peer in the same run.
type Figure struct {
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

// Name identifies a figure in all runs.
func (f Figure) Name() string {
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

// Read reads the runs of a file, oldest first. A file that does not exist has none.
func Read(name string) ([]Run, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []Run
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var r Run
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w; remove the line", name, n, err)
		}
		runs = append(runs, r)
	}
	return runs, lines.Err()
}
