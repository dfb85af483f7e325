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

// process is a started child.
type process struct {
	cmd    *exec.Cmd
	child  *childproc.Child
	in     *os.File   // orders; its end tells the child to end at once
	events chan event // closed when the child has no more to report
	output *output
	closed context.CancelFunc // ends what serves the process
	served sync.WaitGroup
}

// spawn starts this program again in the nanny's role and hands it a specification. What the child
// inherits is the environment and the configuration of this process, and nothing else.
func (n *Nanny) spawn(spec WorkerSpec) (*process, error) {
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

	// The link, not what it points to: the program may have been replaced or removed since.
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{filepath.Base(os.Args[0]), role, name} // for people who look at ps
	cmd.Env = append(inheritConfig(os.Environ()), n.cfg.Env...)
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
		_ = echoW.Close() // a write that waits ends
	}
	history := n.printed()
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
	// A pipe takes a specification at once; one that is longer than the pipe waits for the
	// child to read, which it does first.
	if _, err := inW.Write(append(text, '\n')); err != nil {
		p.kill()
		out.end()
		return nil, fmt.Errorf("cluster: start %s %s: %w", role, name, err)
	}
	return p, nil
}

// inheritVariable is how Dask hands its configuration to a child process.
const inheritVariable = "DASK_INTERNAL_INHERIT_CONFIG"

// inheritConfig adds the configuration of this process, as a program may have changed what
// files and variables say.
func inheritConfig(env []string) []string {
	c, err := config.Default()
	if err != nil {
		return env // the child reads the same and tells
	}
	text, err := config.Serialize(c.Root())
	// Linux takes variables of up to 128 KiB.
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

// order tells the child to do something. One that is gone already has done it.
func (p *process) order(op string) {
	line, _ := json.Marshal(order{Op: op})
	_, _ = p.in.Write(append(line, '\n'))
}

// kill ends the child and everything in its group at once, and waits for it.
func (p *process) kill() {
	_ = childproc.Kill(p.cmd)
	_ = p.wait()
}

// wait waits for the end of the child, frees what belongs to it and returns how it ended.
func (p *process) wait() error {
	<-p.child.Done
	_ = p.in.Close()
	for range p.events {
	}
	p.closed()
	p.served.Wait()
	return p.child.Err
}
