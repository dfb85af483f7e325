package group

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// intBatch returns a batch of columns of integers.
func intBatch(columns ...[]int64) arrow.RecordBatch {
	fields := make([]arrow.Field, len(columns))
	arrays := make([]arrow.Array, len(columns))
	for i, c := range columns {
		b := array.NewInt64Builder(heap)
		b.AppendValues(c, nil)
		arrays[i] = b.NewArray()
		fields[i] = arrow.Field{Name: fmt.Sprint("c", i), Type: i64}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(len(columns[0])))
}

// TestManyGroups has more groups than a block, in several batches, by one and several keys.
func TestManyGroups(t *testing.T) {
	const n = 30000
	rng := rand.New(rand.NewPCG(1, 2))
	for name, value := range map[string]func(i int) int64{
		"ascending":  func(i int) int64 { return int64(i) },
		"descending": func(i int) int64 { return -int64(i) * 1000 },
		"both":       func(i int) int64 { return int64(i) * int64(1-i%2*2) * 1e6 },
		"random":     func(int) int64 { return int64(rng.Uint64()) },
		"extremes": func(i int) int64 {
			return []int64{math.MinInt64, math.MaxInt64, 0, -1, 1, math.MinInt64 + 1}[i%6]
		},
		"few":       func(int) int64 { return rng.Int64N(100) },
		"doublings": func(i int) int64 { return 1 << (i % 63) },
	} {
		for _, keys := range [][]int{{0}, {0, 1}, {0, 1, 2}} {
			var columns [3][]int64
			for i := range n {
				x := value(i)
				columns[0] = append(columns[0], x)
				columns[1] = append(columns[1], x/3)
				columns[2] = append(columns[2], rng.Int64N(1<<40))
			}
			b := intBatch(columns[:]...)
			g, err := New(b.Schema(), keys, []Spec{{Func: CountAll}}, Complete)
			if err != nil {
				t.Fatal(err)
			}
			for from := int64(0); from < n; from += 7000 {
				if err := g.Add(b.NewSlice(from, min(n, from+7000))); err != nil {
					t.Fatal(err)
				}
			}
			out, err := g.Finish()
			if err != nil {
				t.Fatal(err)
			}
			want := make(map[[3]int64]int64)
			for i := range n {
				var k [3]int64
				for _, c := range keys {
					k[c] = columns[c][i]
				}
				want[k]++
			}
			if int(out.NumRows()) != len(want) || g.Groups() != len(want) {
				t.Fatalf("%s by %v: got %d groups, want %d", name, keys, out.NumRows(), len(want))
			}
			for r := range int(out.NumRows()) {
				var k [3]int64
				for j, c := range keys {
					k[c] = out.Column(j).(*array.Int64).Value(r)
				}
				if got := out.Column(len(keys)).(*array.Int64).Value(r); got != want[k] {
					t.Fatalf("%s by %v: group %v has %d rows, want %d", name, keys, k, got, want[k])
				}
			}
		}
	}
}

// TestManyColumns has keys that need several stages.
func TestManyColumns(t *testing.T) {
	var types []arrow.DataType
	var keys []int
	for i := range 12 {
		types = append(types, []arrow.DataType{text, i64, f64, arrow.FixedWidthTypes.Timestamp_us}[i%4])
		keys = append(keys, i)
	}
	b := randomBatch(types, 5000, 100, 0.05, 1)
	specs := []Spec{{Func: CountAll, Name: "n"}}
	want := reference(b, keys, specs)
	equalLines(t, "one batch", lines(run(t, b.Schema(), keys, specs, Complete, b)), want)
	var slices []arrow.RecordBatch
	for from := int64(0); from < 5000; from += 300 {
		slices = append(slices, b.NewSlice(from, min(5000, from+300)))
	}
	equalLines(t, "slices", lines(run(t, b.Schema(), keys, specs, Complete, slices...)), want)
	k, err := newKeys(types)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.bind(b.Columns(), 5000); err != nil {
		t.Fatal(err)
	}
	ids := make([]uint32, block)
	for from := 0; from+block <= 5000; from += block {
		if err := k.find(from, ids); err != nil {
			t.Fatal(err)
		}
	}
	if len(k.stages) < 2 {
		t.Errorf("got %d stages, want several", len(k.stages))
	}
}

