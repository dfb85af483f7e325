package sidecar

import (
	"fmt"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// encoded returns values as msgpack.
func encoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := msgpack.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadCounts(t *testing.T) {
	got, err := readCounts(encoded(t, []any{[]any{1.5, msgpack.MapOf("inc", 2, "dec", -3)}, []any{2, msgpack.Map{}}}))
	if want := "[{1.5 2 map[dec:0 inc:2]} {2 0 map[]}]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
	many := msgpack.Map{}
	for i := range maxCyclePrefixes + 1 {
		many = append(many, msgpack.Pair{Key: fmt.Sprint(i), Value: 1})
	}
	for name, v := range map[string]any{"no list": 1, "short": []any{[]any{1}}, "no time": []any{[]any{"x",
		msgpack.Map{}}},
		"no map": []any{[]any{1, 2}}, "no count": []any{[]any{1, msgpack.MapOf("a", "b")}},
		"cycles": make([]any, maxProfileCycles+1), "prefixes": []any{[]any{1, many}}} {
		if got, err := readCounts(encoded(t, v)); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
}

func TestReadStacks(t *testing.T) {
	tuple := []any{"x", 1}
	got, err := readStacks(encoded(t, []any{[]any{"a", []any{"line 1", "line 2"}}, []any{tuple, []any{}}}))
	want := fmt.Sprint(msgpack.Map{{Key: "a", Value: []any{"line 1", "line 2"}}, {Key: tuple, Value: []any{}}})
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
	for name, v := range map[string]any{"no list": 1, "short": []any{[]any{"a"}}, "no lines": []any{[]any{"a", 1}},
		"no text": []any{[]any{"a", []any{1}}}, "no key": []any{[]any{msgpack.Map{}, []any{}}}} {
		if got, err := readStacks(encoded(t, v)); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
	long := make([]any, maxCallStackLines+5)
	for i := range long {
		long[i] = "line"
	}
	got, err = readStacks(encoded(t, []any{[]any{"a", long}}))
	if lines, _ := got[0].Value.([]any); err != nil || len(lines) != maxCallStackLines {
		t.Errorf("got %d lines, %v, want %d", len(lines), err, maxCallStackLines)
	}
}

// Without a process there are no profiles and no stacks, and none is started for them.
func TestProfileWithoutProcess(t *testing.T) {
	s := New(Config{})
	if counts, err := s.ProfileCounts(t.Context(), 0, nil); err != nil || counts != nil {
		t.Errorf("counts: got %v, %v, want none", counts, err)
	}
	if stacks, err := s.CallStacks(t.Context(), []task.Key{task.NewKey("a")}); err != nil || stacks != nil {
		t.Errorf("stacks: got %v, %v, want none", stacks, err)
	}
}

func FuzzProfileReplies(f *testing.F) {
	f.Add(encoded(f, []any{[]any{1.5, msgpack.MapOf("inc", 2)}}))
	f.Add(encoded(f, []any{[]any{"a", []any{"line 1"}}}))
	f.Fuzz(func(t *testing.T, body []byte) {
		counts, _ := readCounts(body)
		for _, c := range counts {
			if c.Count < 0 {
				t.Errorf("got a count of %d", c.Count)
			}
		}
		stacks, _ := readStacks(body)
		if _, err := msgpack.Append(nil, stacks); err != nil {
			t.Errorf("stacks %v: %v", stacks, err)
		}
	})
}
