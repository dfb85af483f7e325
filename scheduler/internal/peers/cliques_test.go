package peers

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
)

// cliques returns the extensions of a heartbeat.
func cliques(list ...any) any { return msgpack.MapOf("millstream", msgpack.MapOf("cliques", list)) }

func TestReadCliques(t *testing.T) {
	ops := msgpack.MapOf("AllReduce", []any{int64(2), int64(16), 1.5}, "bad", []any{int64(-1), int64(1), 1.0},
		"nan", []any{int64(1), int64(1), math.NaN()}, "short", []any{int64(1)},
		int64(3), []any{int64(1), int64(1), 1.0})
	got := ReadCliques(cliques([]any{"id", int64(1), int64(2), "ucx", "", ops}, "x", []any{"id"},
		[]any{"", int64(0), int64(1), "", "", nil}, []any{"id", int64(-1), int64(1), "", "", nil},
		[]any{"id", "x", int64(1), "", "", nil}, []any{"id", int64(0), int64(1 << 40), "", "", nil},
		[]any{"past", int64(0), int64(1), "", "", nil, 12.5}, []any{"bad", int64(0), int64(1), "", "", nil, math.NaN()},
		[]any{strings.Repeat("é", 1000), int64(0), int64(1), "tcp", strings.Repeat("\xff", 1000), nil}))
	want := CliqueReport{ID: "id", Rank: 1, Size: 2, Backend: "ucx", Ops: []CliqueOp{{"AllReduce", 2, 16, 1.5}}}
	if len(got) != 4 || !reflect.DeepEqual(got[0], want) || len(got[3].ID) != maxCliqueText {
		t.Errorf("cliques: got %+v, want %+v and a long one", got, want)
	}
	if len(got) == 4 && (got[0].End != 0 || got[1].End != 12.5 || got[2].End != 0) {
		t.Errorf("ends: got %v, %v and %v, want 0, 12.5 and 0", got[0].End, got[1].End, got[2].End)
	}
	for _, v := range []any{nil, "x", msgpack.Map{}, msgpack.MapOf("millstream", 1)} {
		if got := ReadCliques(v); got != nil {
			t.Errorf("cliques of %v: got %v, want none", v, got)
		}
	}
	many := make([]any, 10*maxCliques)
	var manyOps msgpack.Map
	for i := range 10 * maxCliqueOps {
		manyOps = append(manyOps, msgpack.Pair{Key: strings.Repeat("o", i+1), Value: []any{int64(1), int64(1), 1.0}})
	}
	for i := range many {
		many[i] = []any{"id", int64(0), int64(1), "", "", manyOps}
	}
	got = ReadCliques(cliques(many...))
	if len(got) != maxCliques || len(got[0].Ops) != maxCliqueOps {
		t.Errorf("many cliques: got %d with %d operations, want %d and %d", len(got), len(got[0].Ops), maxCliques,
			maxCliqueOps)
	}
}

func FuzzReadCliques(f *testing.F) {
	b, err := msgpack.Append(nil, cliques([]any{"id", int64(1), int64(2), "ucx", "", msgpack.Map{}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := msgpack.Decode(b)
		if err != nil {
			return
		}
		for _, c := range ReadCliques(v) {
			if len(c.ID) > 3*maxCliqueText || len(c.Ops) > maxCliqueOps || c.Rank < 0 {
				t.Errorf("clique: got %+v", c)
			}
		}
	})
}
