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

// Starter says how to start a child: this program again, as a bench peer.
type Starter struct {
	// Path of the program; "/proc/self/exe" survives a replaced binary.
	Path string
	// Args with Args[0].
	Args []string
	// Environ the children start from.
	Environ []string
}

// SelfStarter starts this very program with a hidden command.
func SelfStarter(command string) Starter {
	return Starter{Path: "/proc/self/exe", Args: []string{os.Args[0], command}, Environ: os.Environ()}
}

// child is a running bench peer.
type child struct {
	*caller
	cmd   *exec.Cmd
	stdin io.Closer
	// stderr keeps the end of what the child printed, where UCX says why.
	stderr tail
	exited chan struct{}
}

// startChild starts one. It ends when its input is closed; that also happens
// when this process dies, however it dies.
func (s Starter) startChild(name string, env []string) (*child, error) {
	c := &child{exited: make(chan struct{})}
	c.cmd = &exec.Cmd{
		Path:   s.Path,
		Args:   s.Args,
		Env:    append(append([]string{}, s.Environ...), env...),
		Stderr: &c.stderr,
		// Its own group: Ctrl-C is for the parent, which ends the children in order.
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
		<-c.dead // all output read: Wait closes the pipe
		c.cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// call is caller.call with the child's last words added to an error.
func (c *child) call(ctx context.Context, verb string, args, result any) error {
	err := c.caller.call(ctx, verb, args, result)
	if err == nil || ctx.Err() != nil {
		return err
	}
	select {
	case <-c.exited: // so that all of stderr is here
	case <-time.After(100 * time.Millisecond):
	}
	if words := c.stderr.String(); words != "" {
		return fmt.Errorf("%w (%s)", err, words)
	}
	return err
}

// stop ends the child: first politely, then not.
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

// tail is a writer that keeps the last lines.
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

// String is the last three lines, joined.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(string(bytes.TrimSpace(t.text)), "\n")
	if len(lines) > 3 {
		lines = lines[len(lines)-3:]
	}
	return strings.Join(lines, "; ")
}

// Pair is two connected children.
type Pair struct {
	server, client *child
	// Library and Version of UCX that both use.
	Library, Version string
	// Lanes of the client's endpoint, as "transport/device".
	Lanes []string
	// PIDs of server and client.
	PIDs [2]int

	closeOnce sync.Once
}

// openTimeout bounds UCX's start-up and connection, with GPUs seconds.
const openTimeout = 60 * time.Second

// ErrUnavailable says that no UCX library can be used, so that no other
// setting will work either.
var ErrUnavailable = errors.New("UCX is not available")

// unavailable recognises ErrUnavailable after it came through a reply as text,
// and drops the name of the child, which does not matter.
func unavailable(err error) error {
	if _, why, found := strings.Cut(err.Error(), ErrUnavailable.Error()+": "); found {
		return fmt.Errorf("%w: %s", ErrUnavailable, why)
	}
	return err
}

// StartPair starts two children with extra variables and connects them.
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
	p.Lanes = connected.Lanes
	return p, nil
}

// Run measures on both sides and returns the client's sample with the larger
// allocation count and processor time of the two.
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
	// Which side opens the other's memory is UCX's choice.
	for i := range client.Steps {
		if i < len(server.Steps) {
			client.Steps[i].Mappings += server.Steps[i].Mappings
		}
	}
	return client, nil
}

// Lane is the transport that carries messages of one kind of memory: for
// device memory the endpoint's CUDA lane if it has one, else its first lane.
func (p *Pair) Lane(memory string) string {
	var first string
	for i, lane := range p.Lanes {
		transport, _, _ := strings.Cut(lane, "/")
		if i == 0 {
			first = transport
		}
		if onDevice(memory) && strings.HasPrefix(transport, "cuda") {
			return transport
		}
	}
	return first
}

// Close ends both children and waits until they are gone. Closing again does
// nothing.
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

// both runs two functions at once; they depend on each other. When one fails
// the other is left to its context, so the first error is the one to report.
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
