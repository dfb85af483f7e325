package inspect

import (
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
)

// taskCounts returns the number of tasks in each state, for the identity. It runs in the loop.
func (s *Inspector) taskCounts() msgpack.Map {
	var counts msgpack.Map
	for _, st := range state.TaskStates() {
		if n := s.State.Count(st); n > 0 {
			counts = append(counts, msgpack.Pair{Key: st.String(), Value: n})
		}
	}
	return counts
}

// summary returns what a Millstream scheduler adds to its identity: tasks by state, transitions since the start, totals
// of transfers by transport as [bytes, number, seconds], and failures. It runs in the loop.
func (s *Inspector) summary() msgpack.Map {
	transfers := msgpack.Map{}
	for name, t := range s.Transfers.Transports() {
		transfers = append(transfers, msgpack.Pair{Key: name, Value: []any{t.Bytes, t.Transfers, t.Seconds}})
	}
	var suspicious int64
	n := 0
	for p := range s.State.Prefixes() {
		if n++; n > 10*MaxPrefixSeries { // clients choose prefixes
			break
		}
		suspicious += p.Suspicious()
	}
	return msgpack.MapOf("v", 1, "tasks", s.taskCounts(), "transitions", s.State.Counters().Transitions, "transfers",
		transfers, "failures", msgpack.MapOf("suspicious", suspicious, "workers-removed", s.Totals.WorkersRemoved))
}
