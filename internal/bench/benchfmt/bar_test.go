package benchfmt

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func tasks(better Better, ours, theirs float64, bar *Bar) Figure {
	f := Figure{Bench: "tasks", Case: "map", Setting: "2 x 1", Tasks: 1000, Unit: UnitTaskRate, Ours: ours,
		OursMedian: ours, Better: better, Bar: bar}
	if theirs != 0 {
		f.Peer, f.Theirs, f.TheirsMedian = "dask", theirs, theirs
	}
	return f
}

func TestBar(t *testing.T) {
	for _, tc := range []struct {
		f          Figure
		met, known bool
		text       string
	}{
		{tasks(Higher, 100, 2, &Bar{Value: 50, Ratio: true}), true, true, "≥ 50 × ✓"},
		{tasks(Higher, 99, 2, &Bar{Value: 50, Ratio: true}), false, true, "≥ 50 × ✗"},
		{tasks(Higher, 99, 0, &Bar{Value: 50, Ratio: true}), false, false, "≥ 50 ×"},
		{tasks(Lower, 1, 20, &Bar{Value: 0.05, Ratio: true}), true, true, "≤ 0.05 × ✓"},
		{tasks(Lower, 6, 0, &Bar{Value: 5}), false, true, "≤ 5 ✗"},
		{tasks(Lower, 6, 0, nil), false, false, ""},
	} {
		met, known := tc.f.Met()
		if met != tc.met || known != tc.known || tc.f.barText() != tc.text {
			t.Errorf("%+v: met %v, known %v, %q", tc, met, known, tc.f.barText())
		}
		line, err := json.Marshal(tc.f)
		if err != nil {
			t.Fatal(err)
		}
		var back struct {
			Bar   *float64
			BarOf string `json:"bar_of"`
			Met   *bool
			Tasks int
		}
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatal(err)
		}
		if (back.Bar != nil) != (tc.f.Bar != nil) || (back.Met != nil) != tc.known || known && *back.Met != met ||
			back.Tasks != 1000 {
			t.Errorf("%s", line)
		}
	}
}

// Figures of tasks have no columns for what only messages have.
func TestTableOfTasks(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out)
	for _, f := range []Figure{
		tasks(Higher, 100, 2, &Bar{Value: 50, Ratio: true}),
		tasks(Higher, 5, 0, nil),
	} {
		if err := table.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	want := `tasks map   tasks/s, higher is better
  setting  tasks   ours  median  peer  theirs  median  ratio    bar
  2 x 1     1000  100.0   100.0  dask   2.000   2.000  50.00    ≥ 50 × ✓
  2 x 1     1000  5.000   5.000
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(out.String(), "memory") {
		t.Error("a column of memory")
	}
}
