// Package builds_test runs clients and workers of different builds of one program against a scheduler.
package builds_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "go.millstream.dev/internal/comm/tcp" // tcp://
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/scheduler"
)

// builds are the program's, by name, with the flags of go build.
var builds = map[string][]string{
	"one":  {"-ldflags=-s -w -X main.factor=x"},
	"two":  {"-ldflags=-s -w -X main.factor=xx"},
	"more": {"-ldflags=-s -w", "-tags=more"},
	// Two programs that declare one build ID.
	"declared-one": {"-ldflags=-s -w -X main.factor=x -X go.millstream.dev/client.build=v1.4"},
	"declared-two": {"-ldflags=-s -w -X main.factor=xx -X go.millstream.dev/client.build=v1.4"},
}

// build builds the program in all ways and returns their paths.
func build(t *testing.T, ctx context.Context) map[string]string {
	t.Helper()
	dir := t.TempDir()
	paths := map[string]string{}
	for name, flags := range builds {
		paths[name] = filepath.Join(dir, name)
		cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", paths[name]}, flags...),
			"./app")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	return paths
}

// lockedBuffer is a log that is read while the scheduler writes it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// site is a scheduler and processes of the program.
type site struct {
	t     *testing.T
	ctx   context.Context
	paths map[string]string
	s     *scheduler.Scheduler
	log   lockedBuffer
}

func (x *site) start(cfg scheduler.Config) {
	x.t.Helper()
	cfg.Listen, cfg.UnrunnableAfter = []string{"tcp://127.0.0.1:0"}, 100*time.Millisecond
	cfg.Logger = slog.New(slog.NewTextHandler(&x.log, nil))
	s, err := scheduler.Start(x.ctx, cfg)
	if err != nil {
		x.t.Fatal(err)
	}
	x.s = s
	x.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			x.t.Errorf("close the scheduler: %v", err)
		}
	})
}

// process starts the program and returns its lines of standard output.
func (x *site) process(build string, env []string, args ...string) *bufio.Scanner {
	x.t.Helper()
	cmd := exec.CommandContext(x.ctx, x.paths[build], args...)
	cmd.Env = append(os.Environ(), env...)
	var errs lockedBuffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		x.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if x.t.Failed() {
			x.t.Logf("%s %v:\n%s", build, args, errs.String())
		}
	})
	return bufio.NewScanner(out)
}

