package sidecar

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// hold stores a value and holds its entry until the test ends.
func (r *rig) hold(t *testing.T, key string, v *task.Value) *store.Entry {
	t.Helper()
	k := task.NewKey(key)
	r.data.Put(k, v, v.Size())
	e := r.data.Hold(k)
	t.Cleanup(func() { r.data.Release(e) })
	return e
}

// A call has small dependencies in its body, large ones in frames the first time and by their handle afterwards.
func TestCallEncode(t *testing.T) {
	r := newRig(t)
	inc := r.life()
	there := &value{inc: inc, handle: 6, key: task.NewKey("there")}
	there.value = task.NewRemote(there, 10, "X")
	deps := []*store.Entry{
		r.hold(t, "small", task.NewValue(5)), r.hold(t, "large", task.NewValue(make([]byte, 100_000))),
		r.hold(t, "there", there.value),
	}
	note, err := msgpack.Append(nil, msgpack.MapOf("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	c := &Call{Key: task.NewKey("k"), Spec: [][]byte{[]byte("\x80pickle"), []byte("buffer")}, Annotations: note,
		Actor: true, Deps: deps}
	for round := range 2 {
		var res Result
		body, frames, sent, err := c.encode(inc, 8, &res)
		if err != nil {
			t.Fatal(err)
		}
		v, err := msgpack.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		list := v.([]any)
		got := fmt.Sprint(list[0], list[1], list[2], list[4], list[5])
		if want := fmt.Sprint(int64(8), "k", int64(2), msgpack.MapOf("a", int64(1)), true); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		rows := list[3].([]any)
		large := rows[1].([]any)
		if fmt.Sprint(rows[0]) != "[small <nil> 5 0]" || fmt.Sprint(rows[2]) != "[there 6 <nil> 0]" {
			t.Errorf("dependencies %v", rows)
		}
		n, _ := large[3].(int64)
		if handle, ok := large[1].(int64); !ok || handle%2 != 0 || (n > 0) != (round == 0) ||
			len(sent) != int(min(n, 1)) {
			t.Errorf("round %d: got large value %v, %d values sent", round, large, len(sent))
		}
		if len(frames) != 2+int(n) || string(frames[1]) != "buffer" {
			t.Errorf("%d frames, want %d", len(frames), 2+n)
		}
		for _, s := range sent {
			s.frames.Release()
		}
	}
	if len(c.Spec) != 2 {
		t.Errorf("got %d frames of the spec", len(c.Spec))
	}
	// For the next process the large value is sent again; values that were only in the first are lost.
	next := r.life()
	inc.markDead()
	var res Result
	if _, _, _, err := c.encode(next, 10, &res); !errors.Is(err, task.ErrReschedule) ||
		res.Lost != task.NewKey("there") {
		t.Errorf("got %v, lost %v", err, res.Lost)
	}
}

// A dependency that cannot be encoded for Python fails the task: computing it again would not help.
func TestCallEncodeFails(t *testing.T) {
	r := newRig(t)
	c := &Call{Key: task.NewKey("k"), Deps: []*store.Entry{r.hold(t, "channel", task.NewValue(make(chan int)))}}
	var res Result
	_, _, _, err := c.encode(r.life(), 2, &res)
	var cannot *task.EncodeError
	if !errors.As(err, &cannot) || errors.Is(err, task.ErrReschedule) || !strings.Contains(err.Error(), "channel") ||
		res.Lost != "" {
		t.Errorf("got %v, lost %q", err, res.Lost)
	}
}

// A run fails without a process.
func TestRunWithoutProcess(t *testing.T) {
	r := newRig(t)
	a := &aTask{}
	res, err := r.Run(&Call{Key: task.NewKey("k"), Task: a})
	if err == nil || a.begun != 0 || res.Value != nil {
		t.Errorf("got %+v, %v; begun %d times", res, err, a.begun)
	}
}
