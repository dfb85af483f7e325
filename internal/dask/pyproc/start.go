package pyproc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/dask/python"
	"go.millstream.dev/internal/proc/childproc"
	"go.millstream.dev/internal/wire/msgpack"
)

// Start starts a child and waits until its module has been set up. The context bounds only the start; the child runs
// until Close, until it ends by itself, or until this process ends.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	cfg = cfg.withDefaults()
	if cfg.Module == "" {
		return nil, errors.New("pyproc: Config without Module")
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
	defer cancel()
	if cfg.Python == "" {
		in, err := Find(ctx, "")
		if err != nil {
			return nil, err
		}
		cfg.Python = in.Path
	}
	if !cfg.Isolate {
		return start(ctx, cfg, level{}, nil)
	}
	return startIsolated(ctx, cfg)
}

// start starts a child once, isolated according to the level. home is nil for a child that is not isolated.
func start(ctx context.Context, cfg Config, l level, home *home) (*Process, error) {
	conn, theirs, err := socketpair()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}
	settings := map[string]any{"threads": cfg.Threads}
	for k, v := range cfg.Settings {
		settings[k] = v
	}
	if cfg.Isolate {
		settings["isolate"] = l.settings(cfg, home)
	}
	text, err := json.Marshal(settings)
	if err != nil {
		_, _ = conn.Close(), theirs.Close()
		return nil, fmt.Errorf("%s: settings: %w", cfg.Name, err)
	}
	life, kill := context.WithCancel(context.Background())
	cmd := exec.CommandContext(life, cfg.Python, "-c", python.Boot(), cfg.Module, string(text))
	cmd.Env, cmd.Dir = cfg.Env, cfg.Dir
	if cfg.Isolate {
		cmd.Env = append(bareEnv(cfg.Python, l, home), cfg.Env...)
		if cmd.Dir == "" {
			cmd.Dir = "/"
		}
	}
	log := &output{log: cfg.Logger.With("process", cfg.Name)}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(python.Bundle()), log, log
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = l.attr(cfg.Network)
	err = childproc.Seal()
	var child *childproc.Child
	if err == nil {
		child, err = childproc.Start(cmd, nil)
	}
	_ = theirs.Close()
	if err != nil {
		kill()
		_ = conn.Close()
		return nil, fmt.Errorf("%s: starting %s: %w", cfg.Name, cfg.Python, err)
	}
	p := &Process{
		cfg: cfg, conn: conn, child: child, pid: cmd.Process.Pid, log: log,
		out: make(chan net.Buffers), calls: map[uint64]chan answer{},
		eof: make(chan struct{}), ended: make(chan struct{}), done: make(chan struct{}),
	}
	var ended context.CancelFunc
	p.ctx, ended = context.WithCancel(context.Background())
	p.kill = func() { kill(); ended() }
	go p.wait(ended, kill)
	r := bufio.NewReaderSize(conn, 64<<10)
	if err := p.ready(ctx, r); err != nil {
		close(p.eof)
		p.end(err)
		<-p.done
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}
	p.wg.Add(2)
	go p.read(r)
	go p.write()
	return p, nil
}

// ready waits for the first message of the child.
func (p *Process) ready(ctx context.Context, r *bufio.Reader) error {
	stop := context.AfterFunc(ctx, func() { _ = p.conn.Close() })
	defer stop()
	h, _, err := readMessage(r, min(p.cfg.MaxMessage, 1<<20))
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("no handshake from the Python process in time: %w", context.Cause(ctx))
	case err != nil:
		_ = p.conn.Close()
		select {
		case <-p.child.Done:
			p.end(exitError(p.child.Err, p.log.last()))
			return fmt.Errorf("no handshake: %w", p.exitedError())
		case <-ctx.Done():
			return fmt.Errorf("no handshake from the Python process: %w", err)
		}
	case h.op == "failed":
		mr := msgpack.NewReader(h.body)
		e, err := parseException(&mr)
		if err != nil {
			return fmt.Errorf("malformed exception of a failed Python process: %w", err)
		}
		if e.Sandbox {
			return fmt.Errorf("pyproc: sandbox not available: %w", e)
		}
		return fmt.Errorf("%w: %s in %s: %w", errModule, p.cfg.Module, p.cfg.Python, e)
	case h.op != "ready":
		return fmt.Errorf("first message is %q, want \"ready\"", h.op)
	}
	return p.readReady(h.body)
}

// errModule indicates that a module could not be set up.
var errModule = errors.New("pyproc: module cannot run")

// wait waits for the end of the child and releases its resources.
func (p *Process) wait(ended, kill context.CancelFunc) {
	<-p.child.Done
	select { // its last messages
	case <-p.eof:
	case <-p.ctx.Done():
	case <-time.After(exitGrace):
	}
	p.end(exitError(p.child.Err, p.log.last()))
	ended()
	kill()
	p.mu.Lock()
	p.calls = nil
	p.mu.Unlock()
	close(p.ended)
	p.wg.Wait()
	close(p.done)
}

func exitError(err error, last string) error {
	text := "without an error"
	if err != nil {
		text = err.Error()
	}
	if last != "" {
		text += "; last line of output: " + last
	}
	return errors.New(text)
}

// socketpair returns the parent's end as a connection, and the child's end.
func socketpair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "pyproc"), os.NewFile(uintptr(fds[1]), "pyproc-child")
	conn, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}
