package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

var errOver = errors.New("the worker is closed")

// rig is a Sidecar whose worker records the calls to it.
type rig struct {
	*Sidecar
	all  sync.WaitGroup
	logs strings.Builder

	sent      [][][]byte
	stored    []state.Stored
	resources []state.Resource
	ends      []string
	lost      []task.Key
	fail      error // of State
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{}
	data, err := store.New(store.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.Sidecar = New(Config{
		Interpreter: pyproc.Interpreter{Path: "/nonexistent/python"}, AllowedFailures: 2, StartTimeout: time.Second,
		Logger: slog.New(slog.NewTextHandler(&r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})), Data: data,
		MemoryLimit: 100,
		Worker: Worker{Context: ctx, Tasks: ctx, Go: r.all.Go, Closed: errOver,
			Address:      func() string { return "tcp://a:1" },
			Settings:     func() msgpack.Map { return msgpack.MapOf("nthreads", 2) },
			State:        func() (msgpack.Map, error) { return msgpack.MapOf("tasks", len(r.sent)), r.fail },
			Send:         func(m []byte, frames [][]byte) { r.sent = append(r.sent, append([][]byte{m}, frames...)) },
			Store:        func(_ *task.Value, s state.Stored) { r.stored = append(r.stored, s) },
			SetResources: func(list []state.Resource) { r.resources = list },
			End: func(graceful bool, reason string) {
				r.ends = append(r.ends, fmt.Sprint(graceful, " ", reason))
			},
			Lost: func(keys []task.Key, still func(int) bool) {
				for i, k := range keys {
					if still == nil || still(i) {
						r.lost = append(r.lost, k)
					}
				}
			},
		}})
	t.Cleanup(func() {
		r.Close(time.Second)
		cancel()
		r.all.Wait()
		_ = data.Close()
	})
	return r
}

// life returns a process that does nothing.
func (r *rig) life() *incarnation {
	return &incarnation{s: r.Sidecar, values: map[uint64]*value{}, turn: make(chan struct{}, 1)}
}

// call calls a handler as the process does.
func call(t *testing.T, h pyproc.Handler, args msgpack.Map, frames ...[]byte) (any, [][]byte, error) {
	t.Helper()
	b, err := msgpack.Append(nil, args)
	if err != nil {
		t.Fatal(err)
	}
	return h(t.Context(), &pyproc.Message{Body: b, Frames: frames})
}

