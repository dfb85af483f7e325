package hardware

import (
	"context"
	"errors"
	"os"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
)

// rates fails the test unless each size has a rate.
func rates(t *testing.T, m msgpack.Map, sizes []size) {
	t.Helper()
	if len(m) != len(sizes) {
		t.Fatalf("%d sizes, want %d: %v", len(m), len(sizes), m)
	}
	for i, s := range sizes {
		if rate, _ := m[i].Value.(float64); m[i].Key != s.name || rate <= 0 {
			t.Errorf("got %v with rate %v, want %s with a positive rate", m[i].Key, m[i].Value, s.name)
		}
	}
}

func TestDisk(t *testing.T) {
	dir := t.TempDir()
	diskSizes = diskSizes[:1] // the others take too long
	m, err := Disk(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	rates(t, m, diskSizes)
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("got files %v left, want none", left)
	}
	if _, err := Disk(t.Context(), dir+"/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

func TestMemory(t *testing.T) {
	m, err := Memory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rates(t, m, memorySizes)
}

func TestNetwork(t *testing.T) {
	calls, moved := 0, 0
	m, err := Network(t.Context(), func(data []byte) error {
		calls, moved = calls+1, moved+len(data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rates(t, m, networkSizes)
	if calls < len(networkSizes) || moved < networkSizes[len(networkSizes)-1].bytes {
		t.Errorf("%d calls with %d bytes", calls, moved)
	}
	why := errors.New("no peer")
	if _, err := Network(t.Context(), func([]byte) error { return why }); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

// A fast operation moves at most maxBytes of each size.
func TestBound(t *testing.T) {
	total := 0
	_, err := measure(t.Context(), []size{{"all", maxBytes / 2}}, func(data []byte) (int, error) {
		total += len(data)
		return len(data), nil
	})
	if err != nil || total > maxBytes {
		t.Errorf("%d bytes, %v; want at most %d", total, err, maxBytes)
	}
}

func TestCancelled(t *testing.T) {
	why := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	n := 0
	_, err := measure(ctx, memorySizes, func([]byte) (int, error) {
		n++
		cancel(why)
		return 1, nil
	})
	if !errors.Is(err, why) || n != 1 {
		t.Errorf("got %v after %d calls, want %v after 1", err, n, why)
	}
}
