package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/childproc"
)

// process is a started child.
type process struct {
	cmd    *exec.Cmd
	child  *childproc.Child
	in     *os.File   // orders; its end tells the child to end at once
	events chan event // closed when the child has no more to tell
}

// spawn starts this program again in a role and hands it its specification. What the child
// inherits is its standard output and error, the environment, the configuration of this
// process, and nothing else.
func spawn(role, name string, spec any, env []string, stdout, stderr io.Writer) (*process, error) {
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

	// The link, not what it points to: the program may have been replaced or removed since.
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{filepath.Base(os.Args[0]), role, name} // for people who look at ps
	cmd.Env = append(inheritConfig(os.Environ()), env...)
	cmd.Env = append(cmd.Env, RoleVariable+"="+role)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, stdout, stderr
	cmd.ExtraFiles = []*os.File{statusW}
	p := &process{cmd: cmd, in: inW, events: make(chan event, 4)}
	if err = childproc.Seal(); err == nil {
		p.child, err = childproc.Start(cmd, nil)
	}
	if err != nil {
		_, _ = inW.Close(), statusR.Close()
		return nil, fmt.Errorf("cluster: start %s %s: %w", role, name, err)
	}
	go func() {
		defer close(p.events)
		defer statusR.Close()
		readEvents(statusR, func(e event) { p.events <- e })
	}()
	// A pipe takes a specification at once; one that is longer than the pipe waits for the
	// child to read, which it does first.
	if _, err := inW.Write(append(text, '\n')); err != nil {
		p.kill()
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
	return p.child.Err
}
