// Package pypeer drives the Python peers of the interop tests, the programs in
// ../peers, over their line protocol: a command is one JSON line, and so is its
// answer. The peers run the real UCXX, so what passes here passes with it.
package pypeer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// Programs of ../peers.
const (
	// Async is UCXX's asyncio interface, which does a handshake on each endpoint.
	Async = "ucxx_async_peer.py"
	// Core is UCXX's core interface: raw tags, streams and active messages.
	Core = "ucxx_core_peer.py"
)

// Command is a command's arguments; "op" and "id" are added by the driver.
type Command map[string]any

// Answer is the answer to a command, or an event.
type Answer struct {
	// ID is the command's number, 0 for an event.
	ID int64 `json:"id"`
	// OK tells that the operation worked; if not, Error is the name of Python's
	// exception and Message its text.
	OK      bool   `json:"ok"`
	Error   string `json:"error"`
	Message string `json:"message"`
	// Event is the name of an event: "accepted" or "closed".
	Event string `json:"event"`

	// The rest is what the operations return, see ../peers.
	EP       string  `json:"ep"`
	Port     int     `json:"port"`
	SendTag  uint64  `json:"send_tag"`
	RecvTag  uint64  `json:"recv_tag"`
	Tag      uint64  `json:"tag"`
	Address  string  `json:"address"`
	Size     int64   `json:"size"`
	SHA256   string  `json:"sha256"`
	Frames   []Frame `json:"frames"`
	Matched  bool    `json:"matched"`
	From     uint64  `json:"sender_tag"`
	Length   int64   `json:"length"`
	Alive    bool    `json:"alive"`
	Closed   bool    `json:"closed"`
	UCXX     string  `json:"ucxx"`
	UCX      string  `json:"ucx"`
	PID      int     `json:"pid"`
	Progress string  `json:"progress_mode"`
}

// Frame describes a received frame.
type Frame struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Failed is the error of a command that the peer could not do.
type Failed struct {
	// Op is the operation.
	Op string
	// Exception is the name of Python's exception, for example
	// "UCXXConnectionResetError".
	Exception string
	// Message is its text.
	Message string
}

// Error returns the operation, the exception and its text.
func (f *Failed) Error() string {
	return "peer: " + f.Op + ": " + f.Exception + ": " + f.Message
}

// Peer is a running peer. Any goroutine may use it.
type Peer struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	events chan Answer

	mu      sync.Mutex
	next    int64
	waiting map[int64]chan Answer
	err     error         // why no answer will come any more
	done    chan struct{} // closed with it
	exited  chan struct{} // closed when the process has been waited for
}

// Python returns the interpreter that has UCXX: MILLSTREAM_PEER_PYTHON, or the one
// that scripts/setup made.
func Python() (string, error) {
	python := os.Getenv("MILLSTREAM_PEER_PYTHON")
	if python == "" {
		python = filepath.Join(folder(), "../../../.local/venv/bin/python")
	}
	if _, err := os.Stat(python); err != nil {
		return "", fmt.Errorf("peer: no Python with UCXX at %s; run scripts/setup peers", python)
	}
	return python, nil
}

func folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// Start starts a peer program with arguments. env is added to the environment; the
// peer's log, and UCX's, go to log. The peer is killed when ctx ends.
func Start(ctx context.Context, log io.Writer, env []string, program string, args ...string) (*Peer, error) {
	python, err := Python()
	if err != nil {
		return nil, err
	}
	script := filepath.Join(folder(), "../peers", program)
	cmd := exec.CommandContext(ctx, python, append([]string{script}, args...)...)
	// UCXX sets this one itself, after UCX has read its environment, and UCX then
	// warns that it is not used.
	cmd.Env = append(append(os.Environ(), "UCX_WARN_UNUSED_ENV_VARS=n", "PYTHONDONTWRITEBYTECODE=1"), env...)
	cmd.Stderr = log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("peer: start %s: %w", program, err)
	}
	p := &Peer{
		cmd: cmd, stdin: stdin,
		events:  make(chan Answer, 1024),
		waiting: make(map[int64]chan Answer),
		done:    make(chan struct{}),
		exited:  make(chan struct{}),
	}
	go p.read(stdout)
	return p, nil
}

