package dask

import (
	"fmt"
	"reflect"
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// counts.json and the records of the task stream have the same values as with a Dask scheduler in the same state.
func TestSchedulerCounts(t *testing.T) {
	r := rig.New(t)
	values := func(s *rig.Process) map[string]any {
		r.DaskWorker(s.Address)
		return r.Python(s.Address, "counts.py").Values
	}
	want, got := values(r.DaskScheduler()), values(r.Scheduler())
	theirs, _ := want["counts"].(map[string]any)
	ours, _ := got["counts"].(map[string]any)
	if len(theirs) < 16 || len(ours) != len(theirs) {
		t.Errorf("counts.json: got %v, want the fields of %v", ours, theirs)
	}
	for name, v := range theirs {
		if ours[name] != v {
			t.Errorf("counts.json: %s: got %v, want %v", name, ours[name], v)
		}
	}
	records, _ := want["records"].([]any)
	own, _ := got["records"].([]any)
	if len(records) != 3 || len(own) != len(records) {
		t.Fatalf("task stream: got %d records, want %d: %v", len(own), len(records), own)
	}
	for i := range records {
		if !reflect.DeepEqual(own[i], records[i]) {
			t.Errorf("task stream: record %d: got %s, want %s", i, fmt.Sprint(own[i]), fmt.Sprint(records[i]))
		}
	}
}