// worker starts a worker of a build and waits until it has joined.
func (x *site) worker(build string) {
	x.t.Helper()
	x.process(build, nil, "worker", x.s.Address(), "--name", build, "--nthreads", "1", "--no-dashboard", "--no-python",
		"--no-nanny",
		"--local-directory", x.t.TempDir())
	for !strings.Contains(x.log.String(), "name="+build) {
		select {
		case <-x.ctx.Done():
			x.t.Fatalf("worker %s has not joined; the scheduler's log is\n%s", build, x.log.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// next returns the next line of a client.
func (x *site) next(lines *bufio.Scanner) string {
	x.t.Helper()
	if !lines.Scan() {
		x.t.Fatalf("the client has ended: %v; the scheduler's log is\n%s", lines.Err(), x.log.String())
	}
	return lines.Text()
}

func (x *site) check(what, got string, wants ...string) {
	x.t.Helper()
	for _, want := range wants {
		if !strings.Contains(got, want) {
			x.t.Errorf("%s: got %q, want %q in it", what, got, want)
		}
	}
}

// TestBuilds runs a client of a newer build, or with more functions, on workers of an older one: the result is never
// that of the old code, and the client says what it waits for until a worker of its own build joins.
func TestBuilds(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	paths := build(t, ctx)
	for _, c := range []struct {
		client, want string
		texts        []string
	}{
		{"two", "result 200", []string{"no worker has the build of this client, two (build ", "runs one (build ",
			"millstream.any-build"}},
		{"more", "result 100", []string{"no worker has the functions of this client", "built from one (build ",
			"no function app.more", "PROGRAM worker"}},
	} {
		t.Run(c.client, func(t *testing.T) {
			leak.Check(t)
			x := &site{t: t, ctx: ctx, paths: paths}
			x.start(scheduler.Config{})
			x.worker("one")
			lines := x.process(c.client, nil, x.s.Address())
			line := x.next(lines)
			x.check("the client", line, append(c.texts, "waiting Future(app.scale-", "tcp://127.0.0.1:")...)
			x.check("the scheduler's log", x.log.String(), "no worker can run the tasks", c.texts[1])
			if c.client == "two" {
				x.check("the scheduler's log", x.log.String(), "workers have another build than the client",
					"stale worker tcp://127.0.0.1:")
			}
			x.worker(c.client)
			for strings.HasPrefix(line, "waiting") {
				line = x.next(lines)
			}
			if line != c.want {
				t.Errorf("got %q, want %q", line, c.want)
			}
			same := x.process("one", nil, x.s.Address())
			if got := x.next(same); got != "result 100" {
				t.Errorf("a client of the first build: got %q, want result 100", got)
			}
		})
	}

	// Other builds are allowed, by the client or by the scheduler: the worker's code decides.
	for _, c := range []struct {
		name string
		cfg  scheduler.Config
		env  []string
	}{
		{"client", scheduler.Config{}, []string{"DASK_MILLSTREAM__ANY_BUILD=true"}},
		{"scheduler", scheduler.Config{AnyBuild: true}, nil},
	} {
		t.Run("any build by the "+c.name, func(t *testing.T) {
			leak.Check(t)
			x := &site{t: t, ctx: ctx, paths: paths}
			x.start(c.cfg)
			x.worker("one")
			if got := x.next(x.process("two", c.env, x.s.Address())); got != "result 100" {
				t.Errorf("got %q, want result 100", got)
			}
		})
	}

	t.Run("declared", func(t *testing.T) {
		leak.Check(t)
		x := &site{t: t, ctx: ctx, paths: paths}
		x.start(scheduler.Config{})
		x.worker("declared-one")
		if got := x.next(x.process("declared-two", nil, x.s.Address())); got != "result 100" {
			t.Errorf("got %q, want result 100", got)
		}
	})

	// Dask's scheduler knows nothing of builds: the worker refuses the task.
	t.Run("Dask's scheduler", func(t *testing.T) {
		leak.Check(t)
		x := &site{t: t, ctx: ctx, paths: paths}
		address := x.daskScheduler()
		join := func(build string) {
			lines := x.process(build, nil, "worker", address, "--name", build, "--nthreads", "1", "--no-dashboard",
				"--no-python", "--no-nanny",
				"--local-directory", t.TempDir())
			for line := x.next(lines); !strings.HasPrefix(line, "worker "); line = x.next(lines) {
			}
		}
		join("one")
		x.check("a client of another build", x.next(x.process("two", nil, address)), "error", "task: build ",
			"of the client differs from this worker, one (build ")
		if got := x.next(x.process("two", []string{"DASK_MILLSTREAM__ANY_BUILD=true"}, address)); got != "result 100" {
			t.Errorf("any build: got %q, want result 100", got)
		}
		if got := x.next(x.process("one", nil, address)); got != "result 100" {
			t.Errorf("the same build: got %q, want result 100", got)
		}
		x.check("a client with other functions", x.next(x.process("more", nil, address)), "error",
			"functions of the client differ from those of this worker, one (build ")
	})
}

// daskScheduler starts Dask's own scheduler and returns its address.
func (x *site) daskScheduler() string {
	x.t.Helper()
	python := os.Getenv("MILLSTREAM_PYTHON")
	if python == "" {
		x.t.Fatal("MILLSTREAM_PYTHON is not set: run the test with scripts/in-env")
	}
	file := filepath.Join(x.t.TempDir(), "scheduler.json")
	cmd := exec.CommandContext(x.ctx, python, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port",
		"0", "--no-dashboard", "--scheduler-file", file)
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for {
		var at struct{ Address string }
		if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &at) == nil && at.Address != "" {
			return at.Address
		}
		select {
		case <-x.ctx.Done():
			x.t.Fatalf("Dask's scheduler has not started:\n%s", out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
