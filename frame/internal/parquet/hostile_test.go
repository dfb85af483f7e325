package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// consume reads a file, drops its batches, and returns the number of rows.
func consume(b []byte) (rows int64, err error) { return consumeRows(b, 1<<20) }

// consumeRows reads a file until it has had more than so many rows.
func consumeRows(b []byte, most int64) (rows int64, err error) {
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return 0, err
	}
	opts := ReadOptions{Schema: f.Schema(), Rows: 4096}
	for i := range f.Schema().NumFields() {
		opts.Columns = append(opts.Columns, i)
	}
	for i := range f.RowGroups() {
		opts.Groups = append(opts.Groups, i)
		for c := range opts.Columns {
			f.Stats(i, c)
		}
	}
	err = f.Read(opts, func(b arrow.RecordBatch) error {
		defer b.Release()
		for _, c := range b.Columns() {
			for i := range min(c.Len(), 10) {
				_ = c.ValueStr(i)
			}
		}
		if rows += b.NumRows(); rows > most {
			return fmt.Errorf("enough")
		}
		return nil
	})
	return rows, err
}

// TestTruncated: a file that ends anywhere is an error.
func TestTruncated(t *testing.T) {
	b := writeFile(t, WriteOptions{GroupRows: 10}, batchOf(rand.New(rand.NewPCG(1, 1)), 30, 5, 0.3))
	for n := range b {
		if _, err := consume(b[:n]); err == nil {
			t.Errorf("%d bytes of %d: got no error", n, len(b))
		}
	}
	if rows, err := consume(b); err != nil || rows != 30 {
		t.Errorf("whole file: got %d rows, %v", rows, err)
	}
}

// TestDamaged: any byte may be any other: the result is rows or an error, with little memory.
func TestDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, opts := range []WriteOptions{{GroupRows: 40}, {Codec: Zstd}, {Codec: Gzip}, {Codec: LZ4},
		{Codec: Uncompressed, NoDictionary: true}} {
		good := writeFile(t, opts, batchOf(rng, 100, 20, 0.3))
		b := make([]byte, len(good))
		for i := range 200 {
			copy(b, good)
			at := rng.IntN(len(b))
			if i%2 == 0 { // the footer decides most
				at = len(b) - 1 - rng.IntN(min(len(b), int(binary.LittleEndian.Uint32(b[len(b)-8:]))))
			}
			for k := range 1 + rng.IntN(3) {
				b[min(at+k, len(b)-1)] ^= byte(1 + rng.IntN(255))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = consume(b)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 600<<20 {
				t.Errorf("%v, byte %d: %d MiB allocated for a file of %d bytes", opts, at, used>>20, len(b))
			}
		}
	}
}

// TestBombs: sizes that a file claims do not decide how much memory is allocated.
func TestBombs(t *testing.T) {
	text := func(n int) arrow.RecordBatch {
		b := array.NewRecordBuilder(heap, arrow.NewSchema([]arrow.Field{{Name: "s",
			Type: arrow.BinaryTypes.String}}, nil))
		for range n {
			b.Field(0).(*array.StringBuilder).Append(strings.Repeat("x", 1<<20))
		}
		return b.NewRecordBatch()
	}
	// A dictionary of one long text: batches end early, so that they stay small.
	one := text(1)
	const texts = 200 // more than three batches
	many := make([]arrow.Array, texts)
	for i := range many {
		many[i] = one.Column(0)
	}
	all, err := array.Concatenate(many, heap)
	if err != nil {
		t.Fatal(err)
	}
	b := writeFile(t, WriteOptions{Codec: Zstd, GroupBytes: 1 << 40}, array.NewRecordBatch(one.Schema(),
		[]arrow.Array{all}, texts))
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var rows int64
	err = f.Read(ReadOptions{Groups: []int{0}, Columns: []int{0}, Schema: f.Schema(), Rows: 65536},
		func(r arrow.RecordBatch) error {
			if n := len(r.Column(0).(*array.String).ValueBytes()); n > 2*batchBytes {
				t.Errorf("batch of %d bytes", n)
			}
			rows += r.NumRows()
			r.Release()
			return nil
		})
	if err != nil || rows != texts {
		t.Errorf("got %d rows, %v, want %d", rows, err, texts)
	}
	for _, c := range []struct {
		codec int32
		n     int
		want  string
	}{
		{codecNone, 10, "claims 10 bytes"}, {codecSnappy, 1 << 20, "claims"}, {codecGzip, 1 << 20, "claims"},
		{codecLZ4Raw, 1 << 20, "claims"}, {codecBrotli, 1, "brotli is not supported"}, {99, 1, "codec 99"},
	} {
		if _, err := decompress(c.codec, nil, []byte{1, 2, 3}, c.n); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("codec %d: got %v, want %q", c.codec, err, c.want)
		}
	}
}

// TestNotParquet: other files are errors that say so.
func TestNotParquet(t *testing.T) {
	good := writeFile(t, WriteOptions{}, batchOf(rand.New(rand.NewPCG(1, 1)), 3, 5, 0))
	encrypted := bytes.Clone(good)
	copy(encrypted[len(encrypted)-4:], "PARE")
	long := bytes.Clone(good)
	binary.LittleEndian.PutUint32(long[len(long)-8:], 1<<31)
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{nil, "file of 0 bytes is not a Parquet file"}, {[]byte("PAR1PAR1"), "not a Parquet file"},
		{[]byte("id,name\n1,a\n2,b\n"), `does not end with "PAR1"`}, {encrypted, "encrypted files are not supported"},
		{long, "footer of 2147483648 bytes"},
		{append([]byte("PAR1"), 0, 0, 0, 0, 'P', 'A', 'R', '1'), "invalid metadata"},
	} {
		if _, err := Open(bytes.NewReader(c.b), int64(len(c.b))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// FuzzRead: reading any file returns batches or an error. Seeds are files of one column, so that they are short.
func FuzzRead(f *testing.F) {
	rng := rand.New(rand.NewPCG(7, 8))
	options := []WriteOptions{{}, {Codec: Zstd, GroupRows: 3}, {Codec: Gzip}, {Codec: LZ4},
		{Codec: Uncompressed, NoDictionary: true}}
	all := batchOf(rng, 5, 5, 0.3)
	for i, c := range all.Columns() {
		one := array.NewRecordBatch(arrow.NewSchema(all.Schema().Fields()[i:i+1], nil), []arrow.Array{c}, 5)
		f.Add(writeFile(f, options[i%len(options)], one))
	}
	nested, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(nested) == 0 {
		f.Fatalf("no files of nested columns: %v", err)
	}
	for _, path := range nested {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		if rows, err := consume(b); err != nil || rows != 3 {
			f.Fatalf("%s: got %d rows, %v, want 3", path, rows, err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = consumeRows(b, 1<<13) })
}

// FuzzThrift: metadata of any bytes is read without a panic.
func FuzzThrift(f *testing.F) {
	b := writeFile(f, WriteOptions{}, batchOf(rand.New(rand.NewPCG(1, 1)), 3, 5, 0))
	n := int(binary.LittleEndian.Uint32(b[len(b)-8:]))
	f.Add(b[len(b)-8-n : len(b)-8])
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = readMetadata(b)
		_, _, _ = readPageHeader(b)
	})
}
