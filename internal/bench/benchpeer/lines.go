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

// Starter returns the command of a process that serves lines.
type Starter func(ctx context.Context) *exec.Cmd

// Lines is a process of a benchmark that reads commands as JSON lines and replies to each with one. It ends with its
// input.
type Lines struct {
	*childproc.Child
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string
	stderr bytes.Buffer // read after the process has ended
	stop   sync.Once
}

// maxAnswer bounds the length of a line in bytes.
const maxAnswer = 16 << 20

// StartLines starts a process with further environment variables. It is killed, with all its children, when ctx ends.
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

// Cmd returns the command.
func (p *Lines) Cmd() *exec.Cmd { return p.cmd }

// Ask sends a command and waits for its answer, which must be a pointer. An answer with a field "error" is an error of
// the command.
func (p *Lines) Ask(ctx context.Context, command, answer any) error {
	line, err := json.Marshal(command)
	if err != nil {
		return err
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return p.exitError(err)
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
		return p.exitError(io.ErrUnexpectedEOF)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Lines) exitError(err error) error {
	<-p.Done
	return fmt.Errorf("%s exited (%w): %s", p.cmd.Path, err, lastLine(p.stderr.String()))
}

// Stop closes the input of the process and kills it after a timeout. It may be called twice.
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
