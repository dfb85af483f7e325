//go:build cgo

package ucx

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An address that is written to a file is the one that a reader, who came first, gets.
func TestAddressFile(t *testing.T) {
	c, err := NewContext(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := c.NewWorker(WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	a, err := w.Address()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	type result struct {
		a   WorkerAddress
		err error
	}
	got := make(chan result, 1)
	go func() {
		a, err := ReadAddressFile(ctx, path)
		got <- result{a, err}
	}()
	if err := a.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if r := <-got; r.err != nil || !bytes.Equal(r.a, a) {
		t.Errorf("%v, %v", r.a, r.err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".ucx*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestAddressFileRefused(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ path, want string }{
		{file("text", "hello\n"), "address file"},
		{file("empty", ""), "address file"},
		{file("long", strings.Repeat("x", maxAddressFile+1)), "not a worker address"},
		{dir, "address file"},
	} {
		if _, err := ReadAddressFile(t.Context(), c.path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.path, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReadAddressFile(ctx, filepath.Join(dir, "never")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := (WorkerAddress("x")).WriteFile("/nowhere/at/all"); err == nil {
		t.Error("written to a folder that is not there")
	}
}
