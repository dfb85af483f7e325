package cli

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/cluster"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
)

// Every wrong command line is one line that says what to do, and starts nothing.
func TestServerUsage(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{"scheduler x", `unexpected argument "x"`},
		{"scheduler", "tcp://:8786 is not encrypted"},
		{"scheduler --host 0.0.0.0", "--insecure on a network that you trust"},
		{"scheduler --protocol ucxx --host 10.1.2.3", "ucxx://10.1.2.3:8786 is not encrypted"},
		{"scheduler --port x --host 127.0.0.1", "x"},
		{"scheduler --port 1,2 --host 127.0.0.1", "as many ports as protocols"},
		{"scheduler --protocol tcp,ucxx --port 1 --host 127.0.0.1", "as many ports as protocols"},
		{"scheduler --protocol smoke --host 127.0.0.1", "smoke"},
		{"scheduler --host 127.0.0.1 --interface lo", "not both"},
		{"scheduler --host 127.0.0.1 --interface lo,eth0", "as many as protocols"},
		{"scheduler --preload foo.py --no-python", "--preload foo.py and --no-python exclude each other"},
		{"scheduler --preload-argv x", "--preload-argv x needs --preload"},
		{"scheduler --jupyter", "--jupyter"},
		{"scheduler --dashboard-prefix x", "proxy"},
		{"scheduler --host 127.0.0.1 --dashboard-token short", "token of 5 characters: want 16"},
		{"scheduler --host 127.0.0.1 --dashboard-token none --dashboard-token-file f", "exclude each other"},
		{"worker tcp://127.0.0.1:8786 --dashboard-token short", "token of 5 characters: want 16"},
		{"scheduler --tls-cert x", "--tls-ca-file and --tls-cert must be used together"},
		{"scheduler --tls-key x", "--tls-key needs --tls-cert"},
		{"scheduler --tls-dir d --tls-cert x", "--tls-dir excludes"},
		{"scheduler --log-format xml --host 127.0.0.1", `log format "xml": want text or json`},
		{"scheduler --log-level loud --host 127.0.0.1", `log level "loud"`},
		{"scheduler --idle-timeout soon --host 127.0.0.1", "--idle-timeout soon: want a time"},
		{"worker", "no scheduler; pass an address"},
		{"worker a b", `unexpected argument "b"`},
		{"worker tcp://10.1.2.3:8786", "is not encrypted"},
		{"worker tcp://127.0.0.1:8786 --host 10.1.2.3", "is not encrypted"},
		{"worker tcp://", "tcp://"},
		{"worker tcp://127.0.0.1:8786 --scheduler-file x", "pass either"},
		{"worker tcp://127.0.0.1:8786 --nworkers many", "--nworkers many: want a number or auto"},
		{"worker tcp://127.0.0.1:8786 --nworkers 0", "no workers on"},
		{"worker tcp://127.0.0.1:8786 --nworkers -1000", "no workers on"},
		{"worker tcp://127.0.0.1:8786 --nthreads -1", "--nthreads -1"},
		{"worker tcp://127.0.0.1:8786 --nworkers 2 --no-nanny", "--no-nanny supports one worker"},
		{"worker tcp://127.0.0.1:8786 --nworkers 2 --listen-address tcp://127.0.0.1:1",
			"--listen-address supports one worker"},
		{"worker tcp://127.0.0.1:8786 --contact-address tcp://127.0.0.1:1", "--contact-address needs --listen-address"},
		{"worker tcp://127.0.0.1:8786 --listen-address tcp://127.0.0.1:1 --host x", "--listen-address excludes"},
		{"worker tcp://127.0.0.1:8786 --memory-limit lots", "--memory-limit"},
		{"worker tcp://127.0.0.1:8786 --resources GPU", "--resources"},
		{"worker tcp://127.0.0.1:8786 --death-timeout x", "--death-timeout x: want a time"},
		{"worker tcp://127.0.0.1:8786 --lifetime x", "--lifetime x: want a time"},
		{"worker tcp://127.0.0.1:8786 --lifetime 1m --lifetime-stagger x", "--lifetime-stagger x: want a time"},
		{"worker tcp://127.0.0.1:8786 --lifetime-restart --no-nanny", "--lifetime-restart and --no-nanny exclude"},
		{"worker tcp://127.0.0.1:8786 --lifetime-restart --no-lifetime-restart", "exclude each other"},
		{"worker tcp://127.0.0.1:8786 --worker-class x.Y", "is a Python class"},
		{"worker tcp://127.0.0.1:8786 --preload x --no-python", "--preload x and --no-python exclude each other"},
		{"worker tcp://127.0.0.1:8786 --preload-nanny x --no-python",
			"--preload-nanny x and --no-python exclude each other"},
		{"worker tcp://127.0.0.1:8786 --preload-nanny x --no-nanny",
			"--preload-nanny x and --no-nanny exclude each other"},
		{"worker tcp://127.0.0.1:8786 --preload-nanny-argv x", "--preload-nanny-argv x needs --preload-nanny"},
		{"worker tcp://127.0.0.1:8786 --scheduler-sni x", "--scheduler-sni"},
		{"worker tcp://127.0.0.1:8786 --data-connections fast", "--data-connections fast: want auto, trusted or none"},
		{"worker tcp://127.0.0.1:8786 --retire-timeout x", "--retire-timeout x"},
		{"worker tcp://127.0.0.1:8786 --ucx-option x", "want NAME=VALUE"},
	} {
		var out, errs bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		code := Run(ctx, strings.Fields(tc.line), nil, &out, &errs)
		cancel()
		if code != ExitUsage || strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), tc.want) {
			t.Errorf("%s: code %d, %q, want %q", tc.line, code, errs.String(), tc.want)
		}
	}
}

