package sidecar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

func TestCallLog(t *testing.T) {
	r := newRig(t)
	for level, want := range map[int]string{10: "DEBUG", 20: "INFO", 30: "WARN", 40: "ERROR", 50: "ERROR", 35: "WARN"} {
		r.logs.Reset()
		if _, _, err := call(t, r.onLog, msgpack.MapOf("level", level, "text", "hello", "name", "distributed.x", "more",
			1)); err != nil {
			t.Fatal(err)
		}
		if got := r.logs.String(); !strings.Contains(got, "level="+want+" ") || !strings.Contains(got, "hello") ||
			!strings.Contains(got, "distributed.x") {
			t.Errorf("level %d: logged %s", level, got)
		}
	}
}

// Only maps are sent to the scheduler: the process is not trusted.
func TestCallStream(t *testing.T) {
	r := newRig(t)
	good, err := msgpack.Append(nil, msgpack.MapOf("op", "x"))
	if err != nil {
		t.Fatal(err)
	}
	for name, frames := range map[string][][]byte{
		"nothing": nil, "no map": {{0x90}}, "half a map": {good[:len(good)-1]},
		"more than a map": {append(slices.Clone(good), 0xc0)}, "empty": {{}},
	} {
		if _, _, err := call(t, r.onStream, nil, frames...); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if len(r.sent) != 0 {
		t.Fatalf("sent %q", r.sent)
	}
	if _, _, err := call(t, r.onStream, nil, good, []byte("frame")); err != nil {
		t.Fatal(err)
	}
	if len(r.sent) != 1 || string(r.sent[0][0]) != string(good) || string(r.sent[0][1]) != "frame" {
		t.Errorf("sent %q", r.sent)
	}
}

func TestCallEnd(t *testing.T) {
	r := newRig(t)
	for _, graceful := range []bool{true, false} {
		if _, _, err := call(t, r.onEnd, msgpack.MapOf("graceful", graceful, "reason", "over")); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"true over", "false over"}; !slices.Equal(r.ends, want) {
		t.Errorf("ends %v, want %v", r.ends, want)
	}
}

func TestCallData(t *testing.T) {
	r := newRig(t)
	for key, v := range map[string]any{"small": 5, "large": make([]byte, 100_000), "channel": make(chan int)} {
		value := task.NewValue(v)
		r.data.Put(task.NewKey(key), value, value.Size())
	}
	for key, want := range map[string]bool{"small": true, "none": false} {
		if got, _, err := call(t, r.onHas, msgpack.MapOf("key", key)); err != nil || got != want {
			t.Errorf("has %s: %v, %v", key, got, err)
		}
	}
	if got, _, err := call(t, r.onKeys, nil); err != nil || len(got.([]any)) != 3 {
		t.Errorf("keys %v, %v", got, err)
	}
	if got, frames, err := call(t, r.onFetch, msgpack.MapOf("key", "none")); got != nil || frames != nil || err != nil {
		t.Errorf("missing value: got %v, %v, %v", got, frames, err)
	}
	got, frames, err := call(t, r.onFetch, msgpack.MapOf("key", "small"))
	raw, _ := got.(msgpack.Raw)
	if v, bad := msgpack.Decode(raw); err != nil || bad != nil || len(frames) != 0 ||
		fmt.Sprint(v) != fmt.Sprint(msgpack.MapOf("value", 5)) {
		t.Errorf("small value: got %v, %v, %v", got, frames, err)
	}
	if _, frames, err = call(t, r.onFetch, msgpack.MapOf("key", "large")); err != nil || len(frames) < 2 ||
		len(frames[len(frames)-1]) < 1000 {
		t.Errorf("large value: got %d frames, %v", len(frames), err)
	}
	if _, _, err = call(t, r.onFetch, msgpack.MapOf("key", "channel")); err == nil {
		t.Error("channel: got no error")
	}
}

func TestCallPut(t *testing.T) {
	r := newRig(t)
	inc := r.life()
	put := r.handlers(inc)["put"]
	for _, args := range []msgpack.Map{
		msgpack.MapOf("handle", 3, "nbytes", 5), msgpack.MapOf("key", "k", "handle", 4, "nbytes", 5),
		msgpack.MapOf("key", "k", "handle", 3, "nbytes", -5),
	} {
		if _, _, err := call(t, put, args); err == nil {
			t.Errorf("%v: got no error", args)
		}
	}
	if _, _, err := call(t, put, msgpack.MapOf("key", "k", "handle", 3, "nbytes", 5)); err != nil {
		t.Fatal(err)
	}
	if want := (state.Stored{Key: task.NewKey("k"), NBytes: 5}); len(r.stored) != 1 || r.stored[0] != want ||
		inc.values[3] == nil {
		t.Errorf("stored %+v, values %v", r.stored, inc.values)
	}
	inc.markDead()
	if _, _, err := call(t, put, msgpack.MapOf("key", "k", "handle", 5, "nbytes", 5)); err != pyproc.ErrExited {
		t.Errorf("value in a dead process: got %v", err)
	}
}

func TestCallResources(t *testing.T) {
	r := newRig(t)
	for _, bad := range []msgpack.Map{{{Key: 5, Value: 1}}, msgpack.MapOf("GPU", -1), msgpack.MapOf("GPU", 1e301)} {
		if _, _, err := call(t, r.onResources, bad); err == nil {
			t.Errorf("%v: got no error", bad)
		}
	}
	if _, _, err := call(t, r.onResources, msgpack.MapOf("GPU", 2, "MEM", 1.5)); err != nil {
		t.Fatal(err)
	}
	if want := []state.Resource{{Name: "GPU", Amount: 2}, {Name: "MEM", Amount: 1.5}}; !slices.Equal(r.resources,
		want) {
		t.Errorf("got %v, want %v", r.resources, want)
	}
	if _, _, err := r.onResources(t.Context(), &pyproc.Message{Body: []byte{0x90}}); err == nil {
		t.Error("list: got no error")
	}
}

// aTask counts how often it secedes.
type aTask struct{ begun, seceded int }

func (a *aTask) Begin()                       { a.begun++ }
func (a *aTask) Secede(context.Context) error { a.seceded++; return nil }

// A task secedes while it is in the process, not when it has ended.
func TestCallSecede(t *testing.T) {
	r := newRig(t)
	a := &aTask{}
	c := &Call{Task: a}
	secede := func(run int) {
		t.Helper()
		if _, _, err := call(t, r.onSecede, msgpack.MapOf("run", run)); err != nil {
			t.Fatal(err)
		}
	}
	secede(2)
	r.addRun(2, c)
	secede(2)
	secede(4)
	r.removeRun(2, c)
	secede(2)
	if a.seceded != 1 {
		t.Errorf("got %d secessions, want 1", a.seceded)
	}
	r.runs[2] = c // the message arrived before the end and is handled after it
	secede(2)
	if a.seceded != 1 {
		t.Error("task seceded after its end")
	}
	delete(r.runs, 2)
}

// TestCallState: the state of the worker is returned, or its error.
func TestCallState(t *testing.T) {
	r := newRig(t)
	call := r.handlers(r.life())["state"]
	got, frames, err := call(t.Context(), &pyproc.Message{})
	if m, ok := got.(msgpack.Map); !ok || !m.Has("tasks") || len(frames) != 0 || err != nil {
		t.Errorf("got %v, %d frames, %v, want the state", got, len(frames), err)
	}
	r.fail = errors.New("closed")
	if _, _, err := call(t.Context(), &pyproc.Message{}); !errors.Is(err, r.fail) {
		t.Errorf("got %v, want %v", err, r.fail)
	}
}

func TestCallRejects(t *testing.T) {
	r := newRig(t)
	for name, h := range r.handlers(r.life()) {
		if name == "keys" || name == "stream" || name == "state" { // have no arguments of this form
			continue
		}
		if _, _, err := h(t.Context(), &pyproc.Message{Body: []byte{0x81, 0xa3, 'k'}}); err == nil {
			t.Errorf("%s: got no error for a truncated message", name)
		}
	}
}
