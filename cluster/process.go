package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/proc/childproc"
)

// process is a started child process.
type process struct {
	cmd    *exec.Cmd
	child  *childproc.Child
	in     *os.File   // orders; when it is closed the child ends at once
	events chan event // closed when the child has closed its status descriptor
	output *output
	closed context.CancelFunc // ends the goroutines of the process
	served sync.WaitGroup
}

// spawn starts this program in the role of the nanny and sends it a specification. The child inherits only the
// environment and the configuration of this process; env are additional variables.
func (n *Nanny) spawn(spec WorkerSpec, env []string) (*process, error) {
	role, name := n.cfg.role, spec.Name
	if !mainCalled.Load() {
		return nil, ErrNoMain
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer inR.Close()
	statusR, statusW, err := os.Pipe()
	if err != nil {
		_ = inW.Close()
		return nil, err
	}
	defer statusW.Close()
	echoR, echoW, err := os.Pipe()
	if err != nil {
		_, _ = inW.Close(), statusR.Close()
		return nil, err
	}
	defer echoR.Close()
	out, stdout, stderr, err := n.newOutput()
	if err != nil {
		_, _, _ = inW.Close(), statusR.Close(), echoW.Close()
		return nil, err
	}
	defer stdout.Close()
	defer stderr.Close()

	// The link instead of its target: the program may have been replaced or removed.
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{filepath.Base(os.Args[0]), role, name} // shown by ps
	cmd.Env = append(inheritConfig(os.Environ()), env...)
	cmd.Env = append(cmd.Env, RoleVariable+"="+role)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, stdout, stderr
	cmd.ExtraFiles = []*os.File{statusW, echoR}
	p := &process{cmd: cmd, in: inW, events: make(chan event, 4), output: out}
	if err = childproc.Seal(); err == nil {
		p.child, err = childproc.Start(cmd, nil)
	}
	if err != nil {
		_, _, _, _, _ = inW.Close(), statusR.Close(), echoW.Close(), stdout.Close(), stderr.Close()
		out.end()
		return nil, fmt.Errorf("cluster: start %s %s: %w", role, name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.closed = func() {
		cancel()
		_ = echoW.Close() // ends a blocked write
	}
	history := n.outputHistory()
	p.served.Go(func() { out.sendEcho(ctx, echoW, history) })
	go func() {
		defer close(p.events)
		defer statusR.Close()
		readEvents(statusR, func(e event) {
			if e.Event == eventLog {
				if e.Log != nil {
					n.log(e.Log)
				}
				return
			}
			p.events <- e
		})
	}()
	// A pipe stores a short specification at once; for a longer one the write waits for the child, which reads it
	// first.
	if _, err := inW.Write(append(text, '\n')); err != nil {
		p.kill()
		out.end()
		return nil, fmt.Errorf("cluster: start %s %s: %w", role, name, err)
	}
	return p, nil
}

// inheritVariable is the variable with which Dask passes its configuration to a child process.
const inheritVariable = "DASK_INTERNAL_INHERIT_CONFIG"

// inheritConfig adds the configuration of this process, because the program may have changed the values of files and
// variables.
func inheritConfig(env []string) []string {
	c, err := config.Default()
	if err != nil {
		return env // the child reads the same configuration and reports the error
	}
	text, err := config.Serialize(c.Root())
	// Linux limits a variable to 128 KiB.
	if err != nil || len(text) > 100<<10 {
		return env
	}
	kept := make([]string, 0, len(env)+3)
	for _, v := range env {
		if !strings.HasPrefix(v, inheritVariable+"=") {
			kept = append(kept, v)
		}
	}
	return append(kept, inheritVariable+"="+text)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// order sends an order to the child. It has no effect if the child has ended.
func (p *process) order(op string) {
	line, _ := json.Marshal(order{Op: op})
	_, _ = p.in.Write(append(line, '\n'))
}

// kill kills the child and its process group, and waits for it.
func (p *process) kill() {
	_ = childproc.Kill(p.cmd)
	_ = p.wait()
}

// wait waits for the end of the child, frees its resources and returns how it ended.
func (p *process) wait() error {
	<-p.child.Done
	_ = p.in.Close()
	for range p.events {
	}
	p.closed()
	p.served.Wait()
	return p.child.Err
}
