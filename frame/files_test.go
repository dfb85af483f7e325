package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"go.millstream.dev/internal/wire/arrowipc"
)

// TestList: a path is a file, a folder's files with the extensions, or a pattern; hidden files and folders are left
// out.
func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.csv", "a.csv", "c.arrow", ".hidden.csv", "_meta.csv", "sub/d.csv", "sub2/e.csv",
		"folder.csv/x"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path string
		ext  []string
		want string
		err  string
	}{
		{"a.csv", []string{".arrow"}, "a.csv", ""}, // a file is used as it is
		{"", []string{".csv"}, "a.csv b.csv", ""},
		{"", []string{".csv", ".arrow"}, "a.csv b.csv c.arrow", ""},
		{"", []string{".txt"}, "", "has no file with extension .txt"},
		{"", []string{".txt", ".doc"}, "", ".txt or .doc"},
		{"*.csv", []string{".csv"}, ".hidden.csv _meta.csv a.csv b.csv", ""},
		{"[ab].csv", []string{".csv"}, "a.csv b.csv", ""},
		{"sub*/*.csv", []string{".csv"}, "sub/d.csv sub2/e.csv", ""},
		{"?.none", []string{".csv"}, "", "no file matches"},
		{"[", []string{".csv"}, "", "frame: pattern"},
		{"missing.csv", []string{".csv"}, "", "no such file"},
	} {
		got, err := list(filepath.Join(dir, c.path), c.ext)
		var names []string
		for _, p := range got {
			rel, _ := filepath.Rel(dir, p)
			names = append(names, rel)
		}
		if strings.Join(names, " ") != c.want || (err == nil) != (c.err == "") || err != nil &&
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("%q of %v: %v, %v; want %q, %q", c.path, c.ext, names, err, c.want, c.err)
		}
	}
	if _, err := list("", nil); err == nil || err.Error() != "frame: no path" {
		t.Errorf("no path: %v", err)
	}
}

// TestStamps: a file that was changed, replaced or removed since its head was read is not read.
func TestStamps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	was := stampOf(info)
	open := func() error {
		f, err := openStamped(path, was, 7)
		if err == nil {
			_ = f.Close()
		}
		return err
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	want := func(what, text string) {
		t.Helper()
		var e *Error
		if err := open(); !errors.As(err, &e) || !errors.Is(err, ErrCorrupt) || e.Partition != 7 || e.Path != path ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q of partition 7", what, err, text)
		}
	}
	// Other content of the same length, a moment later.
	later := info.ModTime().Add(time.Nanosecond)
	if err := errors.Join(os.WriteFile(path, []byte("54321"), 0o600), os.Chtimes(path, later, later)); err != nil {
		t.Fatal(err)
	}
	want("changed in place", "changed since the frame was made")
	if err := errors.Join(os.WriteFile(path, []byte("123456"), 0o600),
		os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	want("longer", "changed since the frame was made")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want("removed", "removed or replaced since the frame was made")
}

// TestCreate: a file appears completely or not at all.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	broken := errors.New("disk full")
	if _, err := create(path, func(f *os.File) error { _, _ = f.WriteString("half"); return broken }); !errors.Is(err,
		broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("failed write: got files %v left, want none", left)
	}
	for _, text := range []string{"first", "the second"} { // the second replaces the first
		n, err := create(path, func(f *os.File) error {
			if b, err := os.ReadFile(path); err == nil && string(b) != "first" {
				t.Errorf("during the write: got %q", b)
			}
			_, err := f.WriteString(text)
			return err
		})
		b, _ := os.ReadFile(path)
		if err != nil || n != int64(len(text)) || string(b) != text {
			t.Errorf("%d bytes, %q, %v; want %q", n, b, err, text)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("got files %v left", left)
	}
	staged := filepath.Join(dir, ".millstream.csv-0123456789abcdef", "part-00000-0123456789abcdef.csv")
	if _, err := create(staged, nil); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "another write into the folder ended first") {
		t.Errorf("missing staging folder: got %v", err)
	}
	if _, err := create(filepath.Join(dir, "none", "a"), nil); !errors.Is(err, fs.ErrNotExist) ||
		strings.Contains(err.Error(), "another write") {
		t.Errorf("missing folder: got %v", err)
	}
}

