//go:build chaos

package chaos

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/cluster"
	"go.millstream.dev/scheduler"
)

// remoteWorker starts a worker in a network namespace of its own and plugs it into the bridge.
func remoteWorker(t *testing.T, number int, address, tls string) host {
	t.Helper()
	return hostedWorker(t, number, fmt.Sprintf("ns%d", number), address, tls, "--nthreads", "2",
		"--data-connections", "none", "--retire-timeout", "3s", "--log-level", "info")
}

// hostedWorker is a worker on a host of its own, with a network and a name; more are further flags.
func hostedWorker(t *testing.T, number int, name, address, tls string, more ...string) host {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The shell waits until the cable is there, then becomes the worker.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	c := program(t, name, func(cmd *exec.Cmd) {
		args := []string{"sh", "-c", `read _ && hostname "$1" && shift && exec "$0" "$@"`, self, name, "worker",
			address, "--tls-dir", tls, "--name", name,
			"--no-nanny", "--no-dashboard", "--local-directory", t.TempDir()}
		cmd.Path, cmd.Args, cmd.Stdin = "/bin/sh", append(args, more...), r
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS
	})
	r.Close()
	h := plug(t, number, c.cmd.Process.Pid)
	if _, err := io.WriteString(w, "\n"); err != nil {
		t.Fatal(err)
	}
	return h
}

// A worker is cut off from the scheduler and from its peers for a while: shorter than the scheduler waits and
// nothing happens; longer, and its work is done elsewhere and it comes back when it can.
func TestPartition(t *testing.T) {
	if !inside(t) {
		return
	}
	const ttl = 4 * time.Second
	bridge(t)
	c, cl := local(t, cluster.Config{Workers: -1, Host: bridgeHost, Scheduler: func(cfg *scheduler.Config) {
		cfg.WorkerTTL = ttl
	}})
	tls := filepath.Join(t.TempDir(), "tls")
	if _, err := c.WriteCredentials(tls); err != nil {
		t.Fatal(err)
	}
	var hosts []host
	for i := range 4 {
		hosts = append(hosts, remoteWorker(t, i, c.Address(), tls))
	}
	await(t, "four workers are there", func() bool { return registered(t, c, "") == 4 })
	p := plan{blocks: pick(420, 60), layers: 6, seed: 14}
	calm := p.undisturbed(t, cl, false)
	start := time.Now()
	run := p.submit(t, cl, false)
	collected := make(chan uint64, 1)
	go func() { collected <- run.collect() }()
	var story []string
	for i, d := range pick([]time.Duration{time.Second, 2 * time.Second, 8 * time.Second, 30 * time.Second},
		[]time.Duration{time.Second, 6 * time.Second}) {
		h := hosts[i%len(hosts)]
		time.Sleep(2 * time.Second)
		if run.progress() == 1 {
			t.Fatal("the graph was over too soon: make it larger")
		}
		before := run.progress()
		h.pull(t)
		least := 4
		for cut := time.Now(); time.Since(cut) < d; time.Sleep(100 * time.Millisecond) {
			least = min(least, registered(t, c, ""))
		}
		after := run.progress()
		h.insert(t)
		healed := time.Now()
		await(t, "all four are there again", func() bool { return registered(t, c, "") == 4 })
		story = append(story, fmt.Sprintf("%v: %d workers left, progress %.0f to %.0f %%, back after %v", d, least,
			100*before, 100*after, time.Since(healed).Round(100*time.Millisecond)))
		if d < ttl/2 && least != 4 {
			t.Errorf("a worker was given up after %v", d)
		}
		if d > 2*ttl && least != 3 {
			t.Errorf("a worker that was gone for %v was not given up", d)
		}
	}
	disturbed := <-collected
	t.Logf("%d tasks in %v; partitions of %s; hash %x, undisturbed %x", p.tasks(),
		time.Since(start).Round(time.Millisecond), strings.Join(story, "; "), disturbed, calm)
	if disturbed != calm {
		t.Error("the disturbed run gave another result")
	}
}
