package scheduler

import (
	"context"
	"fmt"
	"strings"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/task"
)

// gatherer notes how tasks end that are submitted while it is there, and what their
// workers say about them: Dask's get_task_metadata. The loop owns it.
type gatherer struct {
	keys     map[task.Key]bool // wanted since, and not done
	metadata map[task.Key][]byte
	state    map[task.Key]state.TaskState
}

// maxCollectors bounds the collectors that nobody has stopped.
const maxCollectors = 1000

func (s *Scheduler) startTaskMetadata(ctx context.Context, _ *rpc.Request, in struct {
	Name string `rpc:"name"`
}) (any, error) {
	name := strings.Clone(in.Name)
	_, err := loop.Ask(ctx, s.loop, func() (any, error) {
		if len(s.collectors) >= maxCollectors {
			return nil, &rpc.Exception{Type: "RuntimeError", Message: fmt.Sprintf("%d collections of task metadata have not been stopped", maxCollectors)}
		}
		s.collectors[name] = &gatherer{map[task.Key]bool{}, map[task.Key][]byte{}, map[task.Key]state.TaskState{}}
		return nil, nil
	})
	return nil, err
}

func (s *Scheduler) stopTaskMetadata(ctx context.Context, _ *rpc.Request, in struct {
	Name string `rpc:"name,optional"`
}) (msgpack.Map, error) {
	return loop.Ask(ctx, s.loop, func() (msgpack.Map, error) {
		c := s.collectors[in.Name]
		if c == nil {
			return nil, &rpc.Exception{Type: "ValueError", Message: "Expected to find exactly one CollectTaskMetaDataPlugin with name " + in.Name + " but found 0."}
		}
		delete(s.collectors, in.Name)
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

// graphAdded tells the collectors of keys that a client has submitted. The keys are copied.
func (s *Scheduler) graphAdded(keys []task.Key) {
	if len(s.collectors) == 0 {
		return
	}
	for _, k := range keys {
		k = task.Key(strings.Clone(string(k)))
		for _, c := range s.collectors {
			c.keys[k] = true
		}
	}
	s.apply(&state.Watch{Keys: keys})
}

// said keeps what a worker says of a task that has ended, before the state knows.
func (c *gatherer) said(key task.Key, metadata []byte) {
	if c.keys[key] {
		c.metadata[task.Key(strings.Clone(string(key)))] = append([]byte(nil), metadata...)
	}
}

func (c *gatherer) moved(a *state.Action) {
	if c.keys[a.Key] && (a.To == state.Memory || a.To == state.Erred) {
		key := task.Key(strings.Clone(string(a.Key)))
		delete(c.keys, key)
		c.state[key] = a.To
	}
}