// If the process cannot be started each call returns an error; the delays of starts grow.
func TestStartFails(t *testing.T) {
	r := newRig(t)
	var pauses []time.Duration
	for range 3 {
		pauses = append(pauses, r.backoff())
		_, err := r.get(t.Context())
		if err == nil || !strings.Contains(err.Error(), "/nonexistent/python") ||
			!strings.Contains(err.Error(), "tcp://a:1") {
			t.Fatalf("got %v", err)
		}
	}
	if pauses[0] != 0 || pauses[1] <= 0 || pauses[2] <= pauses[1] {
		t.Errorf("got pauses %v, want growing ones", pauses)
	}
	r.failures = 100
	if p := r.backoff(); p != time.Second {
		t.Errorf("after many failures: got a delay of %v, want 1s", p)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	if _, err := r.get(ctx); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	r.Close(time.Second)
	if _, err := r.get(t.Context()); !errors.Is(err, errOver) {
		t.Errorf("after Close: got %v, want %v", err, errOver)
	}
	if r.Running() || r.RSS() != 0 || r.KillForMemory(1) {
		t.Error("Running: got true, want false")
	}
}

func TestSettings(t *testing.T) {
	r := newRig(t)
	got := r.settings([]Plugin{{"p", nil}, {"q", nil}})
	want := msgpack.MapOf("nthreads", 2, "plugins", []any{[]any{"p"}, []any{"q"}})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A task fails after too many crashes; a task that succeeded is cleared.
func TestSuspects(t *testing.T) {
	r := newRig(t)
	k := task.NewKey("k")
	died := fmt.Errorf("crashed: %w", pyproc.ErrExited)
	for _, want := range []bool{true, true, false, true} { // a failed task is cleared
		if err := r.runError(k, died); errors.Is(err, task.ErrReschedule) != want {
			t.Errorf("got %v, want ErrReschedule: %v", err, want)
		}
	}
	r.clearSuspect(k)
	if len(r.suspects) != 0 {
		t.Errorf("suspects %v", r.suspects)
	}
	if err := r.runError(k, errOver); err != errOver || len(r.suspects) != 0 {
		t.Errorf("another error: got %v, suspects %v", err, r.suspects)
	}
	for i := range maxSuspects + 5 {
		_ = r.runError(task.NewKey(fmt.Sprint(i)), died)
	}
	if len(r.suspects) > maxSuspects {
		t.Errorf("got %d suspects", len(r.suspects))
	}
}

// Values that are lost with a process are reported, unless the store has another value by then.
func TestHandleExit(t *testing.T) {
	r := newRig(t)
	inc := r.life()
	for i, key := range []string{"lost", "replaced", "gone", "copied"} {
		v := &value{inc: inc, handle: uint64(2 + 2*i), key: task.NewKey(key)}
		v.value = task.NewRemote(v, 10, "X")
		if key == "copied" { // with a copy in Go
			v.value = task.NewValue(make([]byte, 10))
			if _, err := v.value.Encoded(); err != nil {
				t.Fatal(err)
			}
			v.value.Attach(v)
		}
		inc.add(v)
		if key == "replaced" {
			r.data.Put(v.key, task.NewValue(1), 1)
		} else if key != "gone" {
			r.data.Put(v.key, v.value, 10)
		}
	}
	inc.p, inc.began = new(pyproc.Process), time.Now()
	r.current = inc
	r.handleExit(inc)
	if len(r.lost) != 1 || r.lost[0] != task.NewKey("lost") || r.current != nil || r.failures != 1 {
		t.Errorf("lost %v; current %v, %d failures", r.lost, r.current, r.failures)
	}
	if inc.add(&value{}) {
		t.Error("add to a dead process: got true, want false")
	}
	inc.began = time.Now().Add(-time.Hour)
	if r.handleExit(inc); r.failures != 0 {
		t.Errorf("after a long run: got %d failures, want 0", r.failures)
	}
}

func TestHandles(t *testing.T) {
	r := newRig(t)
	a, b := r.newHandle(), r.newHandle()
	if a%2 != 0 || b != a+2 {
		t.Errorf("got handles %d and %d, want even ones", a, b)
	}
}

// A dropped value is freed with others.
func TestDrop(t *testing.T) {
	r := newRig(t)
	inc := r.life()
	v := &value{inc: inc, handle: 2, key: task.NewKey("k")}
	inc.add(v)
	v.Drop()
	if len(inc.values) != 0 || !slices.Equal(inc.free, []uint64{2}) {
		t.Errorf("values %v, free %v", inc.values, inc.free)
	}
	inc.markDead()
	if v.Drop(); len(inc.free) != 0 {
		t.Errorf("dead process: got %v to free, want none", inc.free)
	}
}

func TestTypes(t *testing.T) {
	var table typePickles
	for i := range maxTypes + 10 {
		if name := table.intern(fmt.Sprint(i), []byte{1}); name != fmt.Sprint(i) {
			t.Fatalf("got %q", name)
		}
	}
	if len(table.known) != maxTypes || table.pickleOf("0") == nil || table.pickleOf(fmt.Sprint(maxTypes)) != nil {
		t.Errorf("got %d types", len(table.known))
	}
	table.intern("0", []byte{2})
	if !slices.Equal(table.pickleOf("0"), []byte{1}) {
		t.Error("got the second class of a name, want the first")
	}
	var none *Sidecar
	if none.Class("int") != nil || none.Encode(nil) != nil {
		t.Error("got a class without Python")
	}
}

func TestPlugins(t *testing.T) {
	r := newRig(t)
	names := func() (list []string) {
		for _, p := range r.plugins {
			list = append(list, p.Name+"="+string(p.Pickle))
		}
		return list
	}
	r.AddPlugins([]Plugin{{shufflePlugin, []byte("s")}}) // starts no process
	r.all.Wait()
	if r.failures != 0 {
		t.Error("the shuffle plugin started the process")
	}
	r.AddPlugins([]Plugin{{"a", []byte("1")}, {"b", []byte("2")}})
	r.keepPlugin(Plugin{"a", []byte("3")})
	r.all.Wait()
	if r.failures != 1 {
		t.Errorf("%d starts, want 1", r.failures)
	}
	if got, want := names(), []string{"shuffle=s", "a=3", "b=2"}; !slices.Equal(got, want) {
		t.Errorf("plugins %v, want %v", got, want)
	}
	for i := range maxPlugins {
		r.keepPlugin(Plugin{fmt.Sprint(i), nil})
	}
	if len(r.plugins) != maxPlugins {
		t.Errorf("got %d plugins", len(r.plugins))
	}
	if f := pluginFrames(r.plugins[:2]); len(f) != 2 || string(f[1]) != "3" {
		t.Errorf("frames %q", f)
	}
}

func TestFailedPlugins(t *testing.T) {
	for _, c := range []struct {
		reply any
		want  string
	}{
		{msgpack.MapOf("failed", []any{"a"}), "[a]"}, {msgpack.MapOf("failed", []any{}), ""}, {msgpack.Map{}, ""},
		{5, ""},
	} {
		b, err := msgpack.Append(nil, c.reply)
		if err != nil {
			t.Fatal(err)
		}
		if got := failedPlugins(b); got != c.want {
			t.Errorf("%v: got %q, want %q", c.reply, got, c.want)
		}
	}
}

// A message of the scheduler is copied: it is released before it is forwarded.
func TestForwardMessage(t *testing.T) {
	r := newRig(t)
	raw := []byte("order")
	m := &wire.Message{Frames: []wire.Frame{{}, wire.HeapFrame([]byte("frame"))}}
	if r.ForwardMessage(raw, m) {
		t.Error("ForwardMessage without a process: got true, want false")
	}
	inc := r.life()
	inc.forwarded = [][][]byte{nil} // as if one was being sent: no goroutine is started
	r.current = inc
	if !r.ForwardMessage(raw, m) {
		t.Fatal("ForwardMessage: got false, want true")
	}
	copy(raw, "xxxxx")
	copy(m.Frames[1].Bytes(), "xxxxx")
	if got := inc.forwarded[1]; string(got[0]) != "order" || string(got[1]) != "frame" {
		t.Errorf("got %q", got)
	}
	r.current = nil
}
