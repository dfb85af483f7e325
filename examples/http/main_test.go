//go:build examples

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/ucx"
)

func TestHTTP(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	want := bytes.Repeat([]byte("millstream "), 1<<17)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "data"), want, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := ucx.NewContext(ucx.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := c.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l, err := w.ListenConn(ctx, "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- serve(serving, l, dir) }()
	var out bytes.Buffer
	address := l.Addr().String()
	if err := run(ctx, &out, []string{"get", address, "/data"}); err != nil || !bytes.Equal(out.Bytes(), want) {
		t.Errorf("got %d bytes, want %d: %v", out.Len(), len(want), err)
	}
	err = run(ctx, &out, []string{"get", address, "/none"})
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a file that does not exist: got error %v, want 404", err)
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("the server: %v", err)
	}
	if err := run(ctx, &out, []string{"get"}); err == nil {
		t.Error("missing arguments: got no error")
	}
}
