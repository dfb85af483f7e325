package framebench

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// batchOf returns a batch of rows as JSON.
func batchOf(t *testing.T, json string, types ...arrow.DataType) arrow.RecordBatch {
	t.Helper()
	var fields []arrow.Field
	for i, typ := range types {
		fields = append(fields, field(string(rune('a'+i)), typ))
	}
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schemaOf(fields...), strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Release)
	return b
}

var (
	i64, i32 = arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32
	f64      = arrow.PrimitiveTypes.Float64
	str      = arrow.BinaryTypes.String
)

// TestDigest checks which differences of results are noticed, by checksums and row by row.
func TestDigest(t *testing.T) {
	base := batchOf(t, `[{"a":1,"b":"x","c":0.5},{"a":2,"b":null,"c":1.5},{"a":3,"b":"z","c":2.5}]`, i64, str, f64)
	for _, c := range []struct {
		about, json string
		types       []arrow.DataType
		same        bool
	}{
		{"another order and narrower types", `[{"a":3,"b":"z","c":2.5},{"a":1,"b":"x","c":0.5},{"a":2,"b":null,"c":1.5}]`,
			[]arrow.DataType{i32, arrow.BinaryTypes.LargeString, f64}, true},
		{"the last digit of a float", `[{"a":1,"b":"x","c":0.5000000000001},{"a":2,"b":null,"c":1.5},{"a":3,"b":"z","c":2.5}]`,
			[]arrow.DataType{i64, str, f64}, true},
		{"an integer", `[{"a":1,"b":"x","c":0.5},{"a":2,"b":null,"c":1.5},{"a":4,"b":"z","c":2.5}]`,
			[]arrow.DataType{i64, str, f64}, false},
		{"integers of two rows", `[{"a":2,"b":"x","c":0.5},{"a":1,"b":null,"c":1.5},{"a":3,"b":"z","c":2.5}]`,
			[]arrow.DataType{i64, str, f64}, false},
		{"floats of two rows", `[{"a":1,"b":"x","c":1.5},{"a":2,"b":null,"c":0.5},{"a":3,"b":"z","c":2.5}]`,
			[]arrow.DataType{i64, str, f64}, false},
		{"a null", `[{"a":1,"b":"x","c":0.5},{"a":2,"b":"","c":1.5},{"a":3,"b":"z","c":2.5}]`,
			[]arrow.DataType{i64, str, f64}, false},
		{"a null float", `[{"a":1,"b":"x","c":0.5},{"a":2,"b":null,"c":null},{"a":3,"b":"z","c":2.5}]`,
			[]arrow.DataType{i64, str, f64}, false},
		{"a text", `[{"a":1,"b":"y","c":0.5},{"a":2,"b":null,"c":1.5},{"a":3,"b":"z","c":2.5}]`,
			[]arrow.DataType{i64, str, f64}, false},
		{"a missing row", `[{"a":1,"b":"x","c":0.5},{"a":2,"b":null,"c":1.5}]`, []arrow.DataType{i64, str, f64}, false},
		{"a missing column", `[{"a":1,"b":"x"},{"a":2,"b":null},{"a":3,"b":"z"}]`, []arrow.DataType{i64, str}, false},
	} {
		other := batchOf(t, c.json, c.types...)
		var x, y Digest
		if err := x.add(base); err != nil {
			t.Fatal(err)
		}
		// In two parts, which are added.
		for from := range other.NumRows() {
			var part Digest
			slice := other.NewSlice(from, from+1)
			if err := part.add(slice); err != nil {
				t.Fatal(err)
			}
			slice.Release()
			if err := y.merge(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.equal(y); (err == nil) != c.same {
			t.Errorf("%s, checksums: got %v, want equal %v", c.about, err, c.same)
		}
		if err := compareRows(rowsIn(base), rowsIn(other)); (err == nil) != c.same {
			t.Errorf("%s, rows: got %v, want equal %v", c.about, err, c.same)
		}
	}
	var d Digest
	list := batchOf(t, `[{"a":[1]}]`, arrow.ListOf(i64))
	if err := d.add(list); err == nil || !strings.Contains(err.Error(), "list") {
		t.Errorf("a list: got %v, want an error", err)
	}
}

// TestInOrder checks that rows in a wrong order are noticed.
func TestInOrder(t *testing.T) {
	for _, c := range []struct {
		json string
		ok   bool
	}{
		{`[{"a":2,"b":"x"},{"a":10,"b":"y"},{"a":10,"b":"y"}]`, true}, {`[{"a":10,"b":"x"},{"a":2,"b":"y"}]`, false},
	} {
		b := batchOf(t, c.json, i64, str)
		if err := inOrder(rowsIn(b), b.Schema(), []string{"a"}); (err == nil) != c.ok {
			t.Errorf("%s: got %v", c.json, err)
		}
		if err := inOrder(rowsIn(b), b.Schema(), []string{"b"}); err != nil {
			t.Errorf("%s: got %v", c.json, err)
		}
		if err := inOrder(rowsIn(b), b.Schema(), []string{"c"}); err == nil {
			t.Error("a column that does not exist is in order")
		}
	}
}

// TestPermutation checks that every number occurs once.
func TestPermutation(t *testing.T) {
	for _, n := range []int{1, 2, 3, 64, 1000} {
		seen := make([]bool, n)
		p := permute(7, n)
		for i := range n {
			if v := p.at(uint64(i)); seen[v] {
				t.Fatalf("%d of %d occurs twice", v, n)
			} else {
				seen[v] = true
			}
		}
	}
}

// TestFiles checks that the parts of a table are its rows.
func TestFiles(t *testing.T) {
	for _, parts := range []int{1, 3, 100} {
		tables := mergeTables(Options{Rows: 50, Partitions: parts, FracMatch: 0.5}, merge.cases[:1])
		if len(tables) != 2 {
			t.Fatalf("got %d tables, want 2", len(tables))
		}
		dir := filepath.Join(t.TempDir(), "table")
		size, err := tables[1].write(dir, 2)
		if err != nil || size != 50*16 {
			t.Fatalf("got %d bytes, %v", size, err)
		}
		paths, err := filepath.Glob(filepath.Join(dir, "*.arrow"))
		if err != nil || len(paths) != min(parts, 50) {
			t.Fatalf("got %d files, %v", len(paths), err)
		}
		var got, want Digest
		if err := readFiles(paths, got.add); err != nil {
			t.Fatal(err)
		}
		whole := tables[1].batch(0, 50)
		if err := want.add(whole); err != nil {
			t.Fatal(err)
		}
		whole.Release()
		if err := got.equal(want); err != nil {
			t.Errorf("%d parts: %v", parts, err)
		}
		if _, err := tables[1].write(dir, 2); err == nil {
			t.Error("a table was written twice")
		}
		if err := readFiles([]string{filepath.Join(dir, "none")}, got.add); err == nil {
			t.Error("a missing file was read")
		}
	}
}