func (p *Peer) read(stdout io.Reader) {
	scan := bufio.NewScanner(stdout)
	scan.Buffer(nil, 16<<20)
	var err error
	for scan.Scan() {
		var a Answer
		if err = json.Unmarshal(scan.Bytes(), &a); err != nil {
			err = fmt.Errorf("peer: line %.80q: %w", scan.Bytes(), err)
			break
		}
		p.deliver(a)
	}
	if err == nil {
		err = scan.Err()
	}
	if waited := p.cmd.Wait(); err == nil {
		err = errors.New("peer: ended")
		if waited != nil {
			err = fmt.Errorf("peer: ended: %w", waited)
		}
	}
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	close(p.done)
	close(p.exited)
}

func (p *Peer) deliver(a Answer) {
	if a.Event != "" {
		select {
		case p.events <- a:
		default: // nobody reads them; a test that wants an event sees that it is missing
		}
		return
	}
	p.mu.Lock()
	ch := p.waiting[a.ID]
	delete(p.waiting, a.ID)
	p.mu.Unlock()
	if ch != nil {
		ch <- a
	}
}

// Pending is a command under way.
type Pending struct {
	peer   *Peer
	op     string
	answer chan Answer
}

// Post sends a command and does not wait for its answer.
func (p *Peer) Post(op string, c Command) (*Pending, error) {
	line := make(map[string]any, len(c)+2)
	for k, v := range c {
		line[k] = v
	}
	w := &Pending{peer: p, op: op, answer: make(chan Answer, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	line["op"], line["id"] = op, p.next
	text, err := json.Marshal(line)
	if err != nil {
		return nil, fmt.Errorf("peer: %s: %w", op, err)
	}
	p.waiting[p.next] = w.answer
	if _, err := p.stdin.Write(append(text, '\n')); err != nil {
		delete(p.waiting, p.next)
		return nil, fmt.Errorf("peer: %s: %w", op, err)
	}
	return w, nil
}

// Wait returns the answer. An operation that failed is a *Failed.
func (w *Pending) Wait(ctx context.Context) (Answer, error) {
	select {
	case a := <-w.answer:
		return w.result(a)
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("peer: %s: no answer: %w", w.op, context.Cause(ctx))
	case <-w.peer.done:
	}
	select {
	case a := <-w.answer: // it came just before the end
		return w.result(a)
	default:
		return Answer{}, fmt.Errorf("%s: %w", w.op, w.peer.err)
	}
}

func (w *Pending) result(a Answer) (Answer, error) {
	if !a.OK {
		return a, &Failed{Op: w.op, Exception: a.Error, Message: a.Message}
	}
	return a, nil
}

// Do sends a command and waits for its answer.
func (p *Peer) Do(ctx context.Context, op string, c Command) (Answer, error) {
	w, err := p.Post(op, c)
	if err != nil {
		return Answer{}, err
	}
	return w.Wait(ctx)
}

// Event returns the next event of a name; others before it are dropped.
func (p *Peer) Event(ctx context.Context, name string) (Answer, error) {
	for {
		select {
		case a := <-p.events:
			if a.Event == name {
				return a, nil
			}
		case <-ctx.Done():
			return Answer{}, fmt.Errorf("peer: no event %s: %w", name, context.Cause(ctx))
		case <-p.done:
			return Answer{}, fmt.Errorf("peer: no event %s: %w", name, p.err)
		}
	}
}

// Kill ends the peer with SIGKILL, as a crash would, and waits for its end.
func (p *Peer) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Close lets the peer end by itself and waits for it.
func (p *Peer) Close() error {
	_ = p.stdin.Close()
	<-p.exited
	if state := p.cmd.ProcessState; !state.Success() {
		return fmt.Errorf("peer: ended with %v", state)
	}
	return nil
}
