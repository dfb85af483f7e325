package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/frame/internal/fault"
)

const (
	idA = "00000000000000aa"
	idB = "00000000000000bb"
)

// tree lists the content of a folder, folders with a slash, their content with its path.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, path); name != "." {
			if d.IsDir() {
				name += "/"
			}
			out = append(out, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// fill creates files with their name as content, and folders for names that end with a slash.
func fill(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func wantTree(t *testing.T, what, dir string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := tree(t, dir); !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// The content of a folder decides whether a write begins, for each value of Overwrite.
func TestCheckExisting(t *testing.T) {
	result := &Manifest{Version: 1, ID: idB, Files: make([]File, 3)}
	for _, c := range []struct {
		what  string
		files []string
		m     *Manifest
		want  map[string]string // part of the error, by format
	}{
		{"empty", nil, nil, nil},
		{"a file of each", []string{"a.arrow", "b.csv"}, nil, map[string]string{".arrow": "a.arrow", ".csv": "b.csv"}},
		{"another ending of Arrow", []string{"a.feather"}, nil, map[string]string{".arrow": "a.feather"}},
		{"hidden files and others", []string{".a.arrow", "_a.arrow", ".a.csv", "_a.csv", "a.txt", "arrow"}, nil, nil},
		{"folders", []string{"a.arrow/", "b.csv/"}, nil, nil},
		{"a result", nil, result, map[string]string{".arrow": "3 partitions", ".csv": "3 partitions"}},
		{"its own result", []string{"a.arrow"}, &Manifest{ID: idA}, nil},
	} {
		dir := t.TempDir()
		fill(t, dir, c.files...)
		for _, ext := range []string{".arrow", ".csv"} {
			for _, overwrite := range []bool{false, true} {
				err := Set{Dir: dir, Ext: ext, ID: idA, Overwrite: overwrite}.checkExisting(c.m)
				want := c.want[ext]
				if overwrite {
					want = ""
				}
				if errors.Is(err, fault.ErrExists) != (want != "") || want != "" &&
					!strings.Contains(err.Error(), want) {
					t.Errorf("%s, %s, overwrite %v: got %v, want %q", c.what, ext, overwrite, err, want)
				}
			}
		}
	}
	if err := (Set{Dir: filepath.Join(t.TempDir(), "none"), Ext: ".csv"}).checkExisting(nil); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("no folder: got %v, want fs.ErrNotExist", err)
	}
}

// A set is published completely or not at all: every part must exist with the size that was written.
func TestPublish(t *testing.T) {
	parts := []string{PartName(0, idA, ".csv"), PartName(1, idA, ".csv")}
	size := int64(len(filepath.Join(".millstream.csv-"+idA, parts[0])))
	for _, c := range []struct {
		what  string
		files []string
		sizes []int64
		want  string
	}{
		{"all", parts, []int64{size, size}, ""},
		{"one missing", parts[:1], []int64{size, size}, "no such file"},
		{"one short", parts, []int64{size, size + 1}, "bytes, want"},
		{"one long", parts, []int64{size - 1, size}, "bytes, want"},
		{"none", nil, nil, ""},
	} {
		dir := t.TempDir()
		s := Set{Dir: dir, Ext: ".csv", ID: idA}
		fill(t, dir, ".millstream.csv-"+idA+"/", "part-00000.csv", "part-00001.arrow", "other.csv")
		for _, name := range c.files {
			fill(t, dir, filepath.Join(".millstream.csv-"+idA, name))
		}
		var files []Written
		for i, n := range c.sizes {
			files = append(files, Written{Rows: int64(i), Bytes: n})
		}
		m, err := s.Publish(nil, files)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.what, err, c.want)
		}
		read := must[*Manifest](t)(ReadManifest(dir, ".csv"))
		if (read != nil) != (c.want == "") {
			t.Errorf("%s: got manifest %v, want one: %v", c.what, read, c.want == "")
		}
		if err != nil {
			continue
		}
		if !slices.Equal(m.Replaces, []string{"part-00000.csv"}) || !slices.Equal(read.names(), m.names()) ||
			len(m.Files) != len(files) {
			t.Errorf("%s: got %+v and %+v read, want the part without an ID replaced", c.what, m, read)
		}
	}
	// Without Overwrite the second of two writes fails, with it the second replaces all previous ones.
	for _, overwrite := range []bool{false, true} {
		dir := t.TempDir()
		fill(t, dir, ".millstream.csv-"+idA+"/", ".millstream.csv-"+idB+"/")
		if _, err := (Set{Dir: dir, Ext: ".csv", ID: idA}).Publish(nil, nil); err != nil {
			t.Fatal(err)
		}
		before := &Manifest{Files: []File{{Name: PartName(0, idA, ".csv")}},
			Replaces: []string{"part-00007.csv"}}
		m, err := Set{Dir: dir, Ext: ".csv", ID: idB, Overwrite: overwrite}.Publish(before, nil)
		if errors.Is(err, fault.ErrExists) == overwrite || overwrite && fmt.Sprint(m.Replaces) != "["+PartName(0, idA,
			".csv")+" part-00007.csv]" {
			t.Errorf("overwrite %v: got %+v, %v", overwrite, m, err)
		}
		if now := must[*Manifest](t)(ReadManifest(dir, ".csv")); (now.ID == idB) != overwrite {
			t.Errorf("overwrite %v: got the manifest of %s", overwrite, now.ID)
		}
	}
	gone := Set{Dir: t.TempDir(), Ext: ".csv", ID: idA}
	if _, err := gone.Publish(nil, nil); err == nil || !strings.Contains(err.Error(),
		"another write into the folder ended first") {
		t.Errorf("without its staging folder: got %v, want an error about another write", err)
	}
}

