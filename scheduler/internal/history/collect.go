package history

import (
	"context"
	"fmt"
	"strings"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
)

// collector records the states and metadata of tasks that are submitted while it is active: get_task_metadata in Dask.
// The loop owns it.
type collector struct {
	keys     map[task.Key]bool // submitted since, and not done
	metadata map[task.Key][]byte
	state    map[task.Key]state.TaskState
}

// Collectors are the collectors of get_task_metadata, by name. The loop owns them.
type Collectors struct {
	byName map[string]*collector
	loop   loop.Loop
	apply  func(state.Event)
}

// NewCollectors returns Collectors. They watch tasks with events that they pass to apply.
func NewCollectors(l loop.Loop, apply func(state.Event)) *Collectors {
	return &Collectors{map[string]*collector{}, l, apply}
}

// Register sets the handlers of requests.
func (s *Collectors) Register(r *rpc.Server) {
	rpc.Handle(r, "start_task_metadata", s.startRPC)
	rpc.Handle(r, "stop_task_metadata", s.stopRPC)
}

// maxCollectors bounds the collectors that were not stopped.
const maxCollectors = 1000

func (s *Collectors) startRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name string `rpc:"name"`
}) (any, error) {
	name := strings.Clone(in.Name)
	_, err := loop.Ask(ctx, s.loop, func() (any, error) {
		if len(s.byName) >= maxCollectors {
			return nil, &rpc.Exception{Type: "RuntimeError",
				Message: fmt.Sprintf("%d collections of task metadata have not been stopped", maxCollectors)}
		}
		s.byName[name] = &collector{map[task.Key]bool{}, map[task.Key][]byte{}, map[task.Key]state.TaskState{}}
		return nil, nil
	})
	return nil, err
}

func (s *Collectors) stopRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name string `rpc:"name,optional"`
}) (msgpack.Map, error) {
	return loop.Ask(ctx, s.loop, func() (msgpack.Map, error) {
		c := s.byName[in.Name]
		if c == nil {
			return nil, &rpc.Exception{Type: "ValueError",
				Message: "Expected to find exactly one CollectTaskMetaDataPlugin with name " + in.Name +
					" but found 0."}
		}
		delete(s.byName, in.Name)
		metadata, states := msgpack.Map{}, msgpack.Map{}
		for k, st := range c.state {
			m := msgpack.Raw(c.metadata[k])
			if len(m) == 0 {
				m = msgpack.Raw{0x80}
			}
			metadata = append(metadata, msgpack.Pair{Key: k.Value(), Value: m})
			states = append(states, msgpack.Pair{Key: k.Value(), Value: st.String()})
		}
		return msgpack.MapOf("metadata", metadata, "state", states), nil
	})
}

// Submitted notifies the collectors of keys that a client has submitted. The keys are copied.
func (s *Collectors) Submitted(keys []task.Key) {
	if len(s.byName) == 0 {
		return
	}
	for _, k := range keys {
		k = task.Key(strings.Clone(string(k)))
		for _, c := range s.byName {
			c.keys[k] = true
		}
	}
	s.apply(&state.Watch{Keys: keys})
}

// Finished keeps the metadata that a worker reports for a finished task, before the event is applied to the state.
func (s *Collectors) Finished(key task.Key, metadata []byte) {
	for _, c := range s.byName {
		if c.keys[key] {
			c.metadata[task.Key(strings.Clone(string(key)))] = append([]byte(nil), metadata...)
		}
	}
}

// Moved records the new state of a task.
func (s *Collectors) Moved(a *state.Action) {
	for _, c := range s.byName {
		if c.keys[a.Key] && (a.To == state.Memory || a.To == state.Erred) {
			key := task.Key(strings.Clone(string(a.Key)))
			delete(c.keys, key)
			c.state[key] = a.To
		}
	}
}

// Follows reports whether a collector waits for a task.
func (s *Collectors) Follows(key task.Key) bool {
	for _, c := range s.byName {
		if c.keys[key] {
			return true
		}
	}
	return false
}
