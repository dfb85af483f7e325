package rig

import (
	"log/slog"
	"os"
	"os/exec"
	"strings"

	"go.millstream.dev/client"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/secure"
	"go.millstream.dev/worker"
)

// Ours starts a command of the test's binary: `millstream scheduler …` or `millstream worker …`, with the functions
// that the tests register. The binary's TestMain must be Main.
func (r *Rig) ours(kind string, args []string, ready func(string) bool) *Process {
	r.Helper()
	if r.tlsDir != "" {
		args = append(args, "--tls-dir", r.tlsDir)
	}
	cmd := exec.CommandContext(r.Context, "/proc/self/exe", args...)
	cmd.Dir = r.temp()
	cmd.Args[0] = os.Args[0]
	return r.launch(r.name(kind), cmd, ready)
}

// Flags are the flags of client commands for the certificates of the setting.
func (r *Rig) Flags() []string {
	if r.tlsDir == "" {
		return nil
	}
	return []string{"--tls-dir", r.tlsDir}
}

// Scheduler starts `millstream scheduler` in a process of its own, with the setting's interpreter for graphs of
// Python.
func (r *Rig) Scheduler(args ...string) *Process {
	r.Helper()
	full := []string{"scheduler", "--protocol", r.Protocol, "--host", "127.0.0.1", "--port", "0", "--dashboard-address",
		"127.0.0.1:0"}
	if !contains(args, "--no-python") {
		full = append(full, "--python", r.Interpreter)
	}
	var address string
	p := r.ours("scheduler", append(full, args...), func(line string) bool {
		return after(line, "scheduler at ", &address)
	})
	p.Address = address
	return p
}

// Worker starts `millstream worker` in a process of its own, with one thread, without a nanny and with the
// setting's interpreter for tasks of Python, unless the arguments say otherwise. It is registered when this
// returns. Address is the worker's.
func (r *Rig) Worker(scheduler string, args ...string) *Process {
	r.Helper()
	full := []string{"worker", scheduler, "--protocol", r.Protocol, "--host", "127.0.0.1", "--dashboard-address",
		"127.0.0.1:0", "--memory-limit", "0"}
	for flag, fallback := range map[string]string{"--nthreads": "1", "--data-connections": "none"} {
		if !contains(args, flag) {
			full = append(full, flag, fallback)
		}
	}
	if !contains(args, "--nanny") {
		full = append(full, "--no-nanny")
	}
	if !contains(args, "--no-python") {
		full = append(full, "--python", r.Interpreter)
	}
	var address string
	p := r.ours("worker", append(full, args...), func(line string) bool {
		rest, ok := strings.CutPrefix(line, "worker ")
		if ok {
			_, rest, ok = strings.Cut(" "+rest, " at ")
		}
		if !ok {
			return false
		}
		address, _, _ = strings.Cut(rest, " ")
		return true
	})
	p.Address = address
	return p
}

// StartScheduler starts a scheduler in this process. Listen, TLS and the logger are filled in; the rest of the
// configuration is the caller's.
func (r *Rig) StartScheduler(cfg scheduler.Config) *scheduler.Scheduler {
	r.Helper()
	cfg.Listen, cfg.ListenConfig, cfg.Dial = []string{r.Anywhere()}, r.Listen(secure.Scheduler),
		r.Dial(secure.Scheduler)
	if cfg.Logger == nil {
		cfg.Logger = r.Logger("scheduler")
	}
	s, err := scheduler.Start(r.Context, cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.Error(err)
		}
	})
	return s
}

// StartWorker starts a worker in this process. Scheduler, TLS, the folder and the logger are filled in.
func (r *Rig) StartWorker(scheduler string, cfg worker.Config) *worker.Worker {
	r.Helper()
	cfg.Scheduler, cfg.Dial, cfg.Accept = scheduler, r.Dial(secure.Worker), r.Listen(secure.Worker)
	if cfg.Threads == 0 {
		cfg.Threads = 1
	}
	if cfg.Listen == "" {
		cfg.Listen = r.Anywhere()
	}
	if cfg.LocalDirectory == "" {
		cfg.LocalDirectory = r.TempDir()
	}
	if cfg.Logger == nil {
		cfg.Logger = r.Logger("worker")
	}
	w, err := worker.Start(r.Context, cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := w.Close(); err != nil {
			r.Error(err)
		}
	})
	return w
}

// Client connects a Go client.
func (r *Rig) Client(scheduler string) *client.Client {
	r.Helper()
	c, err := client.Connect(r.Context, scheduler, client.Config{Dial: r.Dial(secure.Client),
		Logger: r.Logger("client")})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = c.Close()
	})
	return c
}

// Logger returns a logger for a part of this process. Its records are printed if the test fails.
func (r *Rig) Logger(kind string) *slog.Logger {
	l := &Log{name: r.name(kind)}
	r.Cleanup(func() {
		if r.Failed() && os.Getenv("LOUD") == "" {
			r.Logf("log of %s:\n%s", l.name, l)
		}
	})
	return slog.New(slog.NewTextHandler(logWriter{l}, nil))
}
