package ucx

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// roleVariable makes the test binary a helper process instead of running tests.
const roleVariable = "MILLSTREAM_UCX_TEST_ROLE"

// roles are what a helper process can be; files with tests add to it in init. A role
// gets the lines that the test writes and answers in lines.
var roles = map[string]func(*control) error{}

// control is a helper's side of the pipes to its test.
type control struct {
	in *bufio.Scanner

	mu  sync.Mutex
	out io.Writer
}

// next waits for the test's next line, split into words; nil when the test has gone.
func (c *control) next() []string {
	if !c.in.Scan() {
		return nil
	}
	return strings.Fields(c.in.Text())
}

// say sends one line to the test.
func (c *control) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, format+"\n", args...)
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(runRole(role))
	}
	// What UCX and the runtime set up once per process is no leak of a test.
	if c, err := NewContext(Config{}); err == nil {
		if w, err := c.NewWorker(WorkerConfig{}); err == nil {
			_ = w.Close()
		}
		_ = c.Close()
	}
	os.Exit(leak.Main(m))
}

func runRole(role string) int {
	f := roles[role]
	if f == nil {
		fmt.Fprintf(os.Stderr, "no role %q\n", role)
		return 2
	}
	c := &control{in: bufio.NewScanner(os.Stdin), out: os.Stdout}
	c.in.Buffer(nil, 1<<20)
	if err := f(c); err != nil {
		c.say("error %s: %v", role, err)
		return 1
	}
	return 0
}

// helper is a process that runs a role.
type helper struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	ended chan struct{} // closed after Wait
	err   error         // of Wait
}

// startHelper starts the test binary in a role. It ends with the test at the latest.
func startHelper(t testing.TB, role string, env ...string) *helper {
	t.Helper()
	return startHelperWith(t, role, nil, env...)
}

func startHelperWith(t testing.TB, role string, attr *syscall.SysProcAttr, env ...string) *helper {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), env...)
	// The race detector's runtime would sleep a second before each exit.
	cmd.Env = append(cmd.Env, "GORACE="+strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start helper %s: %v", role, err)
	}
	h := &helper{t: t, cmd: cmd, in: in, lines: make(chan string, 1024), ended: make(chan struct{})}
	go func() {
		sc := bufio.NewScanner(out)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			h.lines <- sc.Text()
		}
		close(h.lines)
		h.err = cmd.Wait()
		close(h.ended)
	}()
	t.Cleanup(h.stop)
	return h
}

// say sends the helper a line.
func (h *helper) say(format string, args ...any) {
	h.t.Helper()
	if _, err := fmt.Fprintf(h.in, format+"\n", args...); err != nil {
		h.t.Fatalf("helper has gone: %v", err)
	}
}

// helperPatience bounds a wait for a helper: generous, as CI machines are slow.
const helperPatience = 60 * time.Second

// hear waits for the helper's next line, which must begin with the word; it returns
// the other words.
func (h *helper) hear(word string) []string {
	h.t.Helper()
	select {
	case line, ok := <-h.lines:
		if !ok {
			<-h.ended
			h.t.Fatalf("helper ended (%v) while the test waited for %q", h.err, word)
		}
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != word {
			h.t.Fatalf("helper said %q, the test waited for %q", line, word)
		}
		return f[1:]
	case <-time.After(helperPatience):
		h.t.Fatalf("helper said nothing for %v; the test waited for %q", helperPatience, word)
	}
	return nil
}

// ask is say and hear.
func (h *helper) ask(word, format string, args ...any) []string {
	h.t.Helper()
	h.say(format, args...)
	return h.hear(word)
}

// signal sends the process a signal and, for SIGSTOP, waits until it has stopped.
func (h *helper) signal(s syscall.Signal) {
	h.t.Helper()
	if err := h.cmd.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
	if s != syscall.SIGSTOP {
		return
	}
	for deadline := time.Now().Add(helperPatience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.cmd.Process.Pid))
		if err != nil {
			h.t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(string(b), ") "); ok && rest[0] == 'T' {
			return
		}
	}
	h.t.Fatal("the helper did not stop")
}

// kill ends the process the hard way and waits for its end.
func (h *helper) kill() {
	_ = h.cmd.Process.Kill()
	for range h.lines { // drains what was said last
	}
	<-h.ended
}

// quit closes the helper's stdin, on which it exits, and checks that it did so well.
func (h *helper) quit() {
	h.t.Helper()
	_ = h.in.Close()
	select {
	case <-h.ended:
		if h.err != nil {
			h.t.Errorf("helper: %v", h.err)
		}
	case <-time.After(helperPatience):
		h.t.Errorf("the helper did not end")
	}
}

func (h *helper) stop() {
	_ = h.in.Close()
	select {
	case <-h.ended:
	default:
		_ = h.cmd.Process.Signal(syscall.SIGCONT)
		select {
		case <-h.ended:
		case <-time.After(5 * time.Second):
			h.kill()
		}
	}
}
