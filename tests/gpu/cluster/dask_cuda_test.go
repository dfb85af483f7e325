package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/scheduler"
)

// daskCUDAPatience bounds the test of one protocol: its processes import CuPy, Dask and dask-cuda and start twice.
const daskCUDAPatience = 3 * time.Minute

// TestGPUDaskCUDA runs the operations of dask-cuda's benchmark local_cupy on processes of `dask cuda worker`, with
// pools of RMM, under Millstream's scheduler. Opening the graphs imports CuPy in a helper of the scheduler, whose cache
// of kernels no variable of the environment names.
func TestGPUDaskCUDA(t *testing.T) {
	requireGPU(t)
	for _, protocol := range []string{"tcp", "ucxx"} {
		t.Run(protocol, func(t *testing.T) { daskCUDA(t, protocol) })
	}
}

func daskCUDA(t *testing.T, protocol string) {
	ctx, cancel := context.WithTimeout(context.Background(), daskCUDAPatience)
	defer cancel()
	log := &logText{}
	s, err := scheduler.Start(ctx, scheduler.Config{
		Listen: []string{protocol + "://127.0.0.1:0"}, Logger: slog.New(slog.NewTextHandler(log, nil)),
		// Containers without user namespaces, whose Python is root's alone, are no reason not to test.
		Python: scheduler.PythonConfig{AllowUnsafe: true},
	})
	must(t, err)
	t.Cleanup(func() {
		_ = s.Close()
		for line := range strings.Lines(log.String()) {
			if t.Failed() || strings.Contains(line, "Python helper sandbox") {
				t.Log(strings.TrimSpace(line))
			}
		}
	})
	for _, name := range []string{"first", "second"} {
		out := startPeer(t, ctx, "dask cuda worker "+name, "-m", "dask", "cuda", "worker", s.Address(), "--protocol",
			protocol, "--host", "127.0.0.1",
			"--name", name, "--nthreads", "1", "--memory-limit", "0", "--no-dashboard", "--rmm-pool-size", "2GiB",
			"--set-rmm-allocator-for-libs", "cupy", "--local-directory", t.TempDir())
		go func() { _, _ = io.Copy(io.Discard, out) }() // until the cleanup closes the pipe
	}
	client := startPeer(t, ctx, "client", "testdata/local_cupy.py", s.Address(), "gpu")
	checks := 0
	ended := false
	for lines := bufio.NewScanner(client); lines.Scan(); {
		var r struct {
			Check string
			OK    bool
			Got   string
		}
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // UCX says things, too
		}
		checks++
		ended = ended || r.Check == "end"
		if !r.OK {
			t.Errorf("%s: got %s", r.Check, r.Got)
		}
	}
	if !ended || checks != 24 {
		t.Errorf("%d checks, want 24; ended: %v (%v)", checks, ended, context.Cause(ctx))
	}
}

// startPeer starts Python in a process group of its own, which ends with the test, and returns its output.
func startPeer(t *testing.T, ctx context.Context, name string, args ...string) *bufio.Reader {
	t.Helper()
	python := os.Getenv("MILLSTREAM_PEER_PYTHON")
	if python == "" {
		t.Fatal("MILLSTREAM_PEER_PYTHON names no Python with dask-cuda: run the tests by the bundle's run.sh")
	}
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES=0", "DASK_DISTRIBUTED_UCXX__CREATE_CUDA_CONTEXT=True")
	cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "CUPY_CACHE_DIR=") })
	var log bytes.Buffer
	cmd.Stderr = &log
	r, w, err := os.Pipe()
	must(t, err)
	cmd.Stdout = w
	must(t, cmd.Start())
	_ = w.Close()
	waited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(waited) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-waited:
		case <-time.After(10 * time.Second):
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-waited
		_ = r.Close()
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, tail(log.Bytes(), 8<<10))
		}
	})
	return bufio.NewReader(r)
}

func tail(b []byte, n int) []byte { return b[max(len(b)-n, 0):] }

// logText is a log in memory.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
