package messages

import (
	"bytes"
	"testing"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
)

// generated encodes a compute-task of a Go function with the generated writer, as an alternative to Writer.computeTask.
type generated struct {
	w                          *Writer
	f                          message.ComputeTask
	priority, who, sizes, spec []byte
}

func (g *generated) append(out *rpc.Batch, t *state.Task, runID int64) {
	p := t.Priority()
	g.priority = appendNumber(appendNumber(append(g.priority[:0], 0x93), p.User), p.Generation)
	g.priority = msgpack.AppendInt(g.priority, p.Order)
	n := t.NumDeps()
	g.who, g.sizes = msgpack.AppendMapHeader(g.who[:0], n), msgpack.AppendMapHeader(g.sizes[:0], n)
	for i := range n {
		d := t.Dep(i)
		g.who = appendHolders(g.who, d)
		g.sizes = msgpack.AppendInt(append(g.sizes, d.Key()...), d.NBytes())
	}
	g.spec = msgpack.AppendBytes(g.spec[:0], t.Spec())
	g.f = message.ComputeTask{Key: t.Key(), RunID: runID, Priority: g.priority,
		StimulusID: g.w.stimulus("compute-task"), WhoHas: g.who, NBytes: g.sizes,
		RunSpec: message.Object{Raw: g.spec}, Actor: t.Actor(),
		Annotations: message.Object{Raw: message.EmptyMap}}
	g.f.Append(&out.Buffer)
}

// computable returns a writer and a task with two dependencies.
func computable(t testing.TB) (*Writer, *state.Task) {
	h := hosttest.New(t)
	w := New(h.Log, h.State, 0, 3)
	spec := []byte("MS\x01" + string(bytes.Repeat([]byte("s"), 40)))
	h.Do(func() {
		worker := h.AddWorker("tcp://127.0.0.1:12345", nil)
		x, y, z := task.NewKey("x"), task.NewKey("y"), task.NewKey("z")
		h.Apply(&state.UpdateGraph{Client: h.AddClient("c", nil), Keys: []task.Key{z}, Graph: &state.Graph{
			Nodes: []state.Node{{Key: x, Spec: spec}, {Key: y, Spec: spec}, {Key: z, Spec: spec,
				Deps: []task.Key{x, y}}}}})
		h.Finish(worker, "x")
		h.Finish(worker, "y")
	})
	w.now = time.Unix(1000, 0)
	return w, h.State.Task(task.NewKey("z"))
}

// The two writers of compute-task encode the same, and neither allocates.
func TestComputeTaskWriters(t *testing.T) {
	w, z := computable(t)
	byHand, other := rpc.NewBatch(1<<10), rpc.NewBatch(1<<10)
	g := generated{w: w}
	for name, f := range map[string]func(){
		"by hand":   func() { byHand.Reset(5); byHand.Body = w.computeTask(byHand, z, 7) },
		"generated": func() { other.Reset(5); g.append(other, z, 7) },
	} {
		if n := testing.AllocsPerRun(10, f); n > 0 {
			t.Errorf("%s: got %v allocations, want none", name, n)
		}
	}
	if !bytes.Equal(byHand.Body, other.Body) {
		t.Errorf("by hand: got %x, generated %x", byHand.Body, other.Body)
	}
}

// BenchmarkComputeTask encodes a compute-task of a task with two dependencies.
func BenchmarkComputeTask(b *testing.B) {
	w, z := computable(b)
	out := rpc.NewBatch(1 << 10)
	g := generated{w: w}
	b.Run("by-hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			out.Reset(5)
			out.Body = w.computeTask(out, z, 7)
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			out.Reset(5)
			g.append(out, z, 7)
		}
	})
}

// Reports to clients do not allocate.
func TestToClientAllocatesNothing(t *testing.T) {
	w, z := computable(t)
	for _, ours := range []bool{false, true} {
		st, _ := stream(t, ours)
		x := z.Dep(0)
		for _, a := range []state.Action{{Kind: state.KeyInMemory, Task: x}, {Kind: state.LostData, Task: x},
			{Kind: state.CancelledKeys, Keys: []task.Key{x.Key()}}} {
			w.ToClient(st, &a) // allocates the memory of the batch
			if n := testing.AllocsPerRun(5, func() { w.ToClient(st, &a) }); n > 0 {
				t.Errorf("ours %v, action %v: got %v allocations, want none", ours, a.Kind, n)
			}
		}
	}
}
