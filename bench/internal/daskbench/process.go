package daskbench

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/internal/proc/childproc"
)

// process is a scheduler or a worker.
type process struct {
	cmd   *exec.Cmd
	child *childproc.Child
}

// startLimit bounds how long a process may take to be ready.
const startLimit = 2 * time.Minute

// startProcess starts a command, waits for a line of output with a label, and returns the word after it.
func startProcess(name string, cmd *exec.Cmd, label string) (*process, string, error) {
	p := &process{cmd: cmd}
	cmd.Env = append(cmd.Environ(), environment...)
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	found := make(chan string, 1)
	var mu sync.Mutex
	var log []byte // guarded by mu; the start of the output, for errors
	go func() {
		for lines := bufio.NewReader(reader); ; {
			line, err := lines.ReadString('\n')
			mu.Lock()
			if len(log) < 1<<16 {
				log = append(log, line...)
			}
			mu.Unlock()
			if _, rest, ok := strings.Cut(line, label); ok {
				select {
				case found <- strings.TrimSpace(rest):
				default:
				}
			}
			if err != nil {
				return
			}
		}
	}()
	child, err := childproc.Start(cmd, nil)
	if err != nil {
		_ = writer.Close()
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	p.child = child
	go func() {
		<-child.Done
		_ = writer.Close()
	}()
	said := func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.TrimSpace(string(log))
	}
	late := time.NewTimer(startLimit)
	defer late.Stop()
	select {
	case word := <-found:
		return p, word, nil
	case <-child.Done:
		return nil, "", fmt.Errorf("%s exited: %v: %s", name, child.Err, said())
	case <-late.C:
		_ = childproc.Kill(cmd)
		<-child.Done
		return nil, "", fmt.Errorf("%s is not ready after %v: %s", name, startLimit, said())
	}
}