// TestManifestNames: a manifest decides which files are read and removed, so it may only name parts of its own write,
// and parts of its format to remove.
func TestManifestNames(t *testing.T) {
	const id, other = "0123456789abcdef", "fedcba9876543210"
	good := manifest{Version: 1, ID: id, Files: []manifestFile{{Name: partName(0, id, ".csv")},
		{Name: partName(1, id, ".csv")}},
		Replaces: []string{partName(3, other, ".csv"), "part-00000.csv"}}
	for name, c := range map[string]struct {
		change func(m *manifest)
		want   string
	}{
		"right": {func(*manifest) {}, ""},
		"out of order": {func(m *manifest) {
			m.Files[0], m.Files[1] = m.Files[1], m.Files[0]
		}, "file 0 is named"},
		"of another write": {func(m *manifest) {
			m.Files[1].Name = partName(1, other, ".csv")
		}, "file 1 is named"},
		"of another format": {func(m *manifest) {
			m.Files[0].Name = partName(0, id, ".arrow")
		}, "file 0 is named"},
		"outside": {func(m *manifest) {
			m.Files[0].Name = "../" + partName(0, id, ".csv")
		}, "file 0 is named"},
		"no id": {func(m *manifest) { m.ID, m.Files = "", []manifestFile{{Name: "part-00000-.csv"}} },
			"file 0 is named"},
		"replaces what is none": {func(m *manifest) {
			m.Replaces = []string{"passwd"}
		}, `"passwd" is not the name of a part`},
		"replaces outside": {func(m *manifest) {
			m.Replaces = []string{"../part-00000.csv"}
		}, "is not the name of a part"},
		"replaces other formats": {func(m *manifest) {
			m.Replaces = []string{partName(0, other, ".arrow")}
		}, "is not the name of a part"},
		"replaces old formats": {func(m *manifest) {
			m.Replaces = []string{"part-00000.arrow"}
		}, "is not the name of a part"},
	} {
		m := good
		m.Files, m.Replaces = slices.Clone(good.Files), slices.Clone(good.Replaces)
		c.change(&m)
		err := m.check(".csv")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if got := fmt.Sprint(good.names()); got != "[part-00000-0123456789abcdef.csv part-00001-0123456789abcdef.csv]" {
		t.Errorf("names %s", got)
	}
	for path, want := range map[string]string{
		"/d/part-00007-0123456789abcdef.csv": "/d/.millstream.csv-0123456789abcdef/part-00007-0123456789abcdef.csv",
		"/d/part-00007.arrow":                "", "/d/x.csv": "", "/d/part-00007-0123456789ABCDEF.csv": "",
	} {
		if got, ok := stagedPath(path); got != want || ok != (want != "") {
			t.Errorf("staged path of %s: got %q, want %q", path, got, want)
		}
	}
}

// stream returns record batches with a dictionary as an IPC stream, and its index.
func stream(t *testing.T) ([]byte, *ipcIndex) {
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
		spans := ix.spans(i)
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
		releaseAll(batches)
	}
	for _, bad := range [][]span{{{-1, 3}}, {{5, 4}}} {
		if _, err := readSpans(bytes.NewReader(b), bad); err == nil ||
			!strings.Contains(err.Error(), "invalid range of bytes") {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, err := readSpans(bytes.NewReader(b), []span{{0, int64(len(b)) + 1}}); err == nil {
		t.Error("bytes beyond the end: got no error")
	}
}

// TestHostileIPC: a file that is truncated anywhere, or has wrong lengths, is an error with a position, and never a
// panic; complete batches before the truncation are not read either.
func TestHostileIPC(t *testing.T) {
	b, ix := stream(t)
	index := func(b []byte) (*ipcIndex, error) { return indexIPC(bytes.NewReader(b), int64(len(b))) }
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
				if part, err := readSpans(bytes.NewReader(c), ix.spans(j)); err == nil {
					_, batches, _ := arrowipc.Read(part)
					releaseAll(batches)
				}
			}
		}
	}
}
