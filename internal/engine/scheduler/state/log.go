package state

import (
	"fmt"
	"strings"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// Transition is one change of state of a task.
type Transition struct {
	Key taskid.Key
	// From and To are the states before and after.
	From, To TaskState
	// When is the time that was passed to Apply.
	When time.Time
	// Event is the number of the event that caused it, and Cause its name.
	Event uint64
	Cause string
}

// String returns one line of text.
func (t Transition) String() string {
	return fmt.Sprintf("%s event %d (%s): %s %s -> %s", t.When.UTC().Format("15:04:05.000000"), t.Event, t.Cause,
		t.Key, t.From, t.To)
}

// transitionLog is a ring of the latest transitions.
type transitionLog struct {
	ring  []logged
	next  int
	limit int
}

type logged struct {
	key      taskid.Key
	when     int64
	event    uint64
	from, to TaskState
	cause    cause
}

func (l *transitionLog) add(e logged) {
	if len(l.ring) < l.limit {
		l.ring = append(l.ring, e)
		return
	}
	if l.limit <= 0 {
		return
	}
	l.ring[l.next] = e
	if l.next++; l.next == l.limit {
		l.next = 0
	}
}

// Story returns the logged transitions of some keys, oldest first; of all keys without any.
func (s *State) Story(keys ...taskid.Key) []Transition { return s.log.story(keys...) }

func (l *transitionLog) story(keys ...taskid.Key) []Transition {
	var story []Transition
	for i := range l.ring {
		e := &l.ring[(l.next+i)%len(l.ring)]
		found := len(keys) == 0
		for _, k := range keys {
			found = found || k == e.key
		}
		if found {
			story = append(story, Transition{e.key, e.from, e.to, time.Unix(0, e.when), e.event, e.cause.String()})
		}
	}
	return story
}

// text returns the story of a task for reports.
func (l *transitionLog) text(k taskid.Key) string {
	var b strings.Builder
	for _, t := range l.story(k) {
		b.WriteString("\n\t")
		b.WriteString(t.String())
	}
	if b.Len() == 0 {
		return "\n\t(no transitions in the log)"
	}
	return b.String()
}

// Observe sets a function that Apply calls before each transition of a task to another state; nil removes it. It must
// not keep the task or its key.
func Observe(s *State, f func(t *Task, to TaskState)) { s.observer = f }

// Stimulus returns name and number of the event that is being applied, or was applied last.
func Stimulus(s *State) (cause string, event uint64) { return s.cause.String(), s.events }

// cause is the name of an event in one byte, because the log of transitions has many.
type cause uint8

const (
	causeTaskFinished cause = iota
	causeTaskErred
	causeUpdateGraph
	causeClientReleasesKeys
	causeClientDesiresKeys
	causeAddKeys
	causeReleaseWorkerData
	causeRequestRefreshWhoHas
	causeStealResponse
	causeReschedule
	causeLongRunning
	causeTick
	causeHeartbeat
	causeAddWorker
	causeRemoveWorker
	causeWorkerStatusChange
	causeSetResources
	causeAddClient
	causeRemoveClient
	causeReportKey
	causeCancelKeys
	causeRetry
	causeUpdateData
	causeReplicate
	causeRebalance
	causeReduceReplicas
	causeRetireWorkers
	causeSetRestrictions
	causeHold
	causeExpectData
	causeRestart
	causeWatch
	causeRerun
	causeUnqueue
	causeFailShortage
)

var causeNames = [...]string{
	causeTaskFinished:         "task-finished",
	causeTaskErred:            "task-erred",
	causeUpdateGraph:          "update-graph",
	causeClientReleasesKeys:   "client-releases-keys",
	causeClientDesiresKeys:    "client-desires-keys",
	causeAddKeys:              "add-keys",
	causeReleaseWorkerData:    "release-worker-data",
	causeRequestRefreshWhoHas: "request-refresh-who-has",
	causeStealResponse:        "steal-response",
	causeReschedule:           "reschedule",
	causeLongRunning:          "long-running",
	causeTick:                 "tick",
	causeHeartbeat:            "heartbeat",
	causeAddWorker:            "add-worker",
	causeRemoveWorker:         "remove-worker",
	causeWorkerStatusChange:   "worker-status-change",
	causeSetResources:         "set-resources",
	causeAddClient:            "add-client",
	causeRemoveClient:         "remove-client",
	causeReportKey:            "report-key",
	causeCancelKeys:           "cancel-keys",
	causeRetry:                "retry",
	causeUpdateData:           "update-data",
	causeReplicate:            "replicate",
	causeRebalance:            "rebalance",
	causeReduceReplicas:       "active-memory-manager",
	causeRetireWorkers:        "retire-workers",
	causeSetRestrictions:      "set-restrictions",
	causeHold:                 "hold",
	causeExpectData:           "expect-data",
	causeRestart:              "restart",
	causeWatch:                "watch",
	causeRerun:                "rerun",
	causeUnqueue:              "unqueue",
	causeFailShortage:         "fail-shortage",
}

func (c cause) String() string { return causeNames[c] }
