package benchpeer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/internal/proc/childproc"
)

// Starter makes the command of a process that answers lines.
type Starter func(ctx context.Context) *exec.Cmd

// Lines is a process of a benchmark that reads commands as JSON lines and answers each
// with one. It ends when its input does.
type Lines struct {
	*childproc.Child
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string
	stderr bytes.Buffer // may be read when the process is gone
	stop   sync.Once
}

// maxAnswer bounds a line in bytes.
const maxAnswer = 16 << 20

// StartLines starts a process, with further variables in its environment. It is killed,
// with all that it has started, when ctx ends.
func StartLines(ctx context.Context, start Starter, env []string) (*Lines, error) {
	cmd := start(ctx)
	p := &Lines{cmd: cmd, lines: make(chan string, 1)}
	cmd.Env = append(cmd.Environ(), env...)
	cmd.Stderr = &p.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.Child, err = childproc.Start(cmd, func() {
		s := bufio.NewScanner(out)
		s.Buffer(nil, maxAnswer)
		for s.Scan() {
			if strings.HasPrefix(s.Text(), "{") { // libraries print warnings, too
				p.lines <- s.Text()
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Cmd is the started command.
func (p *Lines) Cmd() *exec.Cmd { return p.cmd }

// Ask sends a command and waits for its answer, a pointer. An answer with a field "error"
// is an error of the command.
func (p *Lines) Ask(ctx context.Context, command, answer any) error {
	line, err := json.Marshal(command)
	if err != nil {
		return err
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return p.died(err)
	}
	select {
	case text := <-p.lines:
		var failed struct{ Error string }
		if err := errors.Join(json.Unmarshal([]byte(text), &failed), json.Unmarshal([]byte(text), answer)); err != nil {
			return fmt.Errorf("answer %q: %w", text, err)
		}
		if failed.Error != "" {
			return errors.New(failed.Error)
		}
		return nil
	case <-p.Done:
		return p.died(io.ErrUnexpectedEOF)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Lines) died(err error) error {
	<-p.Done
	return fmt.Errorf("%s ended (%w): %s", p.cmd.Path, err, lastLine(p.stderr.String()))
}

// Stop ends the process, gently if it lets itself. It is idempotent.
func (p *Lines) Stop() {
	p.stop.Do(func() {
		_ = p.stdin.Close()
		select {
		case <-p.Done:
		case <-time.After(10 * time.Second):
			_ = childproc.Kill(p.cmd)
			<-p.Done
		}
	})
}
