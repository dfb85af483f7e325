//go:build cgo

package native

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"go.millstream.dev/clique"
	"go.millstream.dev/mem"
)

// TestSearch: libraries are regular files of absolute folders, the first that has one.
func TestSearch(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(a, "liba.so"), filepath.Join(b, "liba.so"),
		filepath.Join(b, "libb.so")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(a, "libb.so"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(b)
	for _, c := range []struct{ file, folders, want, err string }{
		{"liba.so", a + ":" + b, filepath.Join(a, "liba.so"), ""},
		{"liba.so", b + ":" + a, filepath.Join(b, "liba.so"), ""},
		{"libb.so", a + ":" + b, filepath.Join(b, "libb.so"), ""}, // in a it is a folder
		{"libb.so", a, "", "libb.so not found in MILLSTREAM_NATIVE_PATH (" + a + ")"},
		{"liba.so", ".", "", "not found in"}, // it would depend on where the worker was started
		{"liba.so", "", "", "MILLSTREAM_NATIVE_PATH is not set on the worker"},
	} {
		got, err := search(c.file, c.folders)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s in %q: %q, %v; want %q, %q", c.file, c.folders, got, err, c.want, c.err)
		}
	}
	for _, name := range []string{"", ":", "liba.so:", ":sums", "x/liba.so:sums", "..:sums", ".:sums", "liba.so"} {
		if _, err := find(name); err == nil || !strings.Contains(err.Error(),
			"want library.so:name") {
			t.Errorf("%q: %v, want that it is no algorithm", name, err)
		}
	}
}

// TestErrorTexts: an algorithm's error has its code and, if there is one, its reason and the operation's error.
func TestErrorTexts(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		e    *Error
		want string
	}{
		{&Error{Library: "l.so", Algorithm: "a", Code: 4}, "native: a of l.so returned 4"},
		{&Error{Library: "l.so", Algorithm: "a", Code: 4, Reason: "why", Err: cause},
			"native: a of l.so returned 4: why"},
	} {
		if c.e.Error() != c.want || errors.Is(c.e, cause) != (c.e.Err != nil) {
			t.Errorf("%q, want %q", c.e, c.want)
		}
	}
}

// TestColumns: lengths, kinds and places of columns.
func TestColumns(t *testing.T) {
	c := ColumnOf([]int32{1, 2, 3})
	if c.Len() != 3 || c.Kind != clique.KindOf[int32]() || (Column{Kind: c.Kind}).Len() != 0 ||
		(Column{Data: c.Data}).Len() != 12 {
		t.Errorf("%d elements of %v", c.Len(), c.Kind)
	}
	device := mem.NewRegion(mem.RegionConfig{Addr: 1 << 20, Len: 8, Kind: mem.Device}).Buffer()
	for _, tc := range []struct {
		r    Result
		want string
	}{
		{Result{Kind: clique.KindOf[int64](), Data: make([]byte, 8)},
			"native: column has elements of int64, not float64"},
		{Result{Kind: clique.KindOf[float64](), Device: device}, "native: column of float64 is in device memory"},
	} {
		if _, err := Values[float64](tc.r); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
	if v, err := Values[int32](Result{Kind: c.Kind, Data: c.Data.Bytes()}); err != nil || len(v) != 3 || v[2] != 3 {
		t.Errorf("%v, %v", v, err)
	}
	for _, tc := range []struct {
		p    Partition
		want string
	}{
		{Partition{c, ColumnOf([]float64{1, 2, 3})}, ""},
		{Partition{}, ""},
		{Partition{{Kind: c.Kind}, {Kind: c.Kind}}, ""},
		{Partition{c, ColumnOf([]int8{1})}, "native: partition 5: column 1 has 1 elements, column 0 has 3"},
		{Partition{{Kind: 99}}, "native: partition 5: column 0: unknown kind kind(99)"},
		{Partition{{Kind: clique.KindOf[int64](), Data: c.Data}}, "native: partition 5: column 0: 12 bytes are not a " +
			"multiple of the size of int64"},
	} {
		err := tc.p.check(5)
		if (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
}

// TestServiceMemory: what an algorithm hands over is checked before it is read, and what it emits is copied.
func TestServiceMemory(t *testing.T) {
	s := &service{ctx: t.Context(), dev: &device{ordinal: -1}}
	data := []int32{1, 2, 3, 4}
	p := unsafe.Pointer(&data[0])
	kind := clique.KindOf[int32]()
	for _, c := range []struct {
		q     request
		p     unsafe.Pointer
		times int
		n     int
		want  string
	}{
		{request{kind: kind, count: 2}, p, 2, 16, ""},
		{request{kind: kind, count: 4}, p, 1, 16, ""},
		{request{kind: kind}, nil, 1, 0, ""},
		{request{kind: kind, count: 4}, p, 0, 0, ""},
		{request{kind: kind, count: 1}, nil, 1, 0, "4 bytes at a null pointer"},
		{request{kind: 99, count: 1}, p, 1, 0, "kind 99"},
		{request{kind: kind, count: 1 << 62}, p, 1, 0, "4611686018427387904 elements"},
		{request{kind: kind, count: 1 << 60}, p, 4, 0, "elements"},
	} {
		b, err := s.memoryAt(c.q, c.p, c.times)
		switch {
		case c.want != "" && (!errors.Is(err, errInvalid) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v, want %q", c.q, err, c.want)
		case c.want == "" && (err != nil || len(bytesOf(b)) != c.n):
			t.Errorf("%+v: %d bytes, %v; want %d", c.q, len(bytesOf(b)), err, c.n)
		}
		if b != nil {
			b.Release()
		}
	}
	b, err := s.memoryAt(request{kind: kind, count: 4}, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if err := s.emit(request{kind: kind}, b); err != nil {
		t.Fatal(err)
	}
	data[0] = 77
	if v, err := Values[int32](s.results[0]); err != nil || len(v) != 4 || v[0] != 1 {
		t.Errorf("emitted %v, %v; want a copy", v, err)
	}
	if err := s.emit(request{kind: kind, memory: mem.Device}, b); !errors.Is(err, errInvalid) ||
		!strings.Contains(err.Error(), "column declared in device memory, but is in host") {
		t.Errorf("host memory emitted as a device's: %v", err)
	}
	for _, what := range []int{opAllReduce, opReduce, opReduceScatter} {
		if _, err := s.do(request{what: what, kind: kind, op: 99}); !errors.Is(err, errInvalid) {
			t.Errorf("operation %d by 99: %v", what, err)
		}
	}
	why := errors.New("enough")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := (&service{ctx: ended}).do(request{what: opBarrier}); err != why {
		t.Errorf("after the end: %v, want %v", err, why)
	}
	s.release()
}

// TestMakers: each operation of the interface makes the clique's call, for each kind; others make none.
func TestMakers(t *testing.T) {
	if len(makers) != 12 {
		t.Errorf("%d kinds have calls, want 12", len(makers))
	}
	for k, f := range makers {
		for what := 0; what <= opEmit+1; what++ {
			want := what >= opAllReduce && what <= opRecv
			if _, ok := f(request{what: what, kind: k}, clique.Sum, nil, nil); ok != want {
				t.Errorf("operation %d of %v has a call: %t, want %t", what, k, ok, want)
			}
		}
	}
}
