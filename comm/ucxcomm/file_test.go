//go:build cgo

package ucxcomm

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/testkit/commtest"
	"go.millstream.dev/internal/testkit/leak"
)

// files makes comms by file.
type files struct{ b *fileBackend }

func (n files) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	_, loc := commaddr.Parse(address)
	return comm.Connect(ctx, address, cfg, func(ctx context.Context) (comm.Comm, error) {
		return n.b.Dial(ctx, loc, cfg)
	})
}

func (n files) Listen(ctx context.Context, address string, cfg comm.ListenConfig) (comm.Listener, error) {
	_, loc := commaddr.Parse(address)
	return n.b.Listen(ctx, loc, cfg)
}

func TestFileConformance(t *testing.T) {
	commtest.Run(t, commtest.Factory{Network: files{newFile(Settings{})}, Address: FileScheme + "://" + t.TempDir() +
		"/", Rounds: 40, Large: 9 << 20})
}

// startFileEcho is another process that echoes to those who have read its file.
func startFileEcho(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"="+fileRole+path, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); { // UCX logs to standard output too
		if strings.Contains(lines.Text(), FileScheme+"://") {
			return cmd
		}
	}
	t.Fatal("the other process does not listen")
	return nil
}

func exchange(t *testing.T, ctx context.Context, c comm.Comm, n int) {
	t.Helper()
	if err := c.Write(ctx, msg([]byte("hello"), make([]byte, n))); err != nil {
		t.Fatal(err)
	}
	m, err := c.Read(ctx)
	if err != nil || m.Size() != int64(n)+5 {
		t.Fatalf("the echo: %v, %v", m, err)
	}
	m.Release()
}

// A killed process is noticed by who waits for it and by who does not; its file is no hindrance for the next one.
func TestFileDeath(t *testing.T) {
	ctx := testContext(t)
	path := filepath.Join(t.TempDir(), "echo")
	b := newFile(Settings{})
	p := startFileEcho(t, path)
	if _, err := b.Listen(ctx, path, comm.ListenConfig{}); err == nil ||
		!strings.Contains(err.Error(), "another process serves the file") {
		t.Errorf("two processes with one file: %v", err)
	}
	var comms []comm.Comm
	for range 3 {
		c, err := b.Dial(ctx, path, comm.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abort()
		exchange(t, ctx, c, 100_000)
		comms = append(comms, c)
	}
	read, written := make(chan error, 1), make(chan error, 1)
	go func() { _, err := comms[0].Read(ctx); read <- err }()
	_ = p.Process.Signal(os.Kill)
	go func() {
		for {
			if err := comms[1].Write(ctx, msg(make([]byte, 1<<20))); err != nil {
				written <- err
				return
			}
		}
	}()
	for _, err := range []error{<-read, <-written} {
		if !errors.Is(err, comm.ErrClosed) {
			t.Errorf("a comm with a process that was killed: %v", err)
		}
	}
	select {
	case <-comms[2].Done():
	case <-ctx.Done():
		t.Error("a comm that nobody uses does not notice")
	}
	_ = p.Wait()
	if _, err := b.Dial(ctx, path, comm.DialConfig{}); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("the file of a process that was killed: %v", err)
	}
	startFileEcho(t, path)
	c, err := b.Dial(ctx, path, comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, ctx, c, 10)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Neither end has a socket of IP.
func TestFileWithoutSockets(t *testing.T) {
	if v := os.Getenv("UCX_TLS"); v != "" {
		t.Setenv("UCX_TLS", "^tcp")
	}
	ctx := testContext(t)
	// The engine of an earlier test has sockets until it expires.
	for {
		sockets, err := leak.IPSockets(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if len(sockets) == 0 {
			break
		}
		select {
		case <-time.After(engineLinger):
		case <-ctx.Done():
			t.Fatalf("sockets of earlier tests: %q, want none", sockets)
		}
	}
	path := filepath.Join(t.TempDir(), "echo")
	p := startFileEcho(t, path)
	c, err := newFile(Settings{}).Dial(ctx, path, comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	exchange(t, ctx, c, 1<<20)
	for _, pid := range []int{os.Getpid(), p.Process.Pid} {
		sockets, err := leak.IPSockets(pid)
		if err != nil {
			t.Fatal(err)
		}
		if len(sockets) > 0 {
			t.Errorf("process %d has %q", pid, sockets)
		}
	}
}

// What cannot be an address is refused with the reason, for good where waiting does not help.
func TestFileBadAddresses(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte("something of value"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ address, want string }{
		{"ucx-file://scheduler", "absolute path"},
		{"ucx-file://", "absolute path"},
		{"ucx-file://" + junk, "not the address of a UCX worker"},
		{"ucx-file://" + dir, "not a regular file"},
		{"ucx-file:///dev/zero", "not a regular file"},
	} {
		cfg := comm.DialConfig{Timeout: time.Minute} // none of them waits for it
		if _, err := comm.Dial(t.Context(), tc.address, cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Dial(%s): %v", tc.address, err)
		}
	}
	if _, err := comm.Listen(t.Context(), "ucx-file://"+junk, comm.ListenConfig{}); err == nil ||
		!strings.Contains(err.Error(), "not an address file") {
		t.Errorf("a file that is something else: %v", err)
	}
	if got, _ := os.ReadFile(junk); string(got) != "something of value" {
		t.Errorf("it is %q now", got)
	}
	if _, err := comm.Listen(t.Context(), "ucx-file://"+dir+"/", comm.ListenConfig{Interface: "lo"}); err == nil {
		t.Error("it listens on an interface")
	}
	if _, err := comm.Dial(t.Context(), "ucx-file://"+dir+"/none",
		comm.DialConfig{Timeout: 50 * time.Millisecond}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a file that nobody has written yet: %v", err)
	}
}

// An invitation that does not fit is refused, and the dialing side hears of it.
func TestFileInvitations(t *testing.T) {
	ctx := testContext(t)
	l, err := comm.Listen(ctx, "ucx-file://"+t.TempDir()+"/", comm.ListenConfig{Admit: func(_ string, c []byte) bool {
		return string(c) == "right"
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if c, err := comm.Dial(ctx, l.ContactAddr(), comm.DialConfig{Invitation: []byte("wrong")}); err == nil {
		c.Abort()
		t.Error("it was let in")
	}
	c, err := comm.Dial(ctx, l.ContactAddr(), comm.DialConfig{Invitation: []byte("right")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if host, err := comm.AddressHost(l.ContactAddr()); host == "" || err != nil {
		t.Errorf("it is on %q, %v", host, err)
	}
	local, err := comm.LocalAddressFor(ctx, l.ContactAddr())
	if _, loc := commaddr.Parse(l.ContactAddr()); err != nil || local != "ucx-file://"+filepath.Dir(loc)+"/" {
		t.Errorf("beside it is %q, %v", local, err)
	}
}