func TestServerHelpFits(t *testing.T) {
	for _, name := range []string{"scheduler", "worker"} {
		var out, errs bytes.Buffer
		if code := Run(t.Context(), []string{name, "--help"}, nil, &out, &errs); code != ExitOK {
			t.Fatalf("code %d: %s", code, errs.String())
		}
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
				t.Errorf("%s: %d characters: %q", name, n, line)
			}
		}
		if strings.Contains(out.String(), "worker-class") {
			t.Errorf("%s: what is not there is in the help", name)
		}
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1": true, "127.1.2.3": true, "::1": true, "[::1]": true,
		"localhost": true, "0.0.0.0": false, "::": false, "10.0.0.1": false, "": false, "host": false} {
		if got := isLoopback(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

// With --insecure it works, and the log says it loudly.
func TestInsecureIsTold(t *testing.T) {
	var log bytes.Buffer
	f := serverFlags{insecure: true}
	if err := f.guard("tcp://0.0.0.0:8786", slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "INSECURE") || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("log: %s", log.String())
	}
}

func TestSchedulerFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sched.json")
	identity := msgpack.MapOf("type", "Scheduler", "address", "tls://10.0.0.1:8786", "workers",
		msgpack.MapOf("tls://x", msgpack.MapOf("name", int64(3))),
		"raw", []byte("x"), "list", []any{int64(1), msgpack.MapOf(int64(1), nil)})
	found := make(chan string, 1)
	go func() {
		file, err := readSchedulerFile(t.Context(), path, time.Minute)
		if err != nil {
			file.Address = err.Error()
		}
		found <- file.Address
	}()
	if err := writeSchedulerFile(path, identity, cluster.NewSchedulerFileTLS("/certs",
		secure.Security{CAFile: "/certs/ca.pem", Client: secure.KeyPair{Cert: "/c.pem", Key: "a\nkey"}})); err != nil {
		t.Fatal(err)
	}
	if got := <-found; got != "tls://10.0.0.1:8786" {
		t.Errorf("%q", got)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), `"type": "Scheduler"`) ||
		!strings.Contains(string(text), `"name": 3`) ||
		!strings.Contains(string(text), `"ca-file": "/certs/ca.pem"`) ||
		!strings.Contains(string(text), `"dir": "/certs"`) || strings.Contains(string(text), "key") {
		t.Errorf("%s, %v", text, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestSchedulerFileErrors(t *testing.T) {
	dir := t.TempDir()
	if err := writeSchedulerFile(filepath.Join(dir, "none", "x"), nil, nil); err == nil {
		t.Error("written into a folder that does not exist")
	}
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"id": 1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readSchedulerFile(t.Context(), bad, 0); err == nil ||
		!strings.Contains(err.Error(), "has no address") {
		t.Errorf("%v", err)
	}
	if _, err := readSchedulerFile(t.Context(), filepath.Join(dir, "never"), 30*time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "--death-timeout") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := readSchedulerFile(ctx, filepath.Join(dir, "never"), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := readSchedulerFile(t.Context(), dir, 0); err == nil {
		t.Error("a folder is no scheduler file")
	}
}

// setConfig changes the configuration of the process for one test.
func setConfig(t *testing.T, values map[string]any) {
	t.Helper()
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	restore, err := c.Set(values)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(restore)
}

func specsOf(t *testing.T, args ...string) []cluster.WorkerSpec {
	t.Helper()
	f := &workerFlags{}
	cmd := workerCommandFor(f)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	if err := f.check(); err != nil {
		t.Fatal(err)
	}
	specs, err := f.specs(cmd.Flags().Arg(0), slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	return specs
}

// Flags become fields of the specification of workers.
func TestWorkerSpecs(t *testing.T) {
	s := specsOf(t, "tls://10.0.0.1:8786", "--nworkers", "3", "--nthreads", "2", "--name", "w", "--memory-limit", "1GB",
		"--resources", "GPU=2 MEM=10e9",
		"--local-directory", "d", "--death-timeout", "60", "--lifetime", "1h", "--lifetime-restart",
		"--data-connections",
		"trusted", "--log-format", "json", "--ucx-option", "TLS=tcp", "--no-dashboard")
	if len(s) != 3 {
		t.Fatalf("%d workers", len(s))
	}
	w := s[1]
	if w.Name != "w-1" || w.Threads != 2 || w.MemoryLimit != 1e9 || w.Resources["MEM"] != 1e10 ||
		w.LocalDirectory != "d" || w.DeathTimeout != time.Minute ||
		w.Lifetime != time.Hour || !w.LifetimeRestart || !w.DataTrusted || w.DataListen != "auto" ||
		w.Log.Format != "json" || w.UCX.Options["TLS"] != "tcp" ||
		w.Scheduler != "tls://10.0.0.1:8786" || w.Listen != "" || w.Dashboard != "" {
		t.Errorf("%+v", w)
	}
	w = specsOf(t, "127.0.0.1:8786", "--worker-port", "9000:9010", "--data-connections", "none",
		"--memory-limit", "0")[0]
	if w.Scheduler != "tcp://127.0.0.1:8786" || w.Listen != "tcp://127.0.0.1:9000:9010" || w.DataListen != "" ||
		w.MemoryLimit != 0 || w.Name != "" || w.Dashboard != "127.0.0.1:0" {
		t.Errorf("%+v", w)
	}
	w = specsOf(t, "ucxx://127.0.0.1:8786", "--listen-address", "ucxx://127.0.0.1:9001", "--contact-address",
		"ucxx://127.0.0.1:9002")[0]
	if w.Listen != "ucxx://127.0.0.1:9001" || w.Contact != "ucxx://127.0.0.1:9002" {
		t.Errorf("%+v", w)
	}
	seen := map[time.Duration]bool{}
	for range 20 {
		d := specsOf(t, "tls://h:1", "--lifetime", "1h", "--lifetime-stagger", "10m")[0].Lifetime
		if d < 50*time.Minute || d > 70*time.Minute {
			t.Errorf("lifetime %v", d)
		}
		seen[d] = true
	}
	if len(seen) < 2 {
		t.Error("lifetimes do not vary")
	}
}

// The configuration counts where flags are silent.
func TestWorkerConfig(t *testing.T) {
	setConfig(t, map[string]any{"scheduler-address": "tls://10.9.9.9:1",
		"distributed.worker.lifetime.duration": "2 hours", "distributed.worker.lifetime.restart": true})
	w := specsOf(t)[0]
	if w.Scheduler != "tls://10.9.9.9:1" || w.Lifetime != 2*time.Hour || !w.LifetimeRestart {
		t.Errorf("%+v", w)
	}
	if w := specsOf(t, "--lifetime", "1h", "--no-lifetime-restart")[0]; w.Lifetime != time.Hour || w.LifetimeRestart {
		t.Errorf("%+v", w)
	}
}

// Preloads of nannies are those of the flags, or else of the configuration.
func TestNannyPreload(t *testing.T) {
	before, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	defer config.SetDefault(before)
	own, err := config.Load(config.Options{Env: []string{"DASK_DISTRIBUTED__NANNY__PRELOAD=['a']",
		"DASK_DISTRIBUTED__NANNY__PRELOAD_ARGV=['x', 'y']"}})
	if err != nil {
		t.Fatal(err)
	}
	config.SetDefault(own)
	for _, c := range []struct {
		flags         workerFlags
		modules, argv []string
	}{
		{workerFlags{}, []string{"a"}, []string{"x", "y"}},
		{workerFlags{preloadNanny: []string{"b"}}, []string{"b"}, []string{"x", "y"}},
		{workerFlags{preloadNanny: []string{"b"}, preloadNannyArgv: []string{"z"}}, []string{"b"}, []string{"z"}},
		{workerFlags{noPython: true}, nil, nil},
	} {
		modules, argv, err := c.flags.nannyPreload()
		if err != nil || !slices.Equal(modules, c.modules) || !slices.Equal(argv, c.argv) {
			t.Errorf("%+v: got %q, %q, %v, want %q, %q", c.flags, modules, argv, err, c.modules, c.argv)
		}
	}
}