// The end of a write removes the files that it replaces, in either place, and moves its own parts; repeating it changes
// nothing.
func TestFinish(t *testing.T) {
	dir := t.TempDir()
	old, staged := PartName(0, idB, ".csv"), PartName(1, idB, ".csv")
	mine := []string{PartName(0, idA, ".csv"), PartName(1, idA, ".csv"), PartName(2, idA, ".csv")}
	fill(t, dir, old, filepath.Join(".millstream.csv-"+idB, staged), "part-00003.csv", "keep.csv",
		filepath.Join(".millstream.csv-"+idA, mine[0]), filepath.Join(".millstream.csv-"+idA, "half"), mine[1],
		filepath.Join(".millstream.csv-"+idA, mine[2]))
	m := &Manifest{ID: idA, Replaces: []string{old, staged, "part-00003.csv", "part-00009.csv"}}
	for _, name := range mine {
		m.Files = append(m.Files, File{Name: name})
	}
	for range 2 {
		if err := (Set{Dir: dir, Ext: ".csv", ID: idA}).finish(m); err != nil {
			t.Fatal(err)
		}
		wantTree(t, "finish", dir, append([]string{"keep.csv", ".millstream.csv-" + idB + "/"}, mine...)...)
	}
}

// Files of other unfinished writes of the format are removed; the own folder, other formats and files stay.
func TestClean(t *testing.T) {
	dir := t.TempDir()
	keep := []string{".millstream.csv-" + idA + "/", ".millstream.arrow-" + idB + "/", ".millstream.csv-short/", "sub/",
		".millstream.csv-00000000000000cc", "x.csv"}
	fill(t, dir, append([]string{".millstream.csv-" + idB + "/",
		".millstream.csv-00000000000000dd" + Discarded + "/part"},
		keep...)...)
	if err := (Set{Dir: dir, Ext: ".csv", ID: idA}).clean(); err != nil {
		t.Fatal(err)
	}
	wantTree(t, "clean", dir, keep...)
	if err := (Set{Dir: filepath.Join(dir, "none"), Ext: ".csv"}).clean(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: got %v", err)
	}
}

// Folders that a write created are removed if it fails and they are empty.
func TestFoldersOfAWrite(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b", "c")
	made := must[[]string](t)(makeFolders(dir))
	want := []string{filepath.Join(top, "a"), filepath.Join(top, "a", "b"), dir}
	if !slices.Equal(made, want) {
		t.Errorf("got %v, want %v", made, want)
	}
	if again := must[[]string](t)(makeFolders(dir)); len(again) != 0 {
		t.Errorf("a second time: got %v, want none", again)
	}
	fill(t, top, "a/file")
	removeEmpty(made)
	wantTree(t, "removeEmpty", top, "a/", "a/file")
	if _, err := makeFolders(filepath.Join(top, "a", "file", "x")); err == nil {
		t.Error("folder in a file: got no error")
	}
	s := Set{Dir: filepath.Join(top, "new", "deep"), Ext: ".csv", ID: idA}
	p := must[Preparation](t)(s.Prepare(t.Context()))
	if committed, err := s.Abort(p); committed || err != nil {
		t.Errorf("abort: got %v, %v, want false", committed, err)
	}
	wantTree(t, "abort", top, "a/", "a/file")
	fill(t, top, "full/x.csv")
	s.Dir = filepath.Join(top, "full")
	if _, err := s.Prepare(t.Context()); !errors.Is(err, fault.ErrExists) {
		t.Errorf("a folder with a file: got %v, want ErrExists", err)
	}
	wantTree(t, "a rejected write", filepath.Join(top, "full"), "x.csv")
}

