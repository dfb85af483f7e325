package rig

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

	"go.millstream.dev/internal/proc/childproc"
)

// Process is a process of a test, a scheduler or a worker.
type Process struct {
	// Name is what the log calls it, Address where it listens.
	Name, Address string

	t     testing.TB
	cmd   *exec.Cmd
	child *childproc.Child
	log   *Log
}

// Patience is how long anything may take on a busy machine before a test gives up.
const Patience = 2 * time.Minute

// launch starts a command and waits until a line of its output, either one, answers ready.
func (r *Rig) launch(name string, cmd *exec.Cmd, ready func(line string) bool) *Process {
	r.Helper()
	p := &Process{Name: name, t: r.TB, cmd: cmd, log: &Log{name: name}}
	cmd.Env = r.env()
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		r.Fatal(err)
	}
	up := make(chan struct{})
	var mu sync.Mutex // both outputs are read at once, and the caller reads what ready has found
	isUp := false
	read := func(pipe io.Reader) {
		lines := bufio.NewReader(pipe)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				p.log.add(line)
				mu.Lock()
				if !isUp && ready(strings.TrimSpace(line)) {
					isUp = true
					close(up)
				}
				mu.Unlock()
			}
			if err != nil {
				return
			}
		}
	}
	p.child, err = childproc.Start(cmd, func() {
		var both sync.WaitGroup
		both.Go(func() { read(errs) })
		read(out)
		both.Wait()
	})
	if err != nil {
		r.Fatalf("%s: %v", name, err)
	}
	r.Cleanup(func() {
		p.Kill()
		if r.Failed() && os.Getenv("LOUD") == "" {
			r.Logf("log of %s:\n%s", name, p.log)
		}
	})
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case <-up:
	case <-p.child.Done:
		r.Fatalf("%s has ended before it was ready: %v\n%s", name, p.child.Err, p.log)
	case <-late.C:
		r.Fatalf("%s is not ready after %v\n%s", name, Patience, p.log)
	}
	return p
}

// PID of the process; that of a nanny, not of its worker.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is what the process has written so far, or the end of it.
func (p *Process) Log() string { return p.log.String() }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.child.Done }

// Kill ends the process and all of its group with SIGKILL, and waits for its end. It is idempotent.
func (p *Process) Kill() {
	select {
	case <-p.child.Done:
		// What it has started may live on in its group.
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		return
	default:
	}
	_ = childproc.Kill(p.cmd)
	<-p.child.Done
}

// Signal sends a signal to the process alone.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v", p.Name, err)
	}
}

// Stop ends the process gently: SIGTERM, and SIGKILL when that has not helped in time.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.child.Done:
	case <-time.After(30 * time.Second):
	}
	p.Kill()
}

// Wait waits for the end of the process and returns how it was.
func (p *Process) Wait() error {
	p.t.Helper()
	select {
	case <-p.child.Done:
		return p.child.Err
	case <-time.After(Patience):
		p.t.Fatalf("%s has not ended after %v\n%s", p.Name, Patience, p.log)
		return nil
	}
}

// Log keeps the end of what a process writes.
type Log struct {
	name string
	mu   sync.Mutex
	buf  []byte // mu
}

func (l *Log) add(line string) {
	if os.Getenv("LOUD") != "" {
		fmt.Fprintf(os.Stderr, "%s: %s", l.name, line)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, line...)
	if len(l.buf) > 1<<18 {
		l.buf = append(l.buf[:0], l.buf[len(l.buf)-1<<17:]...)
	}
}

// String is what is kept.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.buf)
}
