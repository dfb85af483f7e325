//go:build containers

package containers

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	repository = "../.."
	image      = "localhost/millstream"
	uid        = "10001" // of the user of the image
	// patience is the limit of everything that is waited for.
	patience = 2 * time.Minute
)

// folder returns what scripts/setup containers has made.
func folder(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(repository, ".local/containers"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, "base.tar")); err != nil {
		t.Fatalf("%v; run scripts/setup containers", err)
	}
	return path
}

// podmanCommand returns a command of podman with images and settings of this repository.
func podmanCommand(t *testing.T, ctx context.Context, args ...string) *exec.Cmd {
	t.Helper()
	at := folder(t)
	cmd := exec.CommandContext(ctx, "podman", append([]string{"--root", filepath.Join(at, "storage"),
		"--runroot", filepath.Join(at, "run")}, args...)...)
	cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+filepath.Join(at, "containers.conf"))
	return cmd
}

// try runs podman and returns its standard output, and both outputs in the error text.
func try(t *testing.T, args ...string) (string, string, error) {
	t.Helper()
	var out, all bytes.Buffer
	cmd := podmanCommand(t, context.Background(), args...)
	cmd.Stdout, cmd.Stderr = &out, &all
	err := cmd.Run()
	return out.String(), out.String() + all.String(), err
}

// podman runs podman, which must succeed, and returns its standard output.
func podman(t *testing.T, args ...string) string {
	t.Helper()
	out, all, err := try(t, args...)
	if err != nil {
		t.Fatalf("podman %s: %v: %s", strings.Join(args, " "), err, all)
	}
	return strings.TrimSpace(out)
}

// once runs the image until it exits, without a network.
func once(t *testing.T, flags, command []string) string {
	t.Helper()
	args := append([]string{"run", "--rm", "--network", "none"}, flags...)
	return podman(t, append(append(args, image), command...)...)
}

// volume creates a volume that is removed at the end of the test.
func volume(t *testing.T, name string) string {
	t.Helper()
	name = "test-" + name
	podman(t, "volume", "rm", "--force", name)
	podman(t, "volume", "create", name)
	t.Cleanup(func() { podman(t, "volume", "rm", "--force", name) })
	return name
}

// cluster is a group of containers with one network namespace, that of the first.
type cluster struct {
	t     *testing.T
	names []string
}

// start starts a container of the image. Its output is printed if the test fails.
func (c *cluster) start(name string, flags, command []string) {
	c.t.Helper()
	network := "none"
	if len(c.names) > 0 {
		network = "container:" + c.names[0]
	}
	// What a stopped run has left.
	podman(c.t, "rm", "--force", "--ignore", "--depend", "--time", "1", name)
	args := append([]string{"run", "--detach", "--name", name, "--network", network}, flags...)
	podman(c.t, append(append(args, image), command...)...)
	c.names = append(c.names, name)
	c.t.Cleanup(func() {
		if c.t.Failed() {
			_, all, _ := try(c.t, "logs", name)
			c.t.Logf("output of %s:\n%s", name, all)
		}
		podman(c.t, "rm", "--force", "--ignore", "--depend", "--time", "1", name)
	})
}

// run runs the program in the first container, which has the scheduler, and returns its standard output.
func (c *cluster) run(args ...string) (string, string, error) {
	return try(c.t, append([]string{"exec", c.names[0], "millstream"}, args...)...)
}

// waitWorkers waits until the scheduler has workers of these names.
func (c *cluster) waitWorkers(names ...string) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		out, all, err := c.run("status", "--scheduler-file", "/cluster/scheduler.json", "--json")
		var report struct {
			Workers []struct{ Name, Status string }
		}
		if err == nil {
			err = json.Unmarshal([]byte(out), &report)
		}
		found := map[string]bool{}
		for _, w := range report.Workers {
			found[w.Name] = w.Status == "running"
		}
		missing := 0
		for _, name := range names {
			if !found[name] {
				missing++
			}
		}
		if err == nil && missing == 0 && len(report.Workers) == len(names) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("got workers %v, want %q: %v: %s", found, names, err, all)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// finding is a line of `millstream doctor --json`.
type finding struct{ ID, Severity, Title, Detail, Fix string }

// transfers moves data between all pairs of workers and returns the findings by "FROM → TO".
func (c *cluster) transfers() map[string]finding {
	c.t.Helper()
	out, all, err := c.run("doctor", "tls://127.0.0.1:8786", "--tls-dir", "/cluster/certs", "--json")
	if err != nil {
		c.t.Fatalf("doctor: %v: %s", err, all)
	}
	var report struct{ Findings []finding }
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		c.t.Fatalf("doctor: %v: %s", err, all)
	}
	pairs := map[string]finding{}
	for _, f := range report.Findings {
		pair, _, _ := strings.Cut(f.Title, ":")
		pairs[pair] = f
		c.t.Log(f.Severity, f.Title)
	}
	return pairs
}
