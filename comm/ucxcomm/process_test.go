//go:build cgo

package ucxcomm

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/comm"
)

// echoProcess is another process that echoes. It is killed with the test at the latest.
type echoProcess struct {
	cmd  *exec.Cmd
	loc  string
	done bool
}

func startEcho(t *testing.T, backend string) *echoProcess {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"="+backend, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &echoProcess{cmd: cmd}
	t.Cleanup(p.kill)
	lines := bufio.NewScanner(out)
	for lines.Scan() { // UCX logs to standard output too
		if _, loc, ok := strings.Cut(lines.Text(), "ucxx://"); ok {
			p.loc = loc
			return p
		}
	}
	t.Fatalf("the other process tells no address: %v", lines.Err())
	return nil
}

func (p *echoProcess) kill() {
	if !p.done {
		p.done = true
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// A killed process is noticed by a read that waits, by a write that waits, and by a comm
// that nobody uses; messages passed before.
func TestDeath(t *testing.T) {
	for name, b := range backends {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			p := startEcho(t, name)
			var comms []comm.Comm
			for range 3 {
				c, err := b.Dial(ctx, p.loc, comm.DialConfig{})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Abort()
				if err := c.Write(ctx, msg([]byte("hello"), make([]byte, 100_000))); err != nil {
					t.Fatal(err)
				}
				m, err := c.Read(ctx)
				if err != nil || m.Size() != 100_005 {
					t.Fatalf("the echo: %v, %v", m, err)
				}
				comms = append(comms, c)
			}
			reading, writing := make(chan error, 1), make(chan error, 1)
			go func() { _, err := comms[0].Read(ctx); reading <- err }()
			// A stopped process does not read: the write hangs until it dies.
			if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			go func() { writing <- comms[1].Write(ctx, msg([]byte("big"), make([]byte, 64<<20))) }()
			time.Sleep(50 * time.Millisecond)
			select {
			case err := <-writing:
				t.Errorf("the write ended early: %v", err)
			default:
			}
			p.kill()
			for who, ch := range map[string]chan error{"read": reading, "write": writing} {
				select {
				case err := <-ch:
					if !errors.Is(err, comm.ErrClosed) {
						t.Errorf("the %s ended with %v", who, err)
					}
				case <-ctx.Done():
					t.Fatalf("the %s still waits", who)
				}
			}
			for i, c := range comms {
				select {
				case <-c.Done():
				case <-ctx.Done():
					t.Fatalf("comm %d lives on", i)
				}
				if err := c.Close(); err != nil {
					t.Errorf("Close of comm %d: %v", i, err)
				}
			}
		})
	}
}

// What a process that is dead now had announced and nobody has read is dropped, and the
// worker goes on.
func TestUnreadOfTheDead(t *testing.T) {
	for name, b := range backends {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			for range 2 {
				p := startEcho(t, name)
				c, err := b.Dial(ctx, p.loc, comm.DialConfig{})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Abort()
				// It comes back, and stays unread.
				if err := c.Write(ctx, msg([]byte("hello"), make([]byte, 1<<20))); err != nil {
					t.Fatal(err)
				}
				time.Sleep(50 * time.Millisecond)
				p.kill()
				select {
				case <-c.Done():
				case <-ctx.Done():
					t.Fatal("the comm lives on")
				}
				c.Close()
			}
		})
	}
}

// Between two processes of one host a data connection uses shared memory, unless UCX was told not to.
func TestDataTransports(t *testing.T) {
	for _, name := range []string{"data", "data, tcp"} {
		ctx := testContext(t)
		p := startEcho(t, name)
		c, err := backends[name].Dial(ctx, p.loc, comm.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Write(ctx, msg([]byte("hello"))); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(ctx); err != nil {
			t.Fatal(err)
		}
		data := c.(*conn).data
		if data == nil {
			t.Fatalf("%s: no data connection", name)
		}
		transports, err := data.ep.Transports()
		if err != nil {
			t.Fatal(err)
		}
		shared := false
		for _, l := range transports {
			shared = shared || l.Name == "posix" || l.Name == "sysv"
		}
		if shared != (name == "data") {
			t.Errorf("%s uses %v", name, transports)
		}
	}
}

// Idle comms make no progress: their workers are asleep, however many there are.
func TestIdle(t *testing.T) {
	ctx := testContext(t)
	p := startEcho(t, "data")
	for range 100 {
		c, err := backends["data"].Dial(ctx, p.loc, comm.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() { _, _ = c.Read(ctx) }() // ends with the Close
	}
	e, err := openEngine(ctx, Settings{}.forHost("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.release()
	w, err := e.dataUCX()
	if err != nil {
		t.Fatal(err)
	}
	drives := func() uint64 { return e.meet.Stats().Drives + w.Stats().Drives }
	var before, after uint64
	for range 20 { // what connecting left behind ends first
		before = drives()
		sleep(ctx, 500*time.Millisecond)
		if after = drives(); after-before < 100 {
			return
		}
	}
	t.Errorf("%d turns of progress in half a second of idling", after-before)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
