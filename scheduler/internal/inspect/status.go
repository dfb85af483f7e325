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
