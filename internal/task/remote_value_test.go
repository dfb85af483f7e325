package task

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// A value is the same in either form, and decoded once.
func TestValueForms(t *testing.T) {
	for _, live := range []any{7, "x", []float64{1, 2}, map[string]int{"a": 1}, point{1, 2}, nil} {
		v := NewValue(live)
		if got, ok := v.Live(); !ok || !reflect.DeepEqual(got, live) {
			t.Errorf("%v: got %v, %v, want it live", live, got, ok)
		}
		s, err := v.Encoded()
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := v.Encoded(); again != s {
			t.Errorf("%v is encoded twice", live)
		}
		far := NewEncoded(s.Retain())
		if got, ok := far.Live(); ok || got != nil || far.Type() != "" || far.Size() != s.Size() {
			t.Errorf("%v in frames: got %v, %v, type %q, %d bytes, want it closed and %d", live, got, ok, far.Type(),
				far.Size(), s.Size())
		}
		far.DropEncoded() // the only form is kept
		if _, err := far.Encoded(); err != nil {
			t.Errorf("%v in frames: %v after DropEncoded", live, err)
		}
		var dst any
		if err := far.into(reflect.ValueOf(&dst).Elem()); err != nil {
			t.Errorf("%v: %v", live, err)
		}
		if _, ok := far.Live(); !ok {
			t.Errorf("%v is still closed after it was opened", live)
		}
		far.Release()
		far.Release()
		v.Release()
	}
}

// A failed attempt to decode a value as another type does not prevent a later one.
func TestOpenedAsAnother(t *testing.T) {
	v := NewEncoded(encodedOf(t, "text"))
	var te *TypeError
	for range 2 {
		if got, err := As[int](v); !errors.As(err, &te) {
			t.Errorf("a text as an int: got %v, %v, want a TypeError", got, err)
		}
		var n []int
		if err := v.into(reflect.ValueOf(&n).Elem()); !errors.As(err, &te) {
			t.Errorf("a text as a slice: got %v, %v, want a TypeError", n, err)
		}
	}
	if got, err := As[string](v); got != "text" || err != nil {
		t.Errorf("got %q, %v, want text", got, err)
	}
}

// Losing an unknown copy has no effect; an error of one attempt does not affect the next.
func TestRemoteCopies(t *testing.T) {
	first, second := farValue(t), farValue(t)
	v := NewRemote(first, 16, "list")
	if !v.Lose(second) || v.Remote() != Remote(first) {
		t.Error("Lose of another copy: got false, want true")
	}
	if got := v.Attach(second); got != Remote(first) || v.Remote() != Remote(first) {
		t.Errorf("a second copy: got %v, want the first to stay", got)
	}
	first.err = errors.New("busy")
	if _, err := v.Encoded(); !errors.Is(err, first.err) {
		t.Errorf("got %v, want %v", err, first.err)
	}
	first.err = nil
	if got, err := As[[]float64](v); err != nil || len(got) != 2 {
		t.Errorf("the second attempt: got %v, %v, want the value", got, err)
	}
	if !v.Lose(first) || v.Remote() != nil {
		t.Error("Lose after decoding: got false, want true")
	}
	if v.Attach(second) != nil || v.Remote() != Remote(second) {
		t.Error("Attach after Lose did not store the copy")
	}
	v.Release()
	if first.dropped.Load() != 0 || second.dropped.Load() != 1 {
		t.Errorf("dropped %d and %d times, want the copy that there is", first.dropped.Load(), second.dropped.Load())
	}
}

// All callers that wait for a failed fetch get an error, and none hangs.
func TestRemoteFailsForAll(t *testing.T) {
	why := errors.New("no")
	v := NewRemote(&far{err: why}, 1, "")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := v.Retained(); !errors.Is(err, why) {
				t.Errorf("got %v, want %v", err, why)
			}
			if _, err := v.Share(); !errors.Is(err, why) {
				t.Errorf("Share: got %v, want %v", err, why)
			}
		})
	}
	wg.Wait()
}

// Frames that are dropped concurrently are created again.
func TestRetainedWhileDropped(t *testing.T) {
	v := NewValue(map[string]int{"a": 1})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				s, err := v.Retained()
				if err != nil || s.Size() == 0 {
					t.Errorf("got %v, %v", s, err)
					return
				}
				s.Release()
				v.DropEncoded()
			}
		})
	}
	wg.Wait()
}

// counts returns values of each shape with one device buffer of 8 bytes.
func counts(t *testing.T, m *fakeMemory) map[string]any {
	object := &wire.Object{Type: "x.Y", Frames: []wire.Frame{wire.BufferFrame(m.alloc(8))}}
	return map[string]any{
		"array": m.array(t, 2), "buffer": m.alloc(8), "object": object,
		"frames": &wire.Serialized{Frames: []wire.Frame{wire.BufferFrame(m.alloc(8))}},
		"list":   []any{1, m.array(t, 2)}, "map": map[string]any{"a": m.alloc(8)}, "struct": &pair{Left: m.array(t, 2)},
		"array of one": [1]*mem.Buffer{m.alloc(8)}, "tuple": wire.Tuple{m.array(t, 2)}, "dict": wire.NewDict("a",
			m.alloc(8)),
		"pointer to any": new(any(m.alloc(8))), "slice of maps": []map[string]*wire.DeviceArray{{"a": m.array(t, 2)}},
	}
}

// Release, DeviceBytes and Share find memory in every shape, once.
func TestCountedShapes(t *testing.T) {
	var m fakeMemory
	for name, x := range counts(t, &m) {
		v := NewValue(x)
		if got := v.DeviceBytes(); got != 8 {
			t.Errorf("%s: got %d bytes on the device, want 8", name, got)
		}
		w, err := v.Share()
		if err != nil {
			t.Fatal(err)
		}
		out := m.out
		v.Release()
		if m.out != out {
			t.Errorf("%s: memory released with the first of two values", name)
		}
		w.Release()
		if m.out != out-1 {
			t.Errorf("%s: %d buffers were released, want 1", name, out-m.out)
			m.out = out - 1
		}
	}
	m.gone(t, "all shapes")
	for _, x := range []any{nil, 7, "x", []int{1}, (*mem.Buffer)(nil), (*wire.DeviceArray)(nil),
		map[string]any{"a": nil},
		pair{}, (*pair)(nil), []any{(*wire.Object)(nil)}} {
		Release(x) // nothing to release
		if n := NewValue(x).DeviceBytes(); n != 0 {
			t.Errorf("%T: got %d bytes, want 0", x, n)
		}
	}
	// The traversal of a value that contains itself ends.
	loop := make([]any, 2)
	loop[0], loop[1] = loop, m.alloc(1)
	n := 0
	eachCounted(loop, func(any) { n++ })
	if n == 0 || n > maxDepth+1 {
		t.Errorf("a list in itself: its buffer is seen %d times", n)
	}
	loop[1].(*mem.Buffer).Release()
	if text := fmt.Sprint(m.out); text != "0" {
		t.Errorf("%s buffers are out", text)
	}
}
