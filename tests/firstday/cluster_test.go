package firstday

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// service is a process that runs until the test ends.
type service struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	out  lockedBuffer
}

func (s *service) text() string { return s.out.String() }

// serve starts a process and ends it with the test as Ctrl-C would.
func serve(t *testing.T, dir string, binary func() (string, error), args ...string) *service {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	s := &service{name: args[0], cmd: exec.Command(path, args...), done: make(chan struct{})}
	s.cmd.Dir = dir
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-s.done:
		case <-time.After(limit):
			_ = s.cmd.Process.Kill()
			<-s.done
			t.Errorf("%s did not end; it printed\n%s", s.name, s.text())
		}
		if t.Failed() {
			t.Logf("%s printed\n%s", s.name, s.text())
		}
	})
	return s
}

// await waits until a condition holds.
func (s *service) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !holds() {
		select {
		case <-s.done:
			t.Fatalf("%s ended before %s; it printed\n%s", s.name, what, s.text())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: no %s within %v; it printed\n%s", s.name, what, limit, s.text())
		}
	}
}

// printed waits for a line with the prefix and returns the rest of it.
func (s *service) printed(t *testing.T, prefix string) (rest string) {
	t.Helper()
	s.await(t, prefix, func() bool {
		for line := range strings.Lines(s.text()) {
			if strings.HasPrefix(line, prefix) && strings.HasSuffix(line, "\n") {
				rest = strings.TrimSpace(strings.TrimPrefix(line, prefix))
				return true
			}
		}
		return false
	})
	return rest
}

// A program is scheduler, worker and client of a cluster with certificates: by the folder and
// the address, and by the scheduler's file alone.
func TestCertificates(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	certs, file := filepath.Join(dir, "certs"), filepath.Join(dir, "scheduler.json")
	s := serve(t, dir, program, "scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0",
		"--tls-dir", "certs", "--scheduler-file", file)
	address := s.printed(t, "scheduler at ")
	w := serve(t, dir, program, "worker", "--scheduler-file", file, "--dashboard-address", "127.0.0.1:0")
	w.printed(t, "worker")

	run(t, program, "connect-with", address, certs, "").wants(t, 0, "result: 144")
	run(t, program, "connect-with", "", "", file).wants(t, 0, "result: 144")

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var content struct{ TLS map[string]string }
	if err := json.Unmarshal(text, &content); err != nil || content.TLS["dir"] != certs ||
		content.TLS["client-key"] != filepath.Join(certs, "client-key.pem") {
		t.Errorf("scheduler file: got %v %v, want the folder %s", content.TLS, err, certs)
	}
	if strings.Contains(string(text), "PRIVATE") {
		t.Errorf("the scheduler file has a key:\n%s", text)
	}
	run(t, command, "status", address, "--tls-dir", certs).wants(t, 0, "scheduler  "+address, "workers    1 with",
		"memory")
	run(t, command, "status", "--scheduler-file", file, "--json").wants(t, 0, `"workers": [`, `"tasks": {`)
	run(t, program, "connect", strings.Replace(address, "tls://", "tcp://", 1)).wants(t, 1,
		"answered with a TLS alert; use a tls:// address")
}

// Programs of another version than the workers' never get results of other code, and a warning says
// why they wait, as it does for those of a cluster without workers.
func TestVersions(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	s := serve(t, dir, program, "scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0")
	address := s.printed(t, "scheduler at ")
	run(t, program, "wait", address).wants(t, 0, "reason: no-workers", "no workers have joined")
	dashboard := s.printed(t, "dashboard at ")
	for path, want := range map[string]string{"": "<title>", "status": "<title>", "json/identity.json": address,
		"metrics": "dask_scheduler_tasks"} {
		if page := get(t, dashboard+path); !strings.Contains(page, want) {
			t.Errorf("dashboard, /%s: got %.2000s, want %q in it", path, page, want)
		}
	}
	w := serve(t, dir, program, "worker", address, "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")
	w.printed(t, "worker")
	run(t, program, "wait", address).wants(t, 0, "result: 49")
	for tag, want := range map[string]string{"changed": "reason: build", "extra": "reason: functions"} {
		other := sync.OnceValues(func() (string, error) {
			return buildModule(tag, filepath.Join("testdata", "program"), "-tags", tag)
		})
		run(t, other, "wait", address).wants(t, 0, want, "!result:")
	}
}

// get returns the page at a URL.
func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: got %s %v, want a page", url, resp.Status, err)
	}
	return string(text)
}
