package ucx

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func init() {
	roles["descriptors"] = listDescriptors
	roles["descriptors-peer"] = descriptorsPeer
}

// listDescriptors says what is open in this process. Reading the links one by one opens
// nothing: a listing of the directory would add a descriptor, and Go's poller two more.
func listDescriptors(c *control) error {
	b := make([]byte, 256)
	for fd := range 1024 {
		n, err := syscall.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd), b)
		if err == nil && !strings.Contains(string(b[:n]), "/cpu.") { // Go's runtime watches its CPU limit
			c.say("%d %s", fd, b[:n])
		}
	}
	return nil
}

// descriptorsPeer connects in both ways and stays until the test has gone.
func descriptorsPeer(c *control) error {
	ctx, cancel := roleContext()
	defer cancel()
	w, done, err := roleWorker(Config{Options: map[string]string{"TLS": "tcp,self"}})
	if err != nil {
		return err
	}
	defer done()
	at := c.next()
	if len(at) != 2 {
		return fmt.Errorf("want two addresses, have %q", at)
	}
	line, err := w.Dial(ctx, at[0])
	if err != nil {
		return err
	}
	sock, err := w.DialSocket(ctx, at[1], nil)
	if err != nil {
		return err
	}
	for tag, ep := range []*Endpoint{line, sock} {
		if err := ep.Send(ctx, Bytes(make([]byte, 100<<10)), uint64(tag)); err != nil {
			return err
		}
	}
	c.say("sent")
	c.next()
	return nil
}

// A child of a process that uses UCX gets none of its descriptors: sockets that a child
// holds open would keep the peers from noticing this process's death.
func TestChildrenInheritNoDescriptors(t *testing.T) {
	ctx := testContext(t)
	w := newWorker(t, Config{Options: map[string]string{"TLS": "tcp,self"}}, WorkerConfig{})
	before := openDescriptors(t)
	l, err := w.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sl, err := w.ListenSocket(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer sl.Close()
	peer := startHelper(t, "descriptors-peer")
	peer.say("%s %s", l.Addr(), sl.Addr())
	line, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	sock, err := sl.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	b := make([]byte, 100<<10)
	for tag := range uint64(2) {
		if _, err := w.Recv(ctx, Bytes(b), tag, FullMask); err != nil {
			t.Fatal(err)
		}
	}
	peer.hear("sent")
	if n := openDescriptors(t) - before; n < 4 {
		t.Fatalf("two listeners and two connections over tcp have %d descriptors: this test sees nothing", n)
	}

	// Descriptors that UCX opens by itself are marked when the worker next has nothing to do.
	var more []string
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if more = childDescriptors(t); len(more) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a child inherited\n%s", strings.Join(more, "\n"))
		}
	}
	if !peer.alive() {
		t.Error("the peer has gone, and its connections with it: nothing was there to inherit")
	}
	peer.quit()
}

// childDescriptors starts a child and returns what it has beside stdin, stdout, stderr.
func childDescriptors(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"=descriptors", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 3 || !strings.HasPrefix(lines[2], "2 ") {
		t.Fatalf("the child does not list its own descriptors: %q", out)
	}
	return lines[3:]
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}
