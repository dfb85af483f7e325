package frame

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"go.millstream.dev/cluster"
	"go.millstream.dev/frame/internal/scan"
)

// ipcBytes returns batches in the stream format, or in the file format.
func ipcBytes(t testing.TB, file bool, batches ...arrow.RecordBatch) []byte {
	t.Helper()
	var out bytes.Buffer
	var w interface {
		Write(arrow.RecordBatch) error
		Close() error
	}
	w = ipc.NewWriter(&out, ipc.WithSchema(batches[0].Schema()))
	if file {
		var err error
		if w, err = ipc.NewFileWriter(&out, ipc.WithSchema(batches[0].Schema())); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range batches {
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func save(t testing.TB, path string, b []byte) string {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// dictionaries returns a batch with a column of a dictionary type.
func dictionaries(values ...string) arrow.RecordBatch {
	t := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	b := array.NewRecordBuilder(heap, arrow.NewSchema([]arrow.Field{{Name: "d", Type: t}}, nil))
	defer b.Release()
	for _, v := range values {
		if err := b.Field(0).(*array.BinaryDictionaryBuilder).AppendString(v); err != nil {
			panic(err)
		}
	}
	return b.NewRecordBatch()
}

func TestIPCFiles(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	dir := t.TempDir()
	f := peopleFrame(t, ctx, c)
	paths := must[[]string](t)(f.WriteIPC(ctx, filepath.Join(dir, "out", "people"), WriteOptions{}))
	if len(paths) != 4 || !strings.HasPrefix(filepath.Base(paths[3]), "part-00003-") {
		t.Errorf("paths %v", paths)
	}
	whole := batchOf(0, 100)
	back := must[*Frame](t)(ReadIPC(ctx, c, filepath.Join(dir, "out", "people")))
	same(t, ctx, "folder", back, whole)
	if back.NumPartitions() != 4 {
		t.Errorf("%d partitions", back.NumPartitions())
	}
	same(t, ctx, "pattern", must[*Frame](t)(ReadIPC(ctx, c, filepath.Join(dir, "out", "people",
		"part-0000[01]-*.arrow"))), batchOf(0, 40))

	for _, file := range []bool{true, false} {
		path := save(t, filepath.Join(dir, "several.arrow"), ipcBytes(t, file, batchOf(0, 7), batchOf(7, 7),
			batchOf(7, 100)))
		several := must[*Frame](t)(ReadIPC(ctx, c, path))
		same(t, ctx, "several", several, whole)
		if several.NumPartitions() != 3 {
			t.Errorf("%d partitions", several.NumPartitions())
		}
	}
	// A schema without batches is a frame with one empty partition.
	var none bytes.Buffer
	if err := ipc.NewWriter(&none, ipc.WithSchema(people)).Close(); err != nil {
		t.Fatal(err)
	}
	same(t, ctx, "no batch", must[*Frame](t)(ReadIPC(ctx, c, save(t, filepath.Join(dir, "none.arrow"), none.Bytes()))),
		emptyBatch(people))
	// Dictionaries are read with each batch that needs them.
	path := save(t, filepath.Join(dir, "dict.arrow"), ipcBytes(t, true, dictionaries("a", "b", "a"),
		dictionaries("a", "b")))
	d := must[*Frame](t)(ReadIPC(ctx, c, path))
	batches := must[[]arrow.RecordBatch](t)(d.Collect(ctx))
	if len(batches) != 2 || batches[1].Column(0).(*array.Dictionary).ValueStr(1) != "b" {
		t.Errorf("dictionaries %v", batches)
	}
}

func TestIPCErrors(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	dir := t.TempDir()
	good := ipcBytes(t, true, batchOf(50, 100), batchOf(0, 50))
	at := func(name string, b []byte) string { return save(t, filepath.Join(dir, name), b) }
	damaged := bytes.Clone(good)
	// The first offsets of the strings of the second batch are changed to point outside.
	i := bytes.LastIndex(damaged, []byte{0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0})
	if i < 0 {
		i = bytes.LastIndex(damaged, []byte{0, 0, 0, 0, 1, 0, 0, 0})
	}
	copy(damaged[i+4:], []byte{0xff, 0xff, 0xff, 0x7f})
	if err := os.Mkdir(filepath.Join(dir, "mixed"), 0o700); err != nil {
		t.Fatal(err)
	}
	at("mixed/0.arrow", good)
	at("mixed/1.arrow", ipcBytes(t, true, dictionaries("a")))
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path string
		kind error
		text []string
	}{
		{at("cut.arrow", good[:len(good)/2]), ErrCorrupt, []string{"cut.arrow", "truncated"}},
		{at("text.arrow", []byte("hello, this is no Arrow file at all")), ErrCorrupt, []string{"text.arrow"}},
		{at("nothing.arrow", nil), ErrCorrupt, []string{"nothing.arrow", "no schema"}},
		{at("damaged.arrow", damaged), ErrCorrupt, []string{"partition 1", "damaged.arrow"}},
		{filepath.Join(dir, "mixed"), ErrSchema, []string{"partition 2", "1.arrow", "0.arrow"}},
		{filepath.Join(dir, "empty"), nil, []string{"no file with extension .arrow"}},
		{filepath.Join(dir, "missing.arrow"), nil, []string{"missing.arrow", "no such file"}},
		{filepath.Join(dir, "missing-*.arrow"), nil, []string{"no file matches"}},
		{"", nil, []string{"no path"}},
	} {
		f, err := ReadIPC(ctx, c, tc.path)
		if err == nil {
			err = f.Persist(ctx)
		}
		if err == nil || tc.kind != nil && !errors.Is(err, tc.kind) {
			t.Errorf("%s: %v", tc.path, err)
			continue
		}
		for _, text := range tc.text {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got %v, want %q", tc.path, err, text)
			}
		}
	}
	// A file that changes after its frame was made is detected.
	path := at("changes.arrow", good)
	src := must[*scan.Source](t)(scan.Open(ctx, path, scan.Options{Format: scan.IPC}))
	at("changes.arrow", good[:len(good)-1])
	_, err := readWhole(ctx, src.Splits[1])
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "partition 1") ||
		!strings.Contains(err.Error(), "changed") {
		t.Errorf("changed file: got %v", err)
	}
	if _, err := peopleFrame(t, ctx, c).WriteIPC(ctx, filepath.Join(path, "below-a-file"),
		WriteOptions{}); err == nil || !strings.Contains(err.Error(), "changes.arrow") {
		t.Errorf("folder that cannot be created: got %v", err)
	}
}
