package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

func TestTransitionLog(t *testing.T) {
	for _, limit := range []int{0, 1, 3, 10} {
		l := transitionLog{limit: limit}
		for i := range 7 {
			l.add(logged{key: taskid.NewKey(fmt.Sprint("k", i%2)), when: int64(i), event: uint64(i), to: Waiting,
				cause: causeTick})
		}
		want := min(limit, 7)
		story := l.story()
		if len(story) != want {
			t.Errorf("limit %d: got %d entries, want %d", limit, len(story), want)
		}
		for j, tr := range story {
			if i := 7 - want + j; tr.Event != uint64(i) || tr.When.UnixNano() != int64(i) || tr.Cause != "tick" ||
				tr.To != Waiting {
				t.Errorf("limit %d: entry %d: got %v", limit, j, tr)
			}
		}
		for _, tr := range l.story(taskid.NewKey("k1")) {
			if tr.Key != taskid.NewKey("k1") || tr.Event%2 != 1 {
				t.Errorf("limit %d: story of k1: got %v", limit, tr)
			}
		}
	}
	l := transitionLog{limit: 2}
	if text := l.text(taskid.NewKey("x")); !strings.Contains(text, "no transitions") {
		t.Errorf("text without transitions: got %q", text)
	}
	l.add(logged{key: taskid.NewKey("x"), when: 1500 * int64(time.Millisecond), event: 4, from: Memory, to: Released,
		cause: causeRemoveWorker})
	if text := l.text(taskid.NewKey("x")); text != "\n\t00:00:01.500000 event 4 (remove-worker): x memory -> released" {
		t.Errorf("text: got %q", text)
	}
}

// TestCauses checks that every event has a distinct name in the log.
func TestCauses(t *testing.T) {
	events := []Event{
		&TaskFinished{}, &TaskErred{}, &UpdateGraph{}, &ClientReleases{}, &ClientDesires{}, &AddKeys{},
		&ReleaseWorkerData{},
		&RequestRefreshWhoHas{}, &StealResponse{}, &Reschedule{}, &LongRunning{}, &Tick{}, &Heartbeat{}, &AddWorker{},
		&RemoveWorker{}, &WorkerStatusChange{}, &SetResources{}, &AddClient{}, &RemoveClient{}, &ReportKey{},
		&CancelKeys{},
		&Retry{}, &UpdateData{}, &Replicate{}, &Rebalance{}, &ReduceReplicas{}, &RetireWorkers{}, &SetRestrictions{},
		&Hold{},
		&ExpectData{},
		&Restart{}, &Watch{}, &Rerun{}, &Unqueue{}, &FailShortage{},
	}
	seen := map[string]bool{}
	for _, ev := range events {
		name := ev.cause().String()
		if name == "" || seen[name] {
			t.Errorf("%T: got name %q, used before: %v", ev, name, seen[name])
		}
		seen[name] = true
	}
	if len(seen) != len(causeNames) {
		t.Errorf("names: got %d, want %d", len(seen), len(causeNames))
	}
	if c := (&ForgetDeparted{}).cause(); c != causeRemoveWorker {
		t.Errorf("cause of ForgetDeparted: got %s", c)
	}
}

// TestNames checks that names on the wire and in metrics are those of Dask, and that invalid values have a name.
func TestNames(t *testing.T) {
	for _, st := range TaskStates() {
		if st.String() == "unknown" || st == Forgotten {
			t.Errorf("state %d: got %s", st, st)
		}
	}
	if TaskState(99).String() != "unknown" || WorkerStatus(99).String() != "unknown" ||
		ActionKind(99).String() != "unknown" ||
		Reason(99).String() != "unknown" {
		t.Error("invalid values: got a name other than unknown")
	}
	if NoWorkerState.String() != "no-worker" || Erred.String() != "erred" || KeyErred.String() != "task-erred" {
		t.Errorf("names: got %s, %s, %s", NoWorkerState, Erred, KeyErred)
	}
	for st := range WorkerStatus(numStatuses) {
		if got, ok := ParseStatus(st.String()); !ok || got != st {
			t.Errorf("status %s: got %s, %v", st, got, ok)
		}
	}
	if got, ok := ParseStatus("sleeping"); ok || got != StatusClosed {
		t.Errorf("unknown status: got %s, %v", got, ok)
	}
	seen := map[string]bool{}
	for i, r := range Reasons() {
		if int(r) != i || seen[r.String()] {
			t.Errorf("reason %d: got %s", i, r)
		}
		seen[r.String()] = true
	}
	if len(seen) != int(numReasons) {
		t.Errorf("reasons: got %d", len(seen))
	}
	for can, want := range map[Can]string{0: "", Python: "Python", Go: "functions of Go",
		Python | Go: "Python and functions of Go"} {
		if can.String() != want {
			t.Errorf("%d: got %q, want %q", can, can, want)
		}
	}
}
