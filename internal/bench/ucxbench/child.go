package ucxbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Starter specifies how to start a child, which is this program with another command.
type Starter struct {
	// Path is the program; "/proc/self/exe" works after the binary was replaced.
	Path string
	// Args are the arguments, with Args[0].
	Args []string
	// Environ is the environment of the children.
	Environ []string
}

// SelfStarter returns a Starter of this program with a hidden command.
func SelfStarter(command string) Starter {
	return Starter{Path: "/proc/self/exe", Args: []string{os.Args[0], command}, Environ: os.Environ()}
}

// child is a running child process.
type child struct {
	*caller
	cmd   *exec.Cmd
	stdin io.Closer
	// stderr keeps the end of the output, where UCX prints the reason of a failure.
	stderr tail
	exited chan struct{}
}

// startChild starts a child. It ends when its input is closed, which also happens when this process exits or crashes.
func (s Starter) startChild(name string, env []string) (*child, error) {
	c := &child{exited: make(chan struct{})}
	c.cmd = &exec.Cmd{
		Path:   s.Path,
		Args:   s.Args,
		Env:    append(append([]string{}, s.Environ...), env...),
		Stderr: &c.stderr,
		// A separate process group, so that Ctrl-C reaches only the parent, which ends the children in order.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		WaitDelay:   time.Second,
	}
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c.stdin = stdin
	c.caller = newCaller(name, stdin, stdout)
	go func() {
		<-c.dead // all output was read, because Wait closes the pipe
		c.cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// call is caller.call with the last output of the child added to an error.
func (c *child) call(ctx context.Context, verb string, args, result any) error {
	err := c.caller.call(ctx, verb, args, result)
	if err == nil || ctx.Err() != nil {
		return err
	}
	select {
	case <-c.exited: // stderr is complete
	case <-time.After(100 * time.Millisecond):
	}
	if text := c.stderr.String(); text != "" {
		return fmt.Errorf("%w (%s)", err, text)
	}
	return err
}

// stop closes the input of the child and kills it after a timeout.
func (c *child) stop() {
	close(c.quit)
	c.stdin.Close()
	select {
	case <-c.exited:
	case <-time.After(closeGrace + time.Second):
		c.cmd.Process.Kill()
		<-c.exited
	}
}

// tail is a writer that keeps the end of its input.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

// String returns the last three lines, joined.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(string(bytes.TrimSpace(t.text)), "\n")
	if len(lines) > 3 {
		lines = lines[len(lines)-3:]
	}
	return strings.Join(lines, "; ")
}

// Pair is a pair of connected children.
type Pair struct {
	server, client *child
	// Library and Version are those of UCX.
	Library, Version string
	// Transports are the transports of the endpoint of the client, as "transport/device".
	Transports []string
	// PIDs are the process IDs of server and client.
	PIDs [2]int

	closeOnce sync.Once
}

// openTimeout bounds the start of UCX and the connection, which take seconds with GPUs.
const openTimeout = 60 * time.Second

// ErrUnavailable is returned if no UCX library can be used, so that all other settings will fail, too.
var ErrUnavailable = errors.New("UCX is not available")

// unavailable restores ErrUnavailable from the text of a reply, without the name of the child.
func unavailable(err error) error {
	if _, why, found := strings.Cut(err.Error(), ErrUnavailable.Error()+": "); found {
		return fmt.Errorf("%w: %s", ErrUnavailable, why)
	}
	return err
}

// StartPair starts two children with further environment variables and connects them.
func StartPair(ctx context.Context, s Starter, env []string, args OpenArgs) (_ *Pair, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, fmt.Errorf("no connection within %v", openTimeout))
	defer cancel()
	p := &Pair{}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if p.server, err = s.startChild("bench server", env); err != nil {
		return nil, err
	}
	if p.client, err = s.startChild("bench client", env); err != nil {
		return nil, err
	}
	var opened, other Opened
	asServer, asClient := args, args
	asServer.Server, asClient.Server = true, false
	if err := both(
		func() error { return p.server.call(ctx, "open", asServer, &opened) },
		func() error { return p.client.call(ctx, "open", asClient, &other) },
	); err != nil {
		return nil, unavailable(err)
	}
	p.Library, p.Version = opened.Library, opened.Version
	p.PIDs = [2]int{opened.PID, other.PID}
	var connected Connected
	if err := both(
		func() error { return p.server.call(ctx, "connect", other.Address, nil) },
		func() error { return p.client.call(ctx, "connect", opened.Address, &connected) },
	); err != nil {
		return nil, err
	}
	p.Transports = connected.Transports
	return p, nil
}

// Run measures on both sides and returns the sample of the client, with the maximum of allocations and processor time
// of both.
func (p *Pair) Run(ctx context.Context, spec Spec) (Sample, error) {
	var client, server Sample
	if err := both(
		func() error { return p.server.call(ctx, "run", spec, &server) },
		func() error { return p.client.call(ctx, "run", spec, &client) },
	); err != nil {
		return Sample{}, err
	}
	client.Allocs = max(client.Allocs, server.Allocs)
	client.CPUSeconds = max(client.CPUSeconds, server.CPUSeconds)
	// UCX chooses which side opens the memory of the other.
	for i := range client.Steps {
		if i < len(server.Steps) {
			client.Steps[i].Mappings += server.Steps[i].Mappings
		}
	}
	return client, nil
}

// Transport returns the transport of messages with one kind of memory: for device memory the CUDA transport of the
// endpoint if it has one, else the first transport.
func (p *Pair) Transport(memory string) string {
	var first string
	for i, name := range p.Transports {
		transport, _, _ := strings.Cut(name, "/")
		if i == 0 {
			first = transport
		}
		if onDevice(memory) && strings.HasPrefix(transport, "cuda") {
			return transport
		}
	}
	return first
}

// Close ends both children and waits for them. It may be called twice.
func (p *Pair) Close() {
	p.closeOnce.Do(func() {
		both(
			func() error { p.server.end(); return nil },
			func() error { p.client.end(); return nil },
		)
	})
}

func (c *child) end() {
	if c != nil {
		c.stop()
	}
}

// both runs two functions concurrently, which depend on each other. It returns the first error; the other function ends
// with its context.
func both(a, b func() error) error {
	results := make(chan error, 2)
	go func() { results <- a() }()
	go func() { results <- b() }()
	first := <-results
	if first != nil {
		return first
	}
	return <-results
}
