package ucx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/mem"
)

// In mode Thread every operation is handed to the worker's thread; in mode Adaptive an operation is handed to the
// goroutine that drives the worker while it does.
func TestDelayedSubmission(t *testing.T) {
	ctx := testContext(t)
	const n = 50
	a, b := pair(t, Config{}, WorkerConfig{Progress: Thread})
	before := a.Worker().Stats()
	var sends []*Request
	for i := range n {
		sends = append(sends, a.StartSend(Bytes([]byte{byte(i)}), uint64(i)))
	}
	for i := range n {
		got := make([]byte, 1)
		if _, err := b.Recv(ctx, Bytes(got), uint64(i), FullMask); err != nil || got[0] != byte(i) {
			t.Fatalf("message %d: got %d, %v", i, got[0], err)
		}
		if err := sends[i].Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.Worker().Stats().RingSubmits - before.RingSubmits; got < n {
		t.Errorf("mode Thread: %d operations were handed over, want at least %d", got, n)
	}

	// A receive that waits drives its worker; what others start meanwhile is handed to it, sooner or later.
	a, b = pair(t, Config{}, WorkerConfig{Progress: Polling})
	w := a.Worker()
	before = w.Stats()
	waiting := a.StartRecv(Bytes(make([]byte, 1)), 1<<40, FullMask)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := waiting.Wait(ctx); err != nil {
			t.Error(err)
		}
	})
	for i := uint64(0); w.Stats().RingSubmits == before.RingSubmits; i++ {
		if err := a.Send(ctx, Bytes([]byte{1}), i); err != nil {
			t.Fatalf("no operation of %d was handed to the goroutine that drives the worker: %v", i, err)
		}
		if _, err := b.Recv(ctx, Bytes(make([]byte, 1)), i, FullMask); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Send(ctx, Bytes([]byte{1}), 1<<40); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// UCX's keepalive has the values of the user: of the environment first, then of Config.Options.
func TestKeepaliveSettings(t *testing.T) {
	wantOption := func(c *Context, name, want string) {
		t.Helper()
		if got, ok := optionOf(c, name); !ok || !strings.HasPrefix(got, want) {
			t.Errorf("%s is %q (%v), want %s", name, got, ok, want)
		}
	}
	options := map[string]string{"KEEPALIVE_INTERVAL": "7s", "KEEPALIVE_NUM_EPS": "33"}
	c := openContext(t, Config{Options: options})
	wantOption(c, "UCX_KEEPALIVE_INTERVAL", "7")
	wantOption(c, "UCX_KEEPALIVE_NUM_EPS", "33")
	t.Setenv("UCX_KEEPALIVE_INTERVAL", "11s")
	c = openContext(t, Config{Options: options})
	wantOption(c, "UCX_KEEPALIVE_INTERVAL", "11")
	wantOption(c, "UCX_KEEPALIVE_NUM_EPS", "33")
	w, err := c.NewWorker(WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// A listener that accepts and says nothing costs the dialer no more time than its context has.
func TestConnectTimeout(t *testing.T) {
	all := testContext(t)
	w := newWorker(t, Config{}, WorkerConfig{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	sock, err := newWorker(t, Config{}, WorkerConfig{}).ListenSocket(all, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	for _, c := range []struct {
		name   string
		dial   func(ctx context.Context) error
		accept func() error
	}{
		{"Dial", func(ctx context.Context) error { _, err := w.Dial(ctx, ln.Addr().String()); return err },
			func() error {
				conn, err := ln.Accept()
				if err == nil {
					t.Cleanup(func() { _ = conn.Close() })
				}
				return err
			}},
		{"DialUCXX", func(ctx context.Context) error { _, err := w.DialUCXX(ctx, sock.Addr().String()); return err },
			func() error { _, err := sock.Accept(all); return err }},
	} {
		accepted := make(chan error, 1)
		go func() { accepted <- c.accept() }()
		timed, cancel := context.WithTimeout(all, time.Second)
		if err := c.dial(timed); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s with a deadline: %v, want %v", c.name, err, context.DeadlineExceeded)
		}
		cancel()
		if err := <-accepted; err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(all)
		result := make(chan error, 1)
		go func() { result <- c.dial(ended) }()
		if err := c.accept(); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that is canceled: %v, want %v", c.name, err, context.Canceled)
		}
	}
}

// A worker of mode threadMulti has that mode, and goroutines on many threads may use it at once.
func TestThreadMulti(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{threads: threadMulti})
	for _, ep := range []*Endpoint{a, b} {
		if got := ep.Worker().mode; got != threadMulti {
			t.Fatalf("thread mode %v, want %v", got, threadMulti)
		}
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				tag := uint64(g)<<32 | uint64(i)
				want := testBytes(tag, 1+(i*977)%20_000)
				got := make([]byte, len(want))
				if err := both(func() error { return a.Send(ctx, Bytes(want), tag) },
					func() error { _, err := b.Recv(ctx, Bytes(got), tag, FullMask); return err }); err != nil ||
					string(got) != string(want) {
					t.Errorf("goroutine %d, message %d of %d bytes: %v", g, i, len(want), err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := a.Worker().Stats().InFlight + b.Worker().Stats().InFlight; n != 0 {
		t.Errorf("%d operations in flight, want 0", n)
	}
}

func init() {
	roles["library"] = func(c *control) error {
		lib, err := Library()
		if err != nil {
			return err
		}
		ctx, err := NewContext(Config{})
		if err != nil {
			return err
		}
		defer ctx.Close()
		c.say("library %v %s %v", lib.CUDA, lib.Path, ctx.supports(mem.Device))
		c.next()
		return nil
	}
}

// LibraryInfo.CUDA says whether UCX's CUDA transports are next to the library that is loaded. Without a driver no
// context has device memory for that.
func TestCUDADetection(t *testing.T) {
	lib, err := Library()
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(lib.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, cuda := range []bool{false, true} {
		t.Run(fmt.Sprint(cuda), func(t *testing.T) {
			// The library itself is a copy, its neighbors are links, but for the folder of transports.
			top := t.TempDir()
			dir := filepath.Join(top, "x", "lib")
			if err := os.MkdirAll(filepath.Join(dir, "ucx"), 0o755); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(real)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, filepath.Base(real))
			if err := os.WriteFile(path, b, 0o755); err != nil {
				t.Fatal(err)
			}
			beside, err := filepath.Glob(filepath.Join(filepath.Dir(real), "libuc*.so*"))
			if err != nil {
				t.Fatal(err)
			}
			private, _ := filepath.Glob(filepath.Join(filepath.Dir(real), "..", "..", "*.libs"))
			for _, from := range append(beside, private...) {
				to := filepath.Join(dir, filepath.Base(from))
				if strings.HasSuffix(from, ".libs") {
					to = filepath.Join(top, filepath.Base(from))
				}
				if filepath.Base(from) != filepath.Base(real) {
					if err := os.Symlink(from, to); err != nil {
						t.Fatal(err)
					}
				}
			}
			if cuda {
				if err := os.WriteFile(filepath.Join(dir, "ucx", "libuct_cuda.so.0"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			h := startHelper(t, "library", "MILLSTREAM_UCX_LIBRARY="+path, "UCX_TLS=tcp,self")
			got := h.hear("library")
			if want := fmt.Sprint(cuda); got[0] != want || got[1] != path || got[2] != "false" {
				t.Errorf("CUDA, path, device memory: got %q, want %q", got, []string{want, path, "false"})
			}
			h.quit()
		})
	}
}

// records keeps what is logged.
type records struct {
	mu   sync.Mutex
	list []slog.Record
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }
func (r *records) Handle(_ context.Context, x slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, x)
	return nil
}

// Warnings go to slog's default logger, at level WARN; without a cause there are none.
func TestLogging(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var r records
	slog.SetDefault(slog.New(&r))
	openContext(t, Config{Options: map[string]string{"KEEPALIVE_INTERVAL": "7s"}})
	if len(r.list) != 0 {
		t.Errorf("logged %v, want nothing", r.list)
	}
	t.Setenv("UCX_KEEPALIVE_INTERVAL", "11s")
	openContext(t, Config{Options: map[string]string{"KEEPALIVE_INTERVAL": "7s"}})
	if len(r.list) != 1 || r.list[0].Level != slog.LevelWarn || !strings.HasPrefix(r.list[0].Message, "ucx: ") ||
		!strings.Contains(r.list[0].Message, "KEEPALIVE_INTERVAL") {
		t.Errorf("logged %v, want one warning about KEEPALIVE_INTERVAL", r.list)
	}
}
