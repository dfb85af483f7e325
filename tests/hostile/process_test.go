package hostile

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/proc/childproc"
)

// patience bounds each wait on a busy machine.
const patience = 90 * time.Second

// Process is a process that is attacked.
type Process struct {
	// Name is for messages; Address is where the process serves, HTTP the URL of its dashboard.
	Name, Address, HTTP string

	cmd    *exec.Cmd
	child  *childproc.Child
	log    *logBuffer
	before int64 // resident memory before the attack
}

// startProcess starts a command and waits until ready accepts a line of its output.
func startProcess(t testing.TB, name string, cmd *exec.Cmd, ready func(line string) bool) (*Process, error) {
	p := &Process{Name: name, cmd: cmd, log: &logBuffer{}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	up := make(chan struct{})
	var once sync.Once
	read := func(pipe io.Reader) {
		lines := bufio.NewReaderSize(pipe, 1<<16)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				p.log.add(line)
				if ready(strings.TrimSpace(line)) {
					once.Do(func() { close(up) })
				}
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
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			if death := p.log.death(); death != "" {
				t.Logf("end of %s:\n%s", name, death)
			}
			t.Logf("log of %s (end):\n%s", name, p.log.end(16<<10))
		}
	})
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-up:
		return p, nil
	case <-p.child.Done:
		return nil, fmt.Errorf("%s ended before it was ready: %v\n%s", name, p.child.Err, p.log.end(4<<10))
	case <-late.C:
		return nil, fmt.Errorf("%s is not ready after %v\n%s", name, patience, p.log.end(4<<10))
	}
}

// PID of the process; that of a nanny, not of its worker.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Alive reports whether the process runs.
func (p *Process) Alive() bool {
	select {
	case <-p.child.Done:
		return false
	default:
		return true
	}
}

// Kill ends the process and its group with SIGKILL, and waits.
func (p *Process) Kill() {
	if p.Alive() {
		_ = childproc.Kill(p.cmd)
		<-p.child.Done
		return
	}
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // what the process started may live in its group
}

// Log is what the process has written since the attack began, or the end of it.
func (p *Process) Log() string { return p.log.since() }

// mark begins an attack: the log is read from here, and the peak of the memory is that of now.
func (p *Process) mark() {
	p.log.mark()
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0)
	p.before = p.memory("VmRSS")
}

// growth is by how many bytes the resident memory has been above that at mark.
func (p *Process) growth() int64 { return p.memory("VmHWM") - p.before }

// memory reads one line of /proc/PID/status, in bytes; 0 for a process that has ended.
func (p *Process) memory(name string) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// logBuffer keeps the end of what a process writes.
type logBuffer struct {
	mu    sync.Mutex
	buf   []byte // guarded by mu
	start int    // of the attack in buf; guarded by mu
}

const logKept = 8 << 20

func (l *logBuffer) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, line...)
	if cut := len(l.buf) - logKept; cut > logKept {
		l.buf = append(l.buf[:0], l.buf[cut:]...)
		l.start = max(l.start-cut, 0)
	}
}

func (l *logBuffer) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start = len(l.buf)
}

func (l *logBuffer) since() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.buf[l.start:])
}

// end is the last n bytes at most; long lines are cut.
func (l *logBuffer) end(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []byte
	for line := range bytes.Lines(l.buf) {
		if len(line) > 1000 {
			line = append(append([]byte(nil), line[:1000]...), "…\n"...)
		}
		out = append(out, line...)
	}
	return string(out[max(len(out)-n, 0):])
}

// death is what the process wrote when it crashed: from the first line that says so, as the stacks after it fill the
// end of the log.
func (l *logBuffer) death() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := crash.FindIndex(l.buf)
	if at == nil {
		return ""
	}
	from := bytes.LastIndexByte(l.buf[:at[0]], '\n') + 1
	return string(l.buf[from:min(from+8<<10, len(l.buf))])
}

var crash = regexp.MustCompile(`(?m)Assertion|^(fatal error|panic|SIG[A-Z]+|unexpected fault): `)

// until waits for a condition.
func until(ctx context.Context, what string, reached func() bool) error {
	limit := time.Now().Add(patience)
	for !reached() {
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		case time.Now().After(limit):
			return fmt.Errorf("not within %v: %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}
