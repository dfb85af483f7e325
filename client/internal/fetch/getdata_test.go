package fetch

import (
	"io"
	"log/slog"
	"os"
	"testing"

	"go.millstream.dev/client/internal/link"
	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/wire"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// newTracker returns the state of a client without keys.
func newTracker() *tracker.Tracker {
	return tracker.New(tracker.Config{ID: "C", Registry: func() string { return "" },
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

// state returns the state of a key.
func state(t testing.TB, key string) *tracker.State {
	t.Helper()
	states, err := newTracker().Hold([]task.Key{task.NewKey(key)})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

func encoded(t testing.TB, v any) *wire.Message {
	t.Helper()
	m, err := wire.Encode(v, wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func FuzzTakeData(f *testing.F) {
	s, err := task.EncodeValue([]float64{1})
	if err != nil {
		f.Fatal(err)
	}
	m := encoded(f, wire.NewDict("status", "OK", "data", wire.NewDict("b", s, "a", 5)))
	f.Add(m.Body(), m.Frames[1].Bytes(), m.Frames[2].Bytes())
	f.Fuzz(func(t *testing.T, body, header, frame []byte) {
		keys := []*tracker.State{state(t, "a"), state(t, "b"), state(t, "a")}
		m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(body), wire.HeapFrame(header), wire.HeapFrame(frame)}}
		if link.ReplyError("get_data", "w", m) != nil {
			return
		}
		got := make([]int, len(keys))
		missing, err := takeData(m, keys, []int{0, 1, 2}, func(i int, v Value) error {
			got[i]++
			_, err := As[int](v)
			return err
		})
		if err != nil {
			return
		}
		for _, i := range missing {
			got[i]++
		}
		for i, n := range got {
			if n != 1 {
				t.Fatalf("result %d came or was missing %d times", i, n)
			}
		}
	})
}

func TestTakeDataInAnyOrder(t *testing.T) {
	keys := []*tracker.State{state(t, "a"), state(t, "b"), state(t, "c")}
	m := encoded(t, wire.NewDict("status", "OK", "data", wire.NewDict("b", 2, "a", 1, "stranger", 9)))
	got := make([]int, 3)
	missing, err := takeData(m, keys, []int{0, 1, 2}, func(i int, v Value) (err error) {
		got[i], err = As[int](v)
		return err
	})
	if err != nil || got[0] != 1 || got[1] != 2 || len(missing) != 1 || missing[0] != 2 {
		t.Errorf("got %v, missing %v: %v", got, missing, err)
	}
}
