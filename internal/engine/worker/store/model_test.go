package store

import (
	"bytes"
	"context"
	"os"
	"testing"

	"pgregory.net/rapid"

	"go.millstream.dev/internal/task"
)

// TestModel compares the store with a map, for random operations.
func TestModel(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		s, err := New(Config{Target: int64(rapid.IntRange(0, 3).Draw(rt, "target")) * 1000, Dir: dir,
			Compression: "auto", Logger: quiet()})
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		model := map[task.Key]byte{}
		var held []*Entry
		want := map[*Entry]byte{}
		check := func(e *Entry) {
			v, err := e.Open()
			if err != nil {
				rt.Fatal(err)
			}
			if b, err := task.As[[]byte](v); err != nil || len(b) != 900 || b[0] != want[e] {
				rt.Fatalf("%v: %v, want %d: %v", e.Key(), b[:1], want[e], err)
			}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			k := key(rapid.IntRange(0, 5).Draw(rt, "key"))
			switch rapid.IntRange(0, 6).Draw(rt, "op") {
			case 0, 1:
				b := bytes.Repeat([]byte{byte(rapid.IntRange(0, 255).Draw(rt, "byte"))}, 900)
				model[k] = b[0]
				s.Put(k, task.NewValue(b), 900)
			case 2:
				delete(model, k)
				s.Delete(k)
			case 3:
				e := s.Hold(k)
				if b, ok := model[k]; ok != (e != nil) {
					rt.Fatalf("%v: got present %v, want %v", k, e != nil, ok)
				} else if ok {
					want[e] = b
					held = append(held, e)
					check(e)
				}
			case 4:
				if len(held) > 0 {
					check(held[0])
					s.Release(held[0])
					held = held[1:]
				}
			case 5:
				s.Evict()
			case 6:
				if err := s.MakeRoom(context.Background(), 500); err != nil {
					rt.Fatal(err)
				}
			}
		}
		for _, e := range held {
			check(e)
		}
		s.ReleaseAll(held)
		if s.Len() != len(model) {
			rt.Fatalf("%d results, want %d", s.Len(), len(model))
		}
		var sum int64
		for k, b := range model {
			e := s.Hold(k)
			want[e] = b
			check(e)
			s.Release(e)
			sum += 900
		}
		quiesce(rt, s)
		if sp := s.Spilled(); s.Memory()+sp.Memory != sum {
			rt.Fatalf("%d in memory and %d on disk, want %d", s.Memory(), sp.Memory, sum)
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got files %v, %v left, want none", left, err)
	}
}
