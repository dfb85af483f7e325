//go:build upgrade

package upgrade

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	root = "../.."
	// firstRevision is the first one whose messages later revisions understand. It is used until there is a tag.
	firstRevision = "3b3e2ac5"
	// patience is the limit of everything that is waited for.
	patience = 2 * time.Minute
	app      = "tests/upgrade/app"
)

// revision returns the revision to upgrade from.
func revision(t *testing.T) string {
	t.Helper()
	if from := os.Getenv("MILLSTREAM_UPGRADE_FROM"); from != "" {
		return from
	}
	out, err := exec.Command("git", "-C", root, "describe", "--tags", "--abbrev=0", "--match", "v*").Output()
	if err != nil {
		t.Logf("no tag; the first revision with a promise is %s", firstRevision)
		return firstRevision
	}
	return strings.TrimSpace(string(out))
}

func command(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, errs.String())
	}
	return out
}

// programs builds the command and the program of the test with both revisions. The builds of the program declare a
// common ID, as workers refuse the tasks of clients of another build.
func programs(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	if err := os.CopyFS(filepath.Join(source, app), os.DirFS(filepath.Join(root, app))); err != nil {
		t.Fatal(err)
	}
	from := revision(t)
	tar := exec.Command("tar", "-x", "-C", source)
	tar.Stdin = bytes.NewReader(command(t, root, "git", "archive", from))
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	// The program of this revision, also if the earlier one has a copy.
	text, err := os.ReadFile(filepath.Join(root, app, "main.go"))
	if err == nil {
		err = os.WriteFile(filepath.Join(source, app, "main.go"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("from %s to this revision", from)
	for name, tree := range map[string]string{"old": source, "new": root} {
		command(t, tree, "go", "build", "-buildvcs=false", "-ldflags=-X go.millstream.dev/client.build=upgrade",
			"-o", filepath.Join(dir, name), "./"+app)
		command(t, tree, "go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name+"-millstream"),
			"./cmd/millstream")
	}
	return map[string]string{"old": filepath.Join(dir, "old"), "new": filepath.Join(dir, "new")}
}

// output is that of a process, read while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start starts a server, and returns a function that ends it by SIGTERM and waits. The end of the test does, too.
func start(t *testing.T, program string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command(program, args...)
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(patience):
			t.Errorf("%s %s has not ended by SIGTERM", filepath.Base(program), args[0])
			_ = cmd.Process.Kill()
			<-done
		}
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%s %s:\n%s", filepath.Base(program), strings.Join(args, " "), out.String())
		}
	})
	return stop
}

// scheduler starts a scheduler and returns its address.
func scheduler(t *testing.T, program string, args ...string) (address string, stop func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scheduler.json")
	stop = start(t, program, append([]string{"scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
		"--scheduler-file", file}, args...)...)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var at struct{ Address string }
		if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &at) == nil && at.Address != "" {
			return at.Address, stop
		}
	}
	t.Fatal("the scheduler has not written its file")
	return "", nil
}

func worker(t *testing.T, program, address, name string) {
	t.Helper()
	start(t, program, "worker", address, "--name", name, "--nthreads", "1", "--no-dashboard", "--no-python",
		"--local-directory", t.TempDir())
}

// TestUpgrade runs clients of both revisions against schedulers of both, each with a worker of both.
func TestUpgrade(t *testing.T) {
	bin := programs(t)
	for _, of := range []string{"old", "new"} {
		t.Run("scheduler-"+of, func(t *testing.T) {
			address, _ := scheduler(t, bin[of])
			for _, name := range []string{"old", "new"} {
				worker(t, bin[name], address, name)
			}
			for _, client := range []string{"old", "new"} {
				t.Run("client-"+client, func(t *testing.T) {
					command(t, ".", bin[client], "work", address, "old", "new")
					var report struct{ Workers []struct{ Name string } }
					out := command(t, ".", bin[client]+"-millstream", "status", address, "--json")
					if err := json.Unmarshal(out, &report); err != nil || len(report.Workers) != 2 {
						t.Errorf("status: got %d workers, want 2: %v: %s", len(report.Workers), err, out)
					}
				})
			}
		})
	}
	// The journal of the earlier scheduler is read by this one.
	t.Run("journal", func(t *testing.T) {
		journal := filepath.Join(t.TempDir(), "journal")
		address, stop := scheduler(t, bin["old"], "--journal", journal)
		command(t, ".", bin["old"], "keep", address)
		stop()
		command(t, ".", bin["new"]+"-millstream", "journal", "check", journal)
		address, _ = scheduler(t, bin["new"], "--journal", journal)
		for _, client := range []string{"old", "new"} {
			command(t, ".", bin[client], "kept", address)
		}
	})
}
