package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

var at = time.Date(2026, 3, 4, 5, 6, 7, 800, time.FixedZone("", 3600))

func sample() []File {
	return []File{{Name: "share/doc/b.txt", Mode: 0o644, Data: []byte("b")},
		{Name: "bin/a", Mode: 0o755, Data: bytes.Repeat([]byte("a"), 5000)}, {Name: "top", Mode: 0o600, Data: nil}}
}

func TestTarGz(t *testing.T) {
	for _, prefix := range []string{"", "./"} {
		data, err := TarGz(prefix, sample(), at)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for r := tar.NewReader(z); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, strings.TrimPrefix(h.Name, prefix))
			if !h.ModTime.Equal(at.Truncate(time.Second)) || h.Uid != 0 || h.Uname != "root" {
				t.Errorf("%s: time %v, owner %d %s", h.Name, h.ModTime, h.Uid, h.Uname)
			}
			if h.Name == prefix+"bin/a" && (h.Mode != 0o755 || h.Size != 5000) {
				t.Errorf("%s: mode %o, size %d, want 755 and 5000", h.Name, h.Mode, h.Size)
			}
		}
		want := []string{"bin/", "bin/a", "share/", "share/doc/", "share/doc/b.txt", "top"}
		if prefix != "" {
			want = slices.Insert(want, 0, "")
		}
		if !slices.Equal(names, want) {
			t.Errorf("prefix %q: got %q, want %q", prefix, names, want)
		}
	}
}

// TestOrder checks that the order of the files given does not change the archives.
func TestOrder(t *testing.T) {
	backward := sample()
	slices.Reverse(backward)
	for name, write := range map[string]func([]File) ([]byte, error){
		"tar": func(f []File) ([]byte, error) { return TarGz("", f, at) },
		"zip": func(f []File) ([]byte, error) { return Zip(f, at) },
	} {
		a, errA := write(sample())
		b, errB := write(backward)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: %d and %d bytes differ, or %v, %v", name, len(a), len(b), errA, errB)
		}
	}
}

func TestZip(t *testing.T) {
	data, err := Zip(sample(), at)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if len(z.File) != 3 || z.File[0].Name != "bin/a" || z.File[0].Mode() != 0o755 {
		t.Fatalf("got %d files, the first %s with mode %v", len(z.File), z.File[0].Name, z.File[0].Mode())
	}
	got, err := z.Open("share/doc/b.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if text, err := io.ReadAll(got); err != nil || string(text) != "b" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestInvalid(t *testing.T) {
	for _, names := range [][]string{{"/abs"}, {"../up"}, {"a//b"}, {"."}, {""}, {"x", "x"}} {
		var files []File
		for _, n := range names {
			files = append(files, File{Name: n})
		}
		if _, err := TarGz("", files, at); err == nil || !strings.HasPrefix(err.Error(), "archive: ") {
			t.Errorf("tar of %q: got error %v", names, err)
		}
		if _, err := Zip(files, at); err == nil {
			t.Errorf("zip of %q: no error", names)
		}
	}
}

func TestLongNames(t *testing.T) {
	long := strings.Repeat("folder/", 30) + "file"
	data, err := TarGz("", []File{{Name: long, Mode: 0o644}}, at)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r, last := tar.NewReader(z), ""
	for h, err := r.Next(); err == nil; h, err = r.Next() {
		last = h.Name
	}
	if last != long {
		t.Errorf("got %s, want %s", last, long)
	}
}

func TestNames(t *testing.T) {
	if got := Name("millstream", "0.1.0", "", "amd64"); got != "millstream-0.1.0-amd64" {
		t.Errorf("got %s", got)
	}
	moved := Under("usr", sample())
	if moved[0].Name != "usr/share/doc/b.txt" || sample()[0].Name != "share/doc/b.txt" {
		t.Errorf("got %s", moved[0].Name)
	}
	if got, want := Folders(moved), []string{"usr", "usr/bin", "usr/share", "usr/share/doc"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTarPart checks that two parts are one archive, and that records are kept.
func TestTarPart(t *testing.T) {
	var b bytes.Buffer
	first := []File{{Name: "first", Mode: 0o644, Data: []byte("1")}}
	second := []File{{Name: "second", Mode: 0o644, Data: []byte("2"), Records: map[string]string{"MILL.key": "value"}}}
	if err := TarPart(&b, "", first, at); err != nil {
		t.Fatal(err)
	}
	if err := Tar(&b, "", second, at); err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(&b)
	for _, want := range []string{"first", "second"} {
		h, err := r.Next()
		if err != nil || h.Name != want || (h.PAXRecords["MILL.key"] == "value") != (want == "second") {
			t.Errorf("got %+v, want %s: %v", h, want, err)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got error %v after the second part, want EOF", err)
	}
}
