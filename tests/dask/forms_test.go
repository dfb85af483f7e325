package dask

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// formDifferences are the known differences between messages of our scheduler and of Dask's, by path, with reasons. A
// path ends with "…" where all below it is meant.
var formDifferences = map[string]string{
	"rpc identity.millstream":            "lets clients and workers of Go recognize the scheduler",
	"subscribe_worker_status.millstream": "the same identity",
	"stream compute-task.span_id":        "tasks outside of a span have none; Dask makes a default span",
	"rpc check_idle":                     "a time, or nil while something runs",
	"rpc broadcast…":                     "what workers answered, passed on",
	"stream acquire-replicas…":           "rebalance moves data below Dask's thresholds",
	"stream remove-replicas…":            "rebalance moves data below Dask's thresholds",
	"stream adjust-heartbeat-interval…":  "comes with a heartbeat of the client, which may be late",
	"rpc heartbeat_worker…":              "comes with a heartbeat of the worker, which may be late",
	"rpc get_task_stream[].exception":    "records keep the texts of failures, not their pickles",
	"rpc get_task_stream[].traceback":    "records keep the texts of failures, not their pickles",
	"rpc get_story…":                     "stories name transitions of another state machine",
}

// Each message that a client and Dask's workers get from our scheduler has the form of the one that they get from
// Dask's: the same fields with the same types. See peers/forms.py for what is compared.
func TestSchedulerForms(t *testing.T) {
	r := rig.New(t)
	capture := func(s *rig.Process) map[string]any {
		forms, _ := r.Python(s.Address, "forms.py").Values["forms"].(map[string]any)
		return forms
	}
	theirs := capture(r.DaskScheduler())
	ours := capture(r.Scheduler())
	if len(theirs) < 60 {
		t.Errorf("the program recorded %d kinds of messages, want 60 at least", len(theirs))
	}
	var found []string
	report := func(path, format string, args ...any) {
		for known := range formDifferences {
			if path == known || strings.HasSuffix(known, "…") &&
				strings.HasPrefix(path, strings.TrimSuffix(known, "…")) {
				return
			}
		}
		found = append(found, path+": "+fmt.Sprintf(format, args...))
	}
	for name, form := range theirs {
		if ours[name] == nil {
			report(name, "got no such message, want one of %v", form)
			continue
		}
		compareForms(name, form.(map[string]any), ours[name].(map[string]any), report)
	}
	for name, form := range ours {
		if theirs[name] == nil {
			report(name, "got %v, want no such message", form)
		}
	}
	sort.Strings(found)
	for _, line := range found {
		t.Error(line)
	}
}

// compareForms reports where the second form has types or fields that the first has not, or lacks a field that the
// first always has.
func compareForms(path string, want, got map[string]any, report func(path, format string, args ...any)) {
	wantTypes, _ := want["types"].([]any)
	gotTypes, _ := got["types"].([]any)
	for _, x := range gotTypes {
		if !slices.Contains(wantTypes, x) {
			report(path, "got %v, want %v", gotTypes, wantTypes)
			break
		}
	}
	wantFields, _ := want["fields"].(map[string]any)
	gotFields, _ := got["fields"].(map[string]any)
	if wantFields != nil && gotFields != nil {
		for name, f := range wantFields {
			f := f.(map[string]any)
			if g, ok := gotFields[name].(map[string]any); ok {
				compareForms(path+"."+name, f, g, report)
			} else if f["seen"] == want["dicts"] {
				report(path+"."+name, "got no such field, want %v", f["types"])
			}
		}
		for name, g := range gotFields {
			if wantFields[name] == nil {
				report(path+"."+name, "got a field of %v, want none", g.(map[string]any)["types"])
			}
		}
	}
	wantItems, _ := want["items"].(map[string]any)
	gotItems, _ := got["items"].(map[string]any)
	switch {
	case wantItems != nil && gotItems != nil:
		compareForms(path+"[]", wantItems, gotItems, report)
	case gotItems != nil && wantFields != nil, wantItems != nil && gotFields != nil:
		report(path, "got %v, want %v: keys that are names on one side and values on the other", got, want)
	}
}
