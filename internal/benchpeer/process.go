package benchpeer

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a child that cannot outlive this process: it has its own process
// group (Ctrl-C reaches only us, and we end it) and dies with our thread.
type process struct {
	name   string
	stdout bytes.Buffer
	stderr bytes.Buffer
	done   chan struct{} // closed when the child is gone
	err    error         // of Wait; read after done
}

// start runs a program. The child is killed when ctx ends.
func start(ctx context.Context, env []string, name string, args ...string) (*process, error) {
	p := &process{name: name, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Pdeathsig is sent when the *thread* that forked ends, so that thread
		// must stay until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = env
		cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
		cmd.WaitDelay = 2 * time.Second
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		// The group: a wrapper script's child must go too.
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// wait returns when the child is gone. The error carries the last line it
// printed, which is where UCX says why.
func (p *process) wait() error {
	<-p.done
	if p.err == nil {
		return nil
	}
	if last := lastLine(p.stderr.String(), p.stdout.String()); last != "" {
		return fmt.Errorf("%w: %s", p.err, last)
	}
	return p.err
}

// ended reports whether the child is gone, without waiting.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// lastLine is the last non-blank line of the first text that has one; a line
// that UCX marks as an error wins over what follows it.
func lastLine(texts ...string) string {
	for _, text := range texts {
		last := ""
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if strings.Contains(line, " ERROR ") {
				return line
			}
			if line != "" {
				last = line
			}
		}
		if last != "" {
			return last
		}
	}
	return ""
}
