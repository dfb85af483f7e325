package benchpeer

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"go.millstream.dev/internal/proc/childproc"
)

// process is a peer program with what it has printed.
type process struct {
	*childproc.Child
	stdout bytes.Buffer
	stderr bytes.Buffer
}

// start runs a program. The child is killed when ctx ends.
func start(ctx context.Context, env []string, name string, args ...string) (*process, error) {
	p := &process{}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	var err error
	if p.Child, err = childproc.Start(cmd, nil); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// wait returns when the child is gone. The error carries the last line it
// printed, which is where UCX says why.
func (p *process) wait() error {
	<-p.Done
	if p.Err == nil {
		return nil
	}
	if last := lastLine(p.stderr.String(), p.stdout.String()); last != "" {
		return fmt.Errorf("%w: %s", p.Err, last)
	}
	return p.Err
}

// ended reports whether the child is gone, without waiting.
func (p *process) ended() bool {
	select {
	case <-p.Done:
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
