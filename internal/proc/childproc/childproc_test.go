package childproc

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func gone(t *testing.T, c *Child) {
	t.Helper()
	select {
	case <-c.Done:
	case <-time.After(time.Minute):
		t.Fatal("the child is still there")
	}
}

// The end of the context ends the program and what it has started.
func TestContextEndsTheGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1)
	c, err := Start(cmd, func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	grandchild := <-lines
	cancel()
	gone(t, c)
	if c.Err == nil {
		t.Error("a killed program has ended without an error")
	}
	deadline := time.Now().Add(time.Minute)
	for {
		state, err := os.ReadFile("/proc/" + grandchild + "/stat")
		if err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("its own child %s lives on", grandchild)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestResult(t *testing.T) {
	c, err := Start(exec.Command("true"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if gone(t, c); c.Err != nil {
		t.Error(c.Err)
	}
	if _, err := Start(exec.Command("/nowhere/program"), nil); err == nil {
		t.Error("a program that does not exist was started")
	}
}

// It has a group of its own.
func TestGroup(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Start(cmd, nil)
	if err != nil {
		t.Fatal(err)
	}
	group, err := syscall.Getpgid(cmd.Process.Pid)
	if err != nil || group != cmd.Process.Pid {
		t.Errorf("group %d of process %d, %v", group, cmd.Process.Pid, err)
	}
	_ = in.Close()
	gone(t, c)
}
