package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/frame/internal/fault"
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
		got, err := List(filepath.Join(dir, c.path), c.ext)
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
	if _, err := List("", nil); err == nil || err.Error() != "frame: no path" {
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
	was := StampOf(info)
	open := func() error {
		f, err := OpenStamped(path, was, 7)
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
		var e *fault.Error
		if err := open(); !errors.As(err, &e) || !errors.Is(err, fault.ErrCorrupt) || e.Partition != 7 ||
			e.Path != path || !strings.Contains(err.Error(), text) {
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
	if _, err := Create(path, func(f *os.File) error { _, _ = f.WriteString("half"); return broken }); !errors.Is(err,
		broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("failed write: got files %v left, want none", left)
	}
	for _, text := range []string{"first", "the second"} { // the second replaces the first
		n, err := Create(path, func(f *os.File) error {
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
	if _, err := Create(staged, nil); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "another write into the folder ended first") {
		t.Errorf("missing staging folder: got %v", err)
	}
	if _, err := Create(filepath.Join(dir, "none", "a"), nil); !errors.Is(err, fs.ErrNotExist) ||
		strings.Contains(err.Error(), "another write") {
		t.Errorf("missing folder: got %v", err)
	}
}

// TestManifestNames: a manifest decides which files are read and removed, so it may only name parts of its own write,
// and parts of its format to remove.
func TestManifestNames(t *testing.T) {
	const id, other = "0123456789abcdef", "fedcba9876543210"
	good := Manifest{Version: 1, ID: id, Files: []File{{Name: PartName(0, id, ".csv")},
		{Name: PartName(1, id, ".csv")}},
		Replaces: []string{PartName(3, other, ".csv"), "part-00000.csv"}}
	for name, c := range map[string]struct {
		change func(m *Manifest)
		want   string
	}{
		"right": {func(*Manifest) {}, ""},
		"out of order": {func(m *Manifest) {
			m.Files[0], m.Files[1] = m.Files[1], m.Files[0]
		}, "file 0 is named"},
		"of another write": {func(m *Manifest) {
			m.Files[1].Name = PartName(1, other, ".csv")
		}, "file 1 is named"},
		"of another format": {func(m *Manifest) {
			m.Files[0].Name = PartName(0, id, ".arrow")
		}, "file 0 is named"},
		"outside": {func(m *Manifest) {
			m.Files[0].Name = "../" + PartName(0, id, ".csv")
		}, "file 0 is named"},
		"no id": {func(m *Manifest) { m.ID, m.Files = "", []File{{Name: "part-00000-.csv"}} },
			"file 0 is named"},
		"replaces what is none": {func(m *Manifest) {
			m.Replaces = []string{"passwd"}
		}, `"passwd" is not the name of a part`},
		"replaces outside": {func(m *Manifest) {
			m.Replaces = []string{"../part-00000.csv"}
		}, "is not the name of a part"},
		"replaces other formats": {func(m *Manifest) {
			m.Replaces = []string{PartName(0, other, ".arrow")}
		}, "is not the name of a part"},
		"replaces old formats": {func(m *Manifest) {
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
