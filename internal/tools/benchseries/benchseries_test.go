package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/internal/bench/series"
)

func runOf(machine string, better string, ratios ...float64) []series.Run {
	var runs []series.Run
	for _, r := range ratios {
		runs = append(runs, series.Run{Machine: machine, Commit: "abc",
			Figures: []series.Figure{{Bench: "comm", Case: "rtt", Peer: "dask", Ratio: r, Better: better}}})
	}
	return runs
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name     string
		runs     []series.Run
		changes  int
		worse    bool
		compared int
	}{
		{"none", nil, 0, false, 0},
		{"too few", runOf("a", "lower", 1, 1, 5), 0, false, 0},
		{"equal", runOf("a", "lower", 1, 1, 1, 1), 0, false, 1},
		{"below the floor", runOf("a", "lower", 1, 1, 1, 1.09), 0, false, 1},
		{"slower", runOf("a", "lower", 1, 1, 1, 1.2), 1, true, 1},
		{"faster", runOf("a", "lower", 1, 1, 1, 0.8), 1, false, 1},
		{"less throughput", runOf("a", "higher", 1, 1, 1, 0.8), 1, true, 1},
		{"more throughput", runOf("a", "higher", 1, 1, 1, 1.2), 1, false, 1},
		{"within the noise", runOf("a", "lower", 0.9, 1, 1.1, 1.2), 0, false, 1},
		{"one outlier before", runOf("a", "lower", 1, 9, 1, 1, 1.2), 1, true, 1},
		{"another machine", append(runOf("b", "lower", 9, 9, 9), runOf("a", "lower", 1)...), 0, false, 0},
		{"forgotten runs", append(runOf("a", "lower", 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9),
			runOf("a", "lower", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)...), 0, false, 1},
	} {
		changes, compared := compare(c.runs)
		if len(changes) != c.changes || compared != c.compared || len(changes) > 0 && changes[0].worse != c.worse {
			t.Errorf("%s: got %v, %d compared", c.name, changes, compared)
		}
	}
}

const record = `{"machine": "m", "date": "2026-01-02", "commit": "abc", "command": "millstream bench", "figures": [
 {"bench":"comm","case":"rtt","setting":"tcp","size":8,"ratio":%g,"peer":"dask","better":"lower","unit":"us"},
 {"bench":"comm","case":"idle","better":"lower"}]}`

func TestSeries(t *testing.T) {
	dir := t.TempDir()
	runs := filepath.Join(dir, "series.jsonl")
	file := func(ratio float64) string {
		name := filepath.Join(dir, fmt.Sprintf("%g.json", ratio))
		if err := os.WriteFile(name, fmt.Appendf(nil, record, ratio), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	var out bytes.Buffer
	if err := command([]string{"append", runs, file(0.5), file(0.51), file(0.49), file(0.52)}, &out); err != nil {
		t.Fatal(err)
	}
	if err := command([]string{"compare", runs}, &out); err != nil ||
		!strings.Contains(out.String(), "1 of 1 figures compared, 0 changed, 0 worse") {
		t.Errorf("got %v, %s", err, &out)
	}
	out.Reset()
	if err := command([]string{"append", runs, file(0.9)}, &out); err != nil {
		t.Fatal(err)
	}
	err := command([]string{"compare", runs}, &out)
	if err == nil || !strings.Contains(out.String(), "worse: comm rtt tcp 8 / dask: ratio 0.9, before 0.505 (+78%") {
		t.Errorf("got %v, %s", err, &out)
	}
}

func TestInvalid(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	runs := filepath.Join(dir, "new.jsonl")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "usage"},
		{[]string{"append", runs}, "usage"},
		{[]string{"append", runs, write("a.json", "text")}, "no record"},
		{[]string{"append", runs, write("b.json", "{}")}, "no figures"},
		{[]string{"append", runs, filepath.Join(dir, "none")}, "no such file"},
		{[]string{"compare", runs}, "has no runs"},
		{[]string{"compare", write("c.jsonl", "{}\ntext\n")}, "c.jsonl:2"},
	} {
		if err := command(c.args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got error %v, want one with %q", c.args, err, c.want)
		}
	}
}
