package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.millstream.dev/client"
)

// journaled runs `millstream scheduler` on a journal and calls f with its address once it serves.
func journaled(t *testing.T, dir string, f func(ctx context.Context, address string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{"scheduler", "--insecure", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
			"--journal", dir}, nil, out, io.Discard)
		_ = out.Close()
	}()
	line, err := bufio.NewReader(in).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "scheduler at ")
	if !ok {
		t.Fatalf("the scheduler printed %q, %v", line, err)
	}
	f(ctx, address)
	cancel()
	go func() { _, _ = io.Copy(io.Discard, in) }()
	<-ended
}

// A scheduler that has read a large journal does not keep what reading left behind.
func TestJournalMemory(t *testing.T) {
	dir, again := filepath.Join(t.TempDir(), "journal"), filepath.Join(t.TempDir(), "again")
	const count, size = 20, 8 << 20
	journaled(t, dir, func(ctx context.Context, address string) {
		c, err := client.Connect(ctx, address, client.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for i := range count {
			v := client.NewVariable[[]byte](c, fmt.Sprint("v", i))
			if err := v.Set(ctx, make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			if err := v.Delete(); err != nil {
				t.Fatal(err)
			}
		}
		// A copy is a journal without the snapshot that the end of a scheduler writes.
		if err := os.CopyFS(again, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.Chmod(again, 0o700); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	journaled(t, again, func(context.Context, string) {
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > count*size/4 {
			t.Errorf("the heap grew by %d MiB by reading a journal of %d MiB, want little", grown>>20, count*size>>20)
		}
	})
}
