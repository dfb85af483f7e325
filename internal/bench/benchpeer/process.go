package benchpeer

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"go.millstream.dev/internal/proc/childproc"
)

// process is a peer program with its output.
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

// wait waits for the process. The error contains the last line of its output, where UCX prints the reason.
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

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// lastLine returns the last non-blank line of the first text that has one; the first line that UCX marks as an error
// takes precedence.
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
