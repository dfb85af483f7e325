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

// The test binary is the program of the workers. In addition to the real worker it has misbehaving roles.
func TestMain(m *testing.M) {
	for name, f := range map[string]func(*child, WorkerSpec) int{
		"test-steady": steadyRole, "test-crash": crashRole, "test-stubborn": stubbornRole, "test-hog": hogRole,
		"test-again": againRole, "test-silent": silentRole, "test-fds": fdsRole, "test-parent": parentRole,
		"test-early": earlyRole, "test-exit": exitRole,
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

// steadyRole obeys orders.
func steadyRole(c *child, spec WorkerSpec) int {
	c.report(event{Event: "ready", Address: "test://" + spec.Name, DataAddresses: []string{"ucxx://127.0.0.1:1"}})
	<-c.await()
	return c.reportEnd(eventClosed, nil)
}

func crashRole(c *child, _ WorkerSpec) int {
	return c.reportEnd(eventFailed, errors.New("no such planet"))
}

// exitRole exits with the code in its Contact, after the final event in its Interface.
func exitRole(c *child, spec WorkerSpec) int {
	c.report(event{Event: eventReady})
	if spec.Interface != "" {
		c.reportEnd(spec.Interface, errors.New("as the test wants"))
	}
	code, err := strconv.Atoi(spec.Contact)
	if err != nil {
		panic(err)
	}
	return code
}

// stubbornRole ignores orders.
func stubbornRole(c *child, _ WorkerSpec) int {
	c.report(event{Event: "ready"})
	for orders := c.await(); ; {
		<-orders
	}
}

// hogRole exceeds its memory limit.
func hogRole(c *child, spec WorkerSpec) int {
	c.report(event{Event: "ready"})
	hoard := make([]byte, 2*spec.MemoryLimit)
	for i := 0; i < len(hoard); i += 4096 {
		hoard[i] = 1
	}
	<-c.await()
	return int(hoard[len(hoard)-1])
}

// againRole requests a replacement once; LocalDirectory stores that.
func againRole(c *child, spec WorkerSpec) int {
	mark := spec.LocalDirectory + "/mark"
	if _, err := os.Stat(mark); err == nil {
		return steadyRole(c, spec)
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return exitFailed
	}
	c.report(event{Event: "ready"})
	return c.reportEnd(eventRestart, nil)
}

func silentRole(c *child, _ WorkerSpec) int {
	<-c.await()
	return exitDone
}

// earlyRole exits right after it was ready.
func earlyRole(c *child, _ WorkerSpec) int {
	c.report(event{Event: "ready"})
	return exitFailed
}

// fdsRole reports its descriptors, and those of a process that it starts.
func fdsRole(c *child, _ WorkerSpec) int {
	var own []string
	fds, err := leak.FDs()
	for _, fd := range fds {
		own = append(own, fd.Target)
	}
	theirs, err2 := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
	in, err3 := os.ReadFile("/dev/stdin")
	c.report(event{Event: "ready", Address: fmt.Sprint(err, err2, err3, len(in)),
		DataAddresses: append(own, string(theirs), os.Getenv(RoleVariable))})
	<-c.await()
	return exitDone
}

// parentRole starts a child, reports its PID and exits without closing it.
func parentRole(c *child, spec WorkerSpec) int {
	mainCalled.Store(true)
	n, err := StartNanny(WorkerSpec{Scheduler: "x", Name: "grandchild"}, NannyConfig{role: "test-stubborn"})
	if err != nil {
		return exitFailed
	}
	for n.Info().State != Running {
		time.Sleep(time.Millisecond)
	}
	c.report(event{Event: "ready", Address: fmt.Sprint(n.Info().PID)})
	<-c.await()
	return exitDone
}

// gone waits until a process does not exist.
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

// The number of events of a child is bounded, and malformed ones are dropped.
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
