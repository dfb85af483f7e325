package worker

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/record"
)

// callStack tells where the running tasks are: {key: [text, …]}, of the keys that are asked
// for or all.
func (w *Worker) callStack(_ context.Context, r *rpc.Request) (any, error) {
	var wanted map[task.Key]bool
	if raw, ok := r.Field("keys"); ok && !(len(raw) == 1 && raw[0] == 0xc0) {
		wanted = map[task.Key]bool{}
		if err := wire.EachKey(raw, func(k []byte) error { wanted[task.Key(k)] = true; return nil }); err != nil {
			return nil, &rpc.ArgumentError{Op: r.Op, Name: "keys", Reason: err.Error()}
		}
	}
	marks := map[task.Key]string{}
	w.do(func() {
		for k, r := range w.executing {
			if wanted == nil || wanted[k] {
				marks[k] = fmt.Sprintf("(*run).call(0x%x", pointer(r))
			}
		}
	})
	stacks := allStacks()
	out := msgpack.Map{}
	for k, mark := range marks {
		lines := []any{}
		for _, s := range stacks {
			if strings.Contains(s, mark) {
				lines = append(lines, s)
			}
		}
		out = append(out, msgpack.Pair{Key: k.Value(), Value: lines})
	}
	return out, nil
}

// maxStacks bounds what is read of all goroutines' stacks.
const maxStacks = 16 << 20

func allStacks() []string {
	for size := 1 << 16; ; size *= 4 {
		b := make([]byte, size)
		if n := runtime.Stack(b, true); n < size || size >= maxStacks {
			return strings.Split(string(b[:n]), "\n\n")
		}
	}
}

// storyRow is a transition as Dask's get_story tells it.
func storyRow(t state.Transition) []any {
	return []any{t.Key.Value(), t.Start.String(), t.Finish.String(), t.Final.String(), msgpack.Map{}, t.Stimulus, record.Unix(t.Time)}
}

// pointer returns where a run is in memory: its goroutine's stack shows it.
func pointer(r *run) uintptr { return uintptr(unsafe.Pointer(r)) }
