package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.millstream.dev/config"
	"go.millstream.dev/worker"
)

// The processors are divided as in Dask's LocalCluster.
func TestOptionsLayout(t *testing.T) {
	cpus := CPUs()
	w, th := Layout(cpus)
	for _, tc := range []struct {
		in                 Config
		workers, threads   int
		protocol, data     string
		memoryLimitIsShare bool
	}{
		{Config{}, w, th, "tls", "auto", true},
		{Config{Mode: Goroutines}, 1, cpus, "inproc", "auto", true},
		{Config{Workers: 1}, 1, cpus, "tls", "auto", true},
		{Config{Threads: cpus}, 1, cpus, "tls", "auto", true},
		{Config{Workers: 3, Threads: 5, Protocol: "tcp://", DataConnections: "none"}, 3, 5, "tcp", "none", true},
		{Config{Workers: -1, MemoryLimit: NoMemoryLimit}, 0, cpus, "tls", "auto", false},
	} {
		o, err := tc.in.withDefaults()
		if err != nil {
			t.Errorf("%+v: got %v, want nil", tc.in, err)
			continue
		}
		if o.Workers != tc.workers || o.Threads != tc.threads || o.Protocol != tc.protocol ||
			o.DataConnections != tc.data {
			t.Errorf("%+v: %d workers × %d threads, %s, data connections %s", tc.in, o.Workers, o.Threads, o.Protocol,
				o.DataConnections)
		}
		if share := worker.AutoMemory(o.Threads); tc.memoryLimitIsShare && o.MemoryLimit != share ||
			!tc.memoryLimitIsShare && o.MemoryLimit != 0 {
			t.Errorf("%+v: memory limit %d", tc.in, o.MemoryLimit)
		}
	}
}

// Without a logger only warnings and errors are logged.
func TestQuietByDefault(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(levelHandler{slog.NewTextHandler(&out, nil), slog.LevelWarn}).With("a", 1).WithGroup("g")
	log.Info("small talk")
	log.Warn("fire", "where", "roof")
	if got := out.String(); strings.Contains(got, "small talk") || !strings.Contains(got, "fire") ||
		!strings.Contains(got, "a=1") || !strings.Contains(got, "g.where=roof") {
		t.Errorf("log: got %q, want the warning with its attributes only", got)
	}
}

func TestLogSpec(t *testing.T) {
	for _, tc := range []struct {
		spec       LogSpec
		info, warn bool
		form       string
	}{
		{LogSpec{}, true, true, "msg=hello"},
		{LogSpec{Format: "json", Level: "DEBUG"}, true, true, `"msg":"hello"`},
		{LogSpec{Level: "warning"}, false, true, ""},
		{LogSpec{Level: "error"}, false, false, ""},
	} {
		var out bytes.Buffer
		log, err := tc.spec.New(&out)
		if err != nil {
			t.Fatal(err)
		}
		if log.Enabled(context.Background(), slog.LevelInfo) != tc.info ||
			log.Enabled(context.Background(), slog.LevelWarn) != tc.warn {
			t.Errorf("%+v: wrong level", tc.spec)
		}
		if log.Info("hello"); !strings.Contains(out.String(), tc.form) {
			t.Errorf("%+v: got %q, want %q in it", tc.spec, out.String(), tc.form)
		}
	}
	for _, bad := range []LogSpec{{Format: "xml"}, {Level: "loud"}} {
		if _, err := bad.New(&bytes.Buffer{}); err == nil {
			t.Errorf("%+v: got nil, want an error", bad)
		}
	}
}

// dataListen returns the address on which a worker accepts data connections.
func TestDataListen(t *testing.T) {
	t.Setenv("MILLSTREAM_UCX_LIBRARY", "")
	for _, tc := range []struct {
		spec WorkerSpec
		want string
	}{
		{WorkerSpec{Scheduler: "tls://10.0.0.1:1"}, ""},
		{WorkerSpec{Scheduler: "tls://10.0.0.1:1", DataListen: "ucxx://127.0.0.1:0"}, "ucxx://127.0.0.1:0"},
		{WorkerSpec{Scheduler: "inproc://x", DataListen: "auto"}, ""},
		{WorkerSpec{Scheduler: "ucxx://10.0.0.1:1", DataListen: "auto"}, ""},
		{WorkerSpec{Scheduler: "tls://10.0.0.1:1", DataListen: "auto"}, "ucxx://127.0.0.1:0"},
		{WorkerSpec{Scheduler: "tls://10.0.0.1:1", Listen: "tls://10.0.0.2:0", DataListen: "auto"},
			"ucxx://127.0.0.1:0"},
		{WorkerSpec{Scheduler: "tls://10.0.0.1:1", Listen: "tls://10.0.0.2:0", DataListen: "auto", DataTrusted: true},
			"ucxx://10.0.0.2:0"},
	} {
		if got := tc.spec.dataListen(quiet); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.spec, got, tc.want)
		}
	}
}

func TestOutcome(t *testing.T) {
	other := errors.New("other")
	for _, tc := range []struct {
		err     error
		restart bool
		want    error
	}{
		{nil, false, nil},
		{worker.ErrClosed, false, nil},
		{fmt.Errorf("x: %w", worker.ErrSchedulerClosed), false, nil},
		{errors.Join(worker.ErrSchedulerClosed, worker.ErrRestart), false, ErrRestart},
		{worker.ErrClosed, true, ErrRestart},
		{other, false, other},
		{worker.ErrMemory, false, worker.ErrMemory},
	} {
		if got := outcome(tc.err, tc.restart); !errors.Is(got, tc.want) || (got == nil) != (tc.want == nil) {
			t.Errorf("%v, %v: %v, want %v", tc.err, tc.restart, got, tc.want)
		}
	}
}

// A child has the configuration of its parent, with the values that the program has set.
func TestInheritConfig(t *testing.T) {
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	restore, err := c.Set(map[string]any{"distributed.scheduler.allowed-failures": 77})
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	env := inheritConfig([]string{"A=1", inheritVariable + "=old"})
	if len(env) != 2 || env[0] != "A=1" {
		t.Fatalf("%d variables: %.100q", len(env), env)
	}
	child, err := config.Load(config.Options{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := child.Int("distributed.scheduler.allowed-failures", 0); err != nil || n != 77 {
		t.Errorf("allowed-failures of the child: got %d, %v, want 77", n, err)
	}
}

func TestConnectNeedsAddress(t *testing.T) {
	if _, err := Connect(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "DASK_SCHEDULER_ADDRESS") {
		t.Errorf("Connect without an address: got %v, want an error with DASK_SCHEDULER_ADDRESS", err)
	}
}
