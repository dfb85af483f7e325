package scan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"go.millstream.dev/frame/internal/files"
	"go.millstream.dev/internal/wire/arrowipc"
)

// stream returns record batches with a dictionary as an IPC stream, and its index.
func stream(t *testing.T) ([]byte, *IPCIndex) {
	t.Helper()
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	s := arrow.NewSchema([]arrow.Field{{Name: "d", Type: dict}, {Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(s), ipc.WithDictionaryDeltas(false))
	for i := range 3 {
		b := array.NewRecordBuilder(heap, s)
		for j := range 4 {
			if err := b.Field(0).(*array.BinaryDictionaryBuilder).AppendString(fmt.Sprintf("%d-%d", i, j)); err != nil {
				t.Fatal(err)
			}
			b.Field(1).(*array.Int64Builder).Append(int64(10*i + j))
		}
		if err := w.Write(b.NewRecordBatch()); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ix, err := indexIPC(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), ix
}

// TestIndexIPC: one batch needs that batch and all dictionaries before it, in a stream and in a file.
func TestIndexIPC(t *testing.T) {
	b, ix := stream(t)
	if len(ix.Batches) != 3 || len(ix.Dictionaries) != 3 || ix.Schema.From != 0 {
		t.Fatalf("%+v", ix)
	}
	for i := range ix.Batches {
		spans := ix.spans(i, i+1)
		if len(spans) != 3+i || spans[0] != ix.Schema || spans[len(spans)-1] != ix.Batches[i] {
			t.Errorf("batch %d: got spans %v", i, spans)
		}
		part, err := readSpans(bytes.NewReader(b), spans)
		if err != nil {
			t.Fatal(err)
		}
		_, batches, err := arrowipc.Read(part)
		if err != nil || len(batches) != 1 {
			t.Fatalf("batch %d: %d batches, %v", i, len(batches), err)
		}
		for j := range 4 {
			if got := batches[0].Column(0).ValueStr(j); got != fmt.Sprintf("%d-%d", i, j) {
				t.Errorf("batch %d, row %d: got %q of another dictionary", i, j, got)
			}
		}
		release(batches)
	}
	for _, bad := range [][]files.Span{{{From: -1, To: 3}}, {{From: 5, To: 4}}} {
		if _, err := readSpans(bytes.NewReader(b), bad); err == nil ||
			!strings.Contains(err.Error(), "invalid range of bytes") {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, err := readSpans(bytes.NewReader(b), []files.Span{{From: 0, To: int64(len(b)) + 1}}); err == nil {
		t.Error("bytes beyond the end: got no error")
	}
}

// TestHostileIPC: a file that is truncated anywhere, or has wrong lengths, is an error with a position, and never a
// panic; complete batches before the truncation are not read either.
func TestHostileIPC(t *testing.T) {
	b, ix := stream(t)
	index := func(b []byte) (*IPCIndex, error) { return indexIPC(bytes.NewReader(b), int64(len(b))) }
	ends := map[int64]bool{ix.Schema.To: true}
	for _, s := range slices.Concat(ix.Dictionaries, ix.Batches) {
		ends[s.To] = true
	}
	for n := range b {
		got, err := index(b[:n])
		whole := ends[int64(n)] // at the end of a message
		if whole != (err == nil) {
			t.Errorf("%d bytes of %d: %v, want an error: %t", n, len(b), err, !whole)
		}
		if err == nil && len(got.Batches) > len(ix.Batches) {
			t.Errorf("%d bytes: %d batches", n, len(got.Batches))
		}
	}
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"nothing", nil, "no schema"},
		{"an end", make([]byte, 8), "no schema"},
		{"text", []byte("name,age\nme,3\n"), "not Arrow IPC data, or truncated"},
		{"much metadata", binary.LittleEndian.AppendUint32([]byte{255, 255, 255, 255}, maxMetadata+1),
			"metadata at byte 0 has length"},
		{"no schema first", b[ix.Dictionaries[0].From:], "the schema must come first, and once"},
		{"two schemas", slices.Concat(b[:ix.Schema.To], b[:ix.Schema.To]), "the schema must come first, and once"},
	} {
		if _, err := index(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for i := range 2000 { // any byte may be any other
		c := slices.Clone(b)
		c[(i*7919)%len(c)] ^= byte(1 + i%255)
		if ix, err := index(c); err == nil {
			for j := range ix.Batches {
				if part, err := readSpans(bytes.NewReader(c), ix.spans(j, j+1)); err == nil {
					_, batches, _ := arrowipc.Read(part)
					release(batches)
				}
			}
		}
	}
}
