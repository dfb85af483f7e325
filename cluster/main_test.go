package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/proc/childproc"
	"go.millstream.dev/internal/testkit/leak"
)

// The test binary is the program whose workers are started. Besides the real worker it has
// roles that behave badly.
func TestMain(m *testing.M) {
	for name, f := range map[string]func(*child, WorkerSpec) int{
		"test-steady": steadyRole, "test-crash": crashRole, "test-stubborn": stubbornRole, "test-hog": hogRole,
		"test-again": againRole, "test-silent": silentRole, "test-fds": fdsRole, "test-parent": parentRole,
		"test-young": youngRole, "test-exit": exitRole,
	} {
		roles[name] = func() int { return testRole(f) }
	}
	Main()
	childproc.NoRaceSleep()
	os.Exit(m.Run())
}

func testRole(f func(*child, WorkerSpec) int) int {
	c, err := newChild()
	if err != nil {
		childFailure("%v", err)
		return exitUsage
	}
	var spec WorkerSpec
	if err := c.orders.Decode(&spec); err != nil {
		childFailure("%v", err)
		return exitUsage
	}
	return f(c, spec)
}

// steadyRole does what it is told.
func steadyRole(c *child, spec WorkerSpec) int {
	c.tell(event{Event: "ready", Address: "test://" + spec.Name, DataAddresses: []string{"lane"}})
	<-c.await()
	return c.farewell(eventClosed, nil)
}

func crashRole(c *child, _ WorkerSpec) int {
	return c.farewell(eventFailed, errors.New("no such planet"))
}

// exitRole exits with the code in its Contact, after the farewell that its Interface names.
func exitRole(c *child, spec WorkerSpec) int {
	c.tell(event{Event: eventReady})
	if spec.Interface != "" {
		c.farewell(spec.Interface, errors.New("as the test wants"))
	}
	code, err := strconv.Atoi(spec.Contact)
	if err != nil {
		panic(err)
	}
	return code
}

// stubbornRole hears nothing.
func stubbornRole(c *child, _ WorkerSpec) int {
	c.tell(event{Event: "ready"})
	for orders := c.await(); ; {
		<-orders
	}
}

// hogRole uses more memory than it may.
func hogRole(c *child, spec WorkerSpec) int {
	c.tell(event{Event: "ready"})
	hoard := make([]byte, 2*spec.MemoryLimit)
	for i := 0; i < len(hoard); i += 4096 {
		hoard[i] = 1
	}
	<-c.await()
	return int(hoard[len(hoard)-1])
}

// againRole asks for another one once; LocalDirectory is where it remembers that.
func againRole(c *child, spec WorkerSpec) int {
	mark := spec.LocalDirectory + "/mark"
	if _, err := os.Stat(mark); err == nil {
		return steadyRole(c, spec)
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return exitFailed
	}
	c.tell(event{Event: "ready"})
	return c.farewell(eventRestart, nil)
}

func silentRole(c *child, _ WorkerSpec) int {
	<-c.await()
	return exitDone
}

// youngRole dies right after it was ready.
func youngRole(c *child, _ WorkerSpec) int {
	c.tell(event{Event: "ready"})
	return exitFailed
}

// fdsRole tells what it, and what a process that it starts, holds.
func fdsRole(c *child, _ WorkerSpec) int {
	var own []string
	fds, err := leak.FDs()
	for _, fd := range fds {
		own = append(own, fd.Target)
	}
	theirs, err2 := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
	in, err3 := os.ReadFile("/dev/stdin")
	c.tell(event{Event: "ready", Address: fmt.Sprint(err, err2, err3, len(in)),
		DataAddresses: append(own, string(theirs), os.Getenv(RoleVariable))})
	<-c.await()
	return exitDone
}

// parentRole has a child of its own, tells its pid and dies without a word to it.
func parentRole(c *child, spec WorkerSpec) int {
	mainCalled.Store(true)
	n, err := StartNanny(WorkerSpec{Scheduler: "x", Name: "grandchild"}, NannyConfig{role: "test-stubborn"})
	if err != nil {
		return exitFailed
	}
	for n.Info().State != Running {
		time.Sleep(time.Millisecond)
	}
	c.tell(event{Event: "ready", Address: fmt.Sprint(n.Info().PID)})
	<-c.await()
	return exitDone
}

// gone waits until a process does not exist any more.
func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(text), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there: %s", pid, text)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func signalTo(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if pid <= 0 {
		t.Fatalf("no process %d", pid)
	}
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// What a child tells is bounded, and nonsense ends it.
func FuzzReadEvents(f *testing.F) {
	for _, e := range []event{{Event: "ready", Address: "a", DataAddresses: []string{"b"}}, {Event: "failed",
		Error: "x"}} {
		text, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text) + "\n" + string(text))
	}
	f.Add(`{"event": 1}`)
	f.Add(`[[[[`)
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		readEvents(strings.NewReader(text), func(e event) { n++ })
		if n > len(text) {
			t.Errorf("%d events in %d bytes", n, len(text))
		}
	})
}
