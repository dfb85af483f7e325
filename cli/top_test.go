package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"go.millstream.dev/cli/internal/top"
	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
)

func topCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	ctx := t.Context()
	c, err := cluster.Local(ctx, cluster.Config{Mode: cluster.Goroutines, Protocol: "tcp", Workers: 2, Threads: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	cl, err := c.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	f := demoGenerate.Submit(ctx, cl, client.Val(1), client.Val(2))
	if _, err := f.Result(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Release)
	return c
}

// Without a terminal there is one snapshot, as text or JSON.
func TestTopOnce(t *testing.T) {
	leak.Check(t)
	c := topCluster(t)
	code, out, errs := runLine(t, "top", c.Address(), "--interval", "100ms")
	for _, want := range []string{"scheduler  " + c.Address(), "workers    2 with 6 threads: 2 running",
		"tasks      1 memory", "failures   0 tasks erred, 0 tasks lost their worker, 0 workers left", "*WORKER"} {
		if code != 0 || !strings.Contains(out, want) || strings.Contains(out, "\x1b") {
			t.Errorf("exit code %d: got %s%s, want %q and no escapes", code, out, errs, want)
		}
	}
	code, out, errs = runLine(t, "top", c.Address(), "--json", "--interval", "100ms")
	var s top.Snapshot
	if err := json.Unmarshal([]byte(out), &s); code != 0 || err != nil || s.Threads != 6 || len(s.Workers) != 2 ||
		s.Workers[0].Threads != 3 || s.Tasks["memory"] != 1 || s.Address != c.Address() {
		t.Errorf("exit code %d, %v: got %s%s, want 2 workers of 3 threads and a result", code, err, out, errs)
	}
}

func TestTopUsage(t *testing.T) {
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"top", "no scheduler; pass an address", ExitUsage},
		{"top tcp://a:1 tcp://b:2", "tcp://b:2", ExitUsage},
		{"top tcp://a:1 --sort x", "--sort x", ExitUsage},
		{"top tcp://a:1 --sort mm", "--sort mm", ExitUsage},
		{"top tcp://a:1 --interval 1ms", "--interval 1ms", ExitUsage},
		{"top tcp://127.0.0.1:1 --timeout 1s", "scheduler at tcp://127.0.0.1:1", ExitFailure},
	} {
		code, out, errs := runLine(t, strings.Fields(c.line)...)
		if code != c.code || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%s: got %d %q %q, want %d and %q", c.line, code, out, errs, c.code, c.want)
		}
	}
}

// terminal is a process with a terminal of its own.
type terminal struct {
	t      *testing.T
	master *os.File
	seen   strings.Builder
}

func (p *terminal) wait(want string) {
	p.t.Helper()
	buf := make([]byte, 8192)
	for !strings.Contains(p.seen.String(), want) {
		n, err := p.master.Read(buf)
		p.seen.Write(buf[:n])
		if err != nil {
			p.t.Fatalf("%v; got %q, want %q", err, p.seen.String(), want)
		}
	}
	p.seen.Reset()
}

// In a terminal the view follows keys and the size, and Ctrl-C leaves the terminal as it was.
func TestTopTerminal(t *testing.T) {
	leak.Check(t)
	c := topCluster(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "millstream") // the test binary under this name is the command
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	for _, end := range []struct {
		key  string
		code int
	}{{"q", ExitOK}, {"\x03", ExitInterrupted}} {
		fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		master := os.NewFile(uintptr(fd), "/dev/ptmx")
		defer master.Close()
		resize := func(width, height uint16) {
			if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
				t.Fatal(err)
			}
		}
		resize(150, 40)
		n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		if err == nil {
			err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer slave.Close()
		before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program, "top", c.Address(), "--interval", "200ms")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p := &terminal{t: t, master: master}
		p.wait("workers    2 with 6 threads")
		p.wait("ADDRESS")
		_, _ = master.WriteString("c")
		p.wait("*CPU%")
		resize(60, 12)
		p.wait("m memory~") // the last line is cut at the new width
		_, _ = master.WriteString(end.key)
		p.wait("\x1b[?25h")
		err = cmd.Wait()
		var exit *exec.ExitError
		code := 0
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		if code != end.code {
			t.Errorf("%q: got exit code %d (%v), want %d", end.key, code, err, end.code)
		}
		after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil || *after != *before {
			t.Errorf("%q: settings of the terminal: got %+v, %v, want %+v", end.key, after, err, before)
		}
	}
}
