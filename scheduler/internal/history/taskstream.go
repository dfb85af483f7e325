// Package history keeps the history of a scheduler in rings of bounded size: completed tasks, transfers, log lines,
// computations, and task metadata that clients have collected.
package history

import (
	"context"
	"encoding/json"
	"strings"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

// TaskStream is a ring of the latest completed tasks: worker, time, duration of each part. Its slots keep their memory,
// so that it does not allocate once all slots have been used. The loop owns it.
type TaskStream struct {
	chunks [][]taskEnd // of streamChunk slots each, allocated on demand
	limit  int
	count  int64 // of all completed tasks
	loop   loop.Loop
	types  map[string]*resultType
}

// streamChunk is the number of slots that are allocated at once.
const streamChunk = 1024

// taskEnd is a completed task.
type taskEnd struct {
	key         []byte
	worker      string
	thread      int64
	nbytes      int64
	start, stop float64 // of the computation, in seconds since 1970
	parts       []byte  // all parts, as msgpack; empty if there is only the computation
	erred       bool
	stimulus    []byte
	result      *resultType // nil if unknown or the task erred
	exception   string      // texts of a failure
	traceback   string
}

// resultType is the class of results: its name, and the class as a pickle. Tasks share them.
type resultType struct {
	name   string
	pickle []byte
}

// Bounds of the kept classes of results and failures, in classes and bytes.
const (
	maxResultTypes = 4096
	maxResultType  = 4096
	maxFailureText = 10_000 // max-error-length in Dask
)

// resultType returns the class of a result, shared by all results of the class; nil if there are too many classes.
func (t *TaskStream) resultType(f *message.TaskFinished) *resultType {
	if r := t.types[f.TypeName]; r != nil {
		return r
	}
	if len(f.TypeName) == 0 || len(t.types) >= maxResultTypes || len(f.Type)+len(f.TypeName) > maxResultType {
		return nil
	}
	if t.types == nil {
		t.types = map[string]*resultType{}
	}
	r := &resultType{strings.Clone(f.TypeName), append([]byte(nil), f.Type...)}
	t.types[r.name] = r
	return r
}

// NewTaskStream returns a ring of at most limit tasks.
func NewTaskStream(l loop.Loop, limit int) *TaskStream {
	return &TaskStream{loop: l, limit: max(limit, 0)}
}

// Register sets the handlers of requests.
func (t *TaskStream) Register(r *rpc.Server) {
	rpc.Handle(r, "get_task_stream", t.getRPC)
	rpc.Handle(r, "get_task_stream_index", t.indexRPC)
}

// next returns the slot to fill.
func (t *TaskStream) next() *taskEnd {
	i := t.count % int64(t.limit)
	if int(i/streamChunk) == len(t.chunks) {
		t.chunks = append(t.chunks, make([]taskEnd, streamChunk))
	}
	t.count++
	return t.at(i)
}

// at returns the slot of the i-th completed task.
func (t *TaskStream) at(i int64) *taskEnd {
	i %= int64(t.limit)
	return &t.chunks[i/streamChunk][i%streamChunk]
}

// Finished records a finished task of a worker.
func (t *TaskStream) Finished(worker string, f *message.TaskFinished) {
	if t.limit == 0 {
		return
	}
	e := t.next()
	*e = taskEnd{key: append(e.key[:0], f.Key...), worker: worker, thread: f.Thread, nbytes: f.NBytes,
		start: f.StartStops.Start,
		stop:  f.StartStops.Stop, parts: e.parts[:0],
		stimulus: append(e.stimulus[:0], f.StimulusID[:min(len(f.StimulusID), maxStimulus)]...),
		result:   t.resultType(f)}
	// A list of one is the computation alone.
	if raw := f.StartStops.Raw; len(raw) > 0 && raw[0] != 0x91 && len(raw) <= maxParts {
		e.parts = append(e.parts, raw...)
	}
}

// Bounds of the kept parts of one task and of the name of its event, in bytes.
const (
	maxParts    = 4096
	maxStimulus = 256
)

// Erred records a failed task of a worker.
func (t *TaskStream) Erred(worker string, f *message.TaskErred) {
	if t.limit == 0 {
		return
	}
	e := t.next()
	*e = taskEnd{key: append(e.key[:0], f.Key...), worker: worker, thread: f.Thread, parts: e.parts[:0], erred: true,
		stimulus:  append(e.stimulus[:0], clip(f.StimulusID, maxStimulus)...),
		exception: strings.Clone(clip(f.ExceptionText, maxFailureText)),
		traceback: strings.Clone(clip(f.TracebackText, maxFailureText))}
	if raw := f.StartStops.Raw; len(raw) <= maxParts {
		e.parts = append(e.parts, raw...)
	}
}

// part is one action of a task: compute, transfer, disk-read, disk-write, deserialize.
type part struct {
	Action string  `json:"action"`
	Start  float64 `json:"start"`
	Stop   float64 `json:"stop"`
}

// actions returns the parts of a task.
func (e *taskEnd) actions() []part {
	if len(e.parts) == 0 {
		return []part{{"compute", e.start, e.stop}}
	}
	v, err := msgpack.Decode(e.parts)
	var out []part
	if err != nil || rpc.Assign(v, &out) != nil {
		return nil
	}
	return out
}

// since calls f for the tasks from an index on, at most for the latest n.
func (t *TaskStream) since(from int64, n int, f func(index int64, e *taskEnd)) {
	from = max(from, t.count-int64(t.limit), 0)
	if n > 0 {
		from = max(from, t.count-int64(n))
	}
	for i := from; i < t.count; i++ {
		f(i, t.at(i))
	}
}

func (t *TaskStream) indexRPC(ctx context.Context, _ *rpc.Request, _ struct{}) (int64, error) {
	return loop.Ask(ctx, t.loop, func() (int64, error) { return t.count, nil })
}

// getRPC serves get_task_stream: the records of completed tasks in the form of Dask.
func (t *TaskStream) getRPC(ctx context.Context, _ *rpc.Request, in struct {
	Start any  `rpc:"start,optional"`
	Stop  any  `rpc:"stop,optional"`
	Count *int `rpc:"count"`
	Index any  `rpc:"start_index,optional"`
}) ([]any, error) {
	from, _ := val.Integer(in.Index)
	start, hasStart := val.Number(in.Start)
	stop, hasStop := val.Number(in.Stop)
	n := 0
	if in.Count != nil {
		n = *in.Count
	}
	return loop.Ask(ctx, t.loop, func() ([]any, error) {
		out := []any{}
		t.since(from, n, func(_ int64, e *taskEnd) {
			parts := e.actions()
			if len(parts) > 0 && (hasStart && parts[len(parts)-1].Stop < start || hasStop && parts[0].Start > stop) {
				return
			}
			list := make([]any, len(parts))
			for i, p := range parts {
				list[i] = msgpack.MapOf("action", p.Action, "start", p.Start, "stop", p.Stop)
			}
			m := msgpack.MapOf("key", msgpack.Raw(append([]byte(nil), e.key...)), "worker", e.worker, "thread",
				e.thread,
				"status", "OK", "startstops", list, "stimulus_id", string(e.stimulus))
			if e.erred {
				m.Set("status", "error")
				m = append(m, msgpack.MapOf("cause", m[0].Value, "exception_text", e.exception, "traceback_text",
					e.traceback)...)
			} else {
				m = append(m, msgpack.MapOf("nbytes", e.nbytes, "metadata", msgpack.Map{}, "type", nil, "typename",
					nil)...)
				if e.result != nil {
					m.Set("type", e.result.pickle)
					m.Set("typename", e.result.name)
				}
			}
			out = append(out, m)
		})
		return out, nil
	})
}

// taskJSON is a completed task in the form of the HTTP server.
type taskJSON struct {
	Index   int64  `json:"index"`
	Key     string `json:"key"`
	Worker  string `json:"worker"`
	Thread  int64  `json:"thread"`
	NBytes  int64  `json:"nbytes"`
	Status  string `json:"status"`
	Actions []part `json:"actions"`
}

// JSON returns the completed tasks from an index on.
func (t *TaskStream) JSON(ctx context.Context, from int64, n int) ([]byte, error) {
	type answer struct {
		Next  int64      `json:"next"`
		Tasks []taskJSON `json:"tasks"`
	}
	out, err := loop.Ask(ctx, t.loop, func() (answer, error) {
		a := answer{Next: t.count, Tasks: []taskJSON{}}
		t.since(from, n, func(i int64, e *taskEnd) {
			x := taskJSON{Index: i, Key: task.Key(e.key).String(), Worker: e.worker, Thread: e.thread,
				NBytes: e.nbytes, Status: "OK", Actions: e.actions()}
			if e.erred {
				x.Status = "error"
			}
			a.Tasks = append(a.Tasks, x)
		})
		return a, nil
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// clip returns a copy of at most n bytes of a text.
func clip(text string, n int) string {
	return strings.ToValidUTF8(strings.Clone(text[:min(len(text), n)]), "")
}