// One write at a time ends in a folder; the next waits until its context ends.
func TestLockFolder(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := lockFolder(ctx, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("locked folder: got %v, want the error of the context", err)
	}
	got := make(chan error, 1)
	go func() {
		again, err := lockFolder(t.Context(), dir)
		if err == nil {
			again()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Errorf("after the unlock: got %v", err)
	}
	if _, err := lockFolder(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: got %v", err)
	}
}

func TestNamesOfParts(t *testing.T) {
	for name, want := range map[string]string{ // where it is staged; "" for other files
		"part-00000-" + idA + ".csv":       ".millstream.csv-" + idA + "/part-00000-" + idA + ".csv",
		"part-123456789-" + idB + ".arrow": ".millstream.arrow-" + idB + "/part-123456789-" + idB + ".arrow",
		"part-0000-" + idA + ".csv":        "", "part-00000-" + idA + ".txt": "", "part-00000.csv": "",
		"part-00000-" + strings.ToUpper(idA) + ".csv": "", "xpart-00000-" + idA + ".csv": "",
		"part-00000-" + idA + ".csvx":     "",
		"part-0000000000-" + idA + ".csv": "",
	} {
		got, ok := stagedPath(filepath.Join("dir", name))
		if want != "" {
			want = filepath.Join("dir", want)
		}
		if got != want || ok != (want != "") || IsPart(name) != ok {
			t.Errorf("%s: got %q, %v, want %q", name, got, ok, want)
		}
	}
	good := PartName(0, idA, ".csv")
	for _, c := range []struct {
		files, replaces []string
		ok              bool
	}{
		{nil, nil, true}, {[]string{good}, nil, true}, {[]string{good, PartName(1, idA, ".csv")}, nil, true},
		{[]string{PartName(1, idA, ".csv")}, nil, false}, {[]string{PartName(0, idB, ".csv")}, nil, false},
		{[]string{PartName(0, idA, ".arrow")}, nil, false}, {nil, []string{"part-00000.csv", PartName(7, idB, ".csv")},
			true},
		{nil, []string{"part-00000.arrow"}, false}, {nil, []string{PartName(0, idB, ".arrow")}, false},
		{nil, []string{"x.csv"}, false}, {nil, []string{"../part-00000.csv"}, false},
	} {
		m := &Manifest{Version: 1, ID: idA, Replaces: c.replaces}
		for _, name := range c.files {
			m.Files = append(m.Files, File{Name: name})
		}
		if err := m.check(".csv"); (err == nil) != c.ok {
			t.Errorf("files %v, replaces %v: got %v, want it accepted: %v", c.files, c.replaces, err, c.ok)
		}
	}
}

// A part is opened at its final path, in its staging folder, and at its final path again.
func TestEitherPlace(t *testing.T) {
	part := filepath.Join("d", PartName(0, idA, ".csv"))
	staged, _ := stagedPath(part)
	other := errors.New("no permission")
	for _, c := range []struct {
		path string
		errs []error // of each call
		want []string
		err  error
	}{
		{part, []error{nil}, []string{part}, nil}, {part, []error{os.ErrNotExist, nil}, []string{part, staged}, nil},
		{part, []error{os.ErrNotExist, os.ErrNotExist, nil}, []string{part, staged, part}, nil},
		{part, []error{os.ErrNotExist, os.ErrNotExist, os.ErrNotExist}, []string{part, staged, part}, os.ErrNotExist},
		{part, []error{other}, []string{part}, other}, {part, []error{os.ErrNotExist, other}, []string{part, staged},
			other},
		{"d/x.csv", []error{os.ErrNotExist}, []string{"d/x.csv"}, os.ErrNotExist},
	} {
		var asked []string
		got, err := eitherPlace(c.path, func(path string) (int, error) {
			asked = append(asked, path)
			return len(asked), c.errs[len(asked)-1]
		})
		if !slices.Equal(asked, c.want) || err != c.err || got != len(c.want) {
			t.Errorf("errors %v: got %d, %v after %v, want %v after %v", c.errs, got, err, asked, c.err, c.want)
		}
	}
}
