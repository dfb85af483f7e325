package cluster_test

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
)

// Reading a named pipe as scheduler file ends with the context, with and without a writer.
func TestSchedulerFileIsPipe(t *testing.T) {
	leak.Check(t)
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, writer := range []bool{false, true} {
		if writer {
			fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Close(fd)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := cluster.ReadSchedulerFile(ctx, path)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("an empty pipe was read, want an error (writer: %t)", writer)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("the pipe is still read after its time (writer: %t)", writer)
		}
	}
}
