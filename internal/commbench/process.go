package commbench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"go.millstream.dev/internal/childproc"
)

// Starter makes the command of one process of a pair.
type Starter func(ctx context.Context) *exec.Cmd

// process is one of a pair.
type process struct {
	*childproc.Child
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string
	stderr bytes.Buffer
}

func startProcess(ctx context.Context, start Starter, env []string) (*process, error) {
	cmd := start(ctx)
	p := &process{cmd: cmd, lines: make(chan string, 1)}
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
		for s := bufio.NewScanner(out); s.Scan(); {
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

// ask sends a command and waits for its answer.
func (p *process) ask(ctx context.Context, c command) (answer, error) {
	line, err := json.Marshal(c)
	if err != nil {
		return answer{}, err
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return answer{}, p.died(err)
	}
	select {
	case text := <-p.lines:
		var a answer
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			return answer{}, fmt.Errorf("answer %q: %w", text, err)
		}
		if a.Error != "" {
			return a, fmt.Errorf("%s: %s", c.Do, a.Error)
		}
		return a, nil
	case <-p.Done:
		return answer{}, p.died(io.ErrUnexpectedEOF)
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

func (p *process) died(err error) error {
	<-p.Done
	text := strings.TrimSpace(p.stderr.String())
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return fmt.Errorf("%s ended (%w): %s", p.cmd.Path, err, text)
}

// stop ends the process, gently if it lets itself.
func (p *process) stop() {
	_ = p.stdin.Close()
	select {
	case <-p.Done:
	case <-time.After(10 * time.Second):
		_ = childproc.Kill(p.cmd)
		<-p.Done
	}
}

// ticks is a hundredth of a second in /proc, on every Linux that Go runs on.
const ticks = 100

// cpu is the processor time that a process has used.
func cpu(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, err
	}
	return time.Duration(user+system) * time.Second / ticks, nil
}
