// Package report keeps the figures of benchmark runs and writes the benchmarks page from them.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/internal/proc/revision"
	"go.millstream.dev/internal/proc/sysmem"
)

// Record is one run of a benchmark.
type Record struct {
	// Machine describes processors, memory and GPUs.
	Machine string `json:"machine"`
	// Date is the day of the run in UTC, as 2006-01-02.
	Date string `json:"date"`
	// Commit is the revision of the program.
	Commit string `json:"commit"`
	// Command is the command line.
	Command string `json:"command"`
	// Counts is the round that counts: best or median.
	Counts string `json:"counts"`
	// Figures are in the order in which they were measured.
	Figures []benchfmt.Figure `json:"figures"`
}

// New returns a record of a run of this program that has just ended. It leaves the bars of the figures out.
func New(args []string, counts string, figures []benchfmt.Figure) Record {
	figures = slices.Clone(figures)
	for i := range figures {
		figures[i].Bar = nil
	}
	return Record{Machine: machine("/"), Date: time.Now().UTC().Format(time.DateOnly), Commit: commit(),
		Command: command(args), Counts: counts, Figures: figures}
}

// command returns the command line of a benchmark without the flags that say where results are written.
func command(args []string) string {
	words := []string{"millstream", "bench"}
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--record" || a == "--svg":
			i++
		case a == "--json" || strings.HasPrefix(a, "--record=") || strings.HasPrefix(a, "--svg="):
		default:
			words = append(words, cmdline.Quote(a))
		}
	}
	return strings.Join(words, " ")
}

// commit returns the revision that the program was built from.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	commit, changed := revision.Of(info)
	if commit == "" {
		commit = "unknown"
	}
	if changed {
		commit += " with changes"
	}
	return commit
}

// machine describes the machine whose file system is at root.
func machine(root string) string {
	model, cores := "processor", 0
	text, _ := os.ReadFile(filepath.Join(root, "proc/cpuinfo"))
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "processor":
			cores++
		case "model name":
			model = strings.Join(strings.Fields(value), " ")
		}
	}
	parts := []string{fmt.Sprintf("%d × %s", cores, model)}
	if total := sysmem.Total(); total > 0 {
		parts = append(parts, fmt.Sprintf("%d GiB", (total+1<<29)>>30))
	}
	gpus, _ := filepath.Glob(filepath.Join(root, "proc/driver/nvidia/gpus/*/information"))
	for _, file := range gpus {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "Model:"); ok {
				parts = append(parts, strings.TrimSpace(name))
			}
		}
	}
	return strings.Join(parts, ", ")
}

// Write writes the record to a file, one figure in a line.
func (r Record) Write(path string) error {
	if len(r.Figures) == 0 {
		return errors.New("report: the run has no figures")
	}
	figures := r.Figures
	r.Figures = nil
	head, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	var out strings.Builder
	out.WriteString(strings.TrimSuffix(string(head), "null\n}"))
	for i, f := range figures {
		line, err := json.Marshal(f)
		if err != nil {
			return err
		}
		separator := ",\n    "
		if i == 0 {
			separator = "[\n    "
		}
		out.WriteString(separator + string(line))
	}
	out.WriteString("\n  ]\n}\n")
	return os.WriteFile(path, []byte(out.String()), 0o644)
}

// Read reads a record.
func Read(path string) (Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("report: %s: %w", path, err)
	}
	if len(r.Figures) == 0 || r.Machine == "" || r.Date == "" || r.Commit == "" || r.Command == "" {
		return Record{}, fmt.Errorf("report: %s: record without figures, machine, date, commit or command", path)
	}
	return r, nil
}
