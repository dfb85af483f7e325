package profiles

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/inspect"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

// stack is the call stack of a running task.
type stack struct {
	worker string
	key    task.Key
	lines  []string // outermost first
}

// callStackRPC serves Dask's call_stack: the stacks of the tasks with the given keys, or of those that they wait for,
// or of all, by worker and key.
func (s *Profiles) callStackRPC(ctx context.Context, _ *rpc.Request, in inspect.KeysArg) (msgpack.Map, error) {
	var byWorker map[string][]any
	workers, err := []string(nil), error(nil)
	if in.Keys == nil {
		workers, err = s.addresses(ctx, nil)
	} else if byWorker, err = s.processing(ctx, in.Keys); err == nil {
		for w := range byWorker {
			workers = append(workers, w)
		}
	}
	if err != nil {
		return nil, err
	}
	stacks := map[string]msgpack.Map{}
	for _, st := range s.stacks(ctx, workers, byWorker) {
		lines := make([]any, len(st.lines))
		for i, line := range st.lines {
			lines[i] = line
		}
		stacks[st.worker] = append(stacks[st.worker], msgpack.Pair{Key: st.key.Value(), Value: lines})
	}
	out := msgpack.Map{}
	for _, w := range workers {
		if len(stacks[w]) > 0 {
			out = append(out, msgpack.Pair{Key: w, Value: stacks[w]})
		}
	}
	return out, nil
}

// processing returns the tasks with the given keys that run, or those that they wait for, by worker.
func (s *Profiles) processing(ctx context.Context, names []any) (map[string][]any, error) {
	keys, err := val.KeyList(names)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.Loop, func() (map[string][]any, error) {
		out := map[string][]any{}
		seen := map[*state.Task]bool{}
		var todo []*state.Task
		for _, k := range keys {
			t := s.State.Task(k)
			if t == nil {
				return nil, &rpc.Exception{Type: "KeyError", Message: k.String()}
			}
			todo = append(todo, t)
		}
		for len(todo) > 0 {
			t := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if seen[t] {
				continue
			}
			seen[t] = true
			if w := t.ProcessingOn(); w != nil {
				out[w.Address()] = append(out[w.Address()], t.Key().Raw())
			}
			for d := range t.WaitingOn() {
				todo = append(todo, d)
			}
		}
		return out, nil
	})
}

// Stacks returns the call stacks of the tasks that run on a worker, or on all if worker is "".
func (s *Profiles) Stacks(ctx context.Context, worker string) ([]dashboard.Stack, error) {
	workers, err := s.addresses(ctx, named(worker))
	if err != nil {
		return nil, err
	}
	out := []dashboard.Stack{}
	for _, st := range s.stacks(ctx, workers, nil) {
		out = append(out, dashboard.Stack{Worker: st.worker, Key: st.key.String(), Frames: st.lines})
	}
	return out, nil
}

// stacks asks workers for call stacks: of the given keys, or of all if keys is nil.
func (s *Profiles) stacks(ctx context.Context, workers []string, keys map[string][]any) []stack {
	var out []stack
	size := 0
	s.ask(ctx, "call_stack", workers, func(w string) msgpack.Map {
		if keys == nil {
			return msgpack.MapOf("keys", nil)
		}
		return msgpack.MapOf("keys", keys[w])
	}, func(w string, body []byte) error {
		if size += len(body); size > maxReplies {
			return fmt.Errorf("call stacks of all workers exceed %d bytes", maxReplies)
		}
		list, err := readStacks(body)
		for _, st := range list {
			st.worker = w
			out = append(out, st)
		}
		return err
	})
	return out
}

// maxLine is the length of a line of a call stack in bytes, maxLines the number of lines of one stack.
const maxLine, maxLines = 16 << 10, 2000

// readStacks reads {key: [line, …]} of a worker.
func readStacks(body []byte) ([]stack, error) {
	r := msgpack.NewReader(body)
	n, err := r.ReadMapLen()
	var out []stack
	for ; err == nil && n > 0; n-- {
		var st stack
		if st, err = readStack(&r); err == nil {
			out = append(out, st)
		}
	}
	return out, err
}

func readStack(r *msgpack.Reader) (st stack, err error) {
	raw, err := r.ReadKey(nil)
	if err != nil {
		return st, err
	}
	st.key = task.Key(raw)
	st.lines = []string{}
	n, err := r.ReadArrayLen()
	for ; err == nil && n > 0; n-- {
		var line []byte
		if line, err = r.ReadStringBytes(); err != nil {
			break
		}
		if len(line) > maxLine || len(st.lines) >= maxLines {
			return st, errors.New("call stack is too long")
		}
		st.lines = append(st.lines, string(line))
	}
	return st, err
}
