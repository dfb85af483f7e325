package chaos

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/comm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/testkit/freeport"
	"go.millstream.dev/secure"
)

// child is this program as a command.
type child struct {
	cmd  *exec.Cmd
	logs *tail
	done chan struct{}
	once sync.Once
}

// program starts this program as a command, and ends it with the test.
func program(t *testing.T, name string, setup func(*exec.Cmd), args ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command("/proc/self/exe", args...), logs: &tail{}, done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = c.logs, c.logs
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if setup != nil {
		setup(c.cmd)
	}
	// The parent of Pdeathsig is a thread: this one must live as long as the child.
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			t.Logf("what %s said:\n%s", name, c.logs)
		}
	})
	return c
}

// stop asks the program to end, and makes it end after a while.
func (c *child) stop() {
	c.once.Do(func() {
		c.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-c.done:
		case <-time.After(20 * time.Second):
			c.kill()
		}
	})
}

// kill ends the program at once and returns when it is gone.
func (c *child) kill() {
	c.cmd.Process.Kill()
	<-c.done
}

// listening waits until somebody listens.
func listening(t *testing.T, port int, logs *tail) {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	for {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("nobody listens on port %d:\n%s", port, logs)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// dialTLS is how a client connects with the certificates that `scheduler --tls-dir` has made.
func dialTLS(t *testing.T, dir string) comm.DialConfig {
	t.Helper()
	settings, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	base := "distributed.comm.tls."
	restore, err := settings.SetFrom(config.Source{Kind: config.KindFlag, Name: "test"}, map[string]any{
		base + "ca-file":     filepath.Join(dir, "ca.pem"),
		base + "client.cert": filepath.Join(dir, "client-cert.pem"),
		base + "client.key":  filepath.Join(dir, "client-key.pem"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	dial, _, err := comm.FromConfig(settings, secure.Client)
	if err != nil {
		t.Fatal(err)
	}
	return dial
}

// The scheduler is killed again and again between a fifth and four fifths of a graph, and started from its
// journal: the graph goes on, clients and workers come back by themselves.
func TestKilledScheduler(t *testing.T) {
	kills := pick(10, 2)
	p := plan{blocks: pick(140, 30), layers: 6, seed: 12}
	dir := t.TempDir()
	tls, journal, port := filepath.Join(dir, "tls"), filepath.Join(dir, "journal"), freeport.Port(t)
	start := func() *child {
		c := program(t, "the scheduler", nil, "scheduler", "--host", "127.0.0.1", "--port", fmt.Sprint(port),
			"--tls-dir", tls,
			"--journal", journal, "--no-dashboard", "--log-level", "info")
		listening(t, port, c.logs)
		return c
	}
	scheduler := start()
	address := fmt.Sprintf("tls://127.0.0.1:%d", port)
	var workers []*child
	for i := range 2 {
		w := program(t, fmt.Sprintf("worker %d", i), nil, "worker", address, "--tls-dir", tls, "--name",
			fmt.Sprintf("w%d", i), "--nthreads", "4",
			"--no-dashboard", "--local-directory", dir, "--log-level", "warning")
		workers = append(workers, w)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cl, err := client.Connect(ctx, address, client.Config{Dial: dialTLS(t, tls)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cl.Close()
	}()
	calm := p.undisturbed(t, cl, true)

	began := time.Now()
	run := p.submit(t, cl, true)
	collected := make(chan uint64, 1)
	go func() { collected <- run.collect() }()
	var at []string
	for i := range kills {
		// Evenly between 20 and 80 per cent.
		want := 0.2 + 0.6*float64(i)/float64(kills)
		await(t, fmt.Sprintf("%.0f %% of the tasks are done", 100*want), func() bool { return run.progress() >= want })
		done := run.progress()
		if done > 0.8 {
			t.Fatalf("kill %d came too late: %.0f %% is done; make the graph larger", i+1, 100*done)
		}
		at = append(at, fmt.Sprintf("%.0f%%", 100*done))
		scheduler.kill()
		scheduler = start()
	}
	disturbed := <-collected
	size := int64(0)
	if entries, err := os.ReadDir(journal); err == nil {
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				size += info.Size()
			}
		}
	}
	t.Logf("%d tasks in %v; the scheduler was killed %d times, at %s; journal %d bytes; hash %x, undisturbed %x",
		p.tasks(), time.Since(began).Round(time.Millisecond), len(at), strings.Join(at, " "), size, disturbed, calm)
	if disturbed != calm {
		t.Error("the disturbed run gave another result")
	}
	for _, w := range workers { // while there is a scheduler to say goodbye to
		w.stop()
	}
}