// TestTextLengths has texts of all lengths around those that are stored in other ways, at the end of their memory.
func TestTextLengths(t *testing.T) {
	b := array.NewStringBuilder(heap)
	for range 3 {
		for n := range 40 {
			b.Append(strings.Repeat("a", n))
			b.Append(strings.Repeat("a", n) + "\x00")
			b.Append("b" + strings.Repeat("a", n))
			b.AppendNull()
		}
	}
	a := b.NewArray()
	s := arrow.NewSchema([]arrow.Field{{Name: "s", Type: text, Nullable: true}}, nil)
	batch := array.NewRecordBatch(s, []arrow.Array{a}, int64(a.Len()))
	specs := []Spec{{Func: CountAll}, {Func: Min}, {Func: NUnique}}
	equalLines(t, "keys", lines(run(t, s, []int{0}, specs, Complete, batch)), reference(batch, []int{0}, specs))
	equalLines(t, "values", lines(run(t, s, nil, specs, Complete, batch)), reference(batch, nil, specs))
}

// TestEqualHashes has tables in which all entries have the same hash.
func TestEqualHashes(t *testing.T) {
	words := newWordTable()
	words.keep = 0
	values := newBytesTable()
	values.keep = 0
	rng := rand.New(rand.NewPCG(3, 4))
	wantWords, wantTexts := make(map[uint64]uint32), make(map[string]uint32)
	for range 4 {
		in, ids := make([]uint64, 500), make([]uint32, 500)
		var data []byte
		offsets := make([]int32, 501)
		for i := range in {
			in[i] = rng.Uint64N(300)
			data = append(data, strings.Repeat("t", int(in[i]%30))+fmt.Sprint(in[i])...)
			offsets[i+1] = int32(len(data))
		}
		words.find(in, ids)
		for i, w := range in {
			if id, ok := wantWords[w]; ok && id != ids[i] {
				t.Fatalf("word %d: got %d, want %d", w, ids[i], id)
			}
			wantWords[w] = ids[i]
		}
		find(values, offsets, data, nil, 0, ids)
		for i, id := range ids {
			s := string(data[offsets[i]:offsets[i+1]])
			if old, ok := wantTexts[s]; ok && old != id {
				t.Fatalf("text %q: got %d, want %d", s, id, old)
			}
			wantTexts[s] = id
			got := make([]byte, values.size(id))
			values.put(got, id)
			room := make([]byte, len(got)+16)
			values.put(room, id)
			if string(got) != s || string(room[:len(got)]) != s {
				t.Fatalf("value %d: got %q, want %q", id, got, s)
			}
		}
	}
	if len(words.keys) != len(wantWords) || len(values.entries) != len(wantTexts) {
		t.Errorf("got %d words and %d texts, want %d and %d", len(words.keys), len(values.entries), len(wantWords),
			len(wantTexts))
	}
}

// TestNullsLater has columns whose first batches have only nulls, or none.
func TestNullsLater(t *testing.T) {
	for i, dt := range keyTypes {
		types := []arrow.DataType{dt, i64}
		batches := []arrow.RecordBatch{randomBatch(types, 40, 20, 1, 1), randomBatch(types, 40, 20, 0, 2),
			randomBatch(types, 40, 20, 0.5, 3)}
		var all []string
		for order := range 3 {
			in := []arrow.RecordBatch{batches[order], batches[(order+1)%3], batches[(order+2)%3]}
			specs := []Spec{{Func: CountAll}, {Func: Sum, Column: 1}, {Func: Min, Column: 1}, {Func: NUnique}}
			for _, keys := range [][]int{{0}, {0, 1}} {
				got := fmt.Sprint(lines(run(t, in[0].Schema(), keys, specs, Complete, in...)))
				all = append(all, got)
				if n := len(all); n > 2 && all[n-3] != got {
					t.Errorf("type %d, %v: order %d of batches changes the result", i, dt, order)
				}
			}
		}
	}
}

func TestInvalidOffsets(t *testing.T) {
	b := table(t, []arrow.DataType{text}, `["abc", "def"]`)
	g, err := New(b.Schema(), []int{0}, nil, Complete)
	if err != nil {
		t.Fatal(err)
	}
	raw := b.Column(0).Data().Buffers()[1].Bytes()
	raw[4], raw[8] = 200, 250
	if err := g.Add(b); err == nil {
		t.Error("offsets outside of the bytes: got no error")
	}
}
