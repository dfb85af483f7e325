package gpu

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/ucx"
)

// helper is the test's hold on the second process.
type helper struct {
	t       testing.TB
	cmd     *exec.Cmd
	in      io.WriteCloser
	address string
	ended   chan struct{} // closed after Wait
	err     error         // of Wait

	mu      sync.Mutex
	next    int
	pending map[int]*pending
}

// pending is an order under way.
type pending struct {
	h       *helper
	what    string
	answers chan answer
}

// startHelper starts the second process and opens UCX in it. It ends with the test at the latest.
func startHelper(t testing.TB, options map[string]string, mode ucx.ProgressMode) *helper {
	t.Helper()
	return openHelper(t, order{Do: "open", Options: options, Progress: int(mode)})
}

func openHelper(t testing.TB, open order) *helper {
	t.Helper()
	return openHelperBy(t, open)
}

// openHelperBy starts it by another program, such as unshare.
func openHelperBy(t testing.TB, open order, by ...string) *helper {
	t.Helper()
	self := "/proc/self/exe"
	if len(by) > 0 { // for another program that is another one
		var err error
		self, err = os.Executable()
		must(t, err)
	}
	args := append(by, self)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), roleVariable+"=peer")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	h := &helper{t: t, cmd: cmd, in: in, ended: make(chan struct{}), pending: map[int]*pending{}}
	go h.read(out)
	t.Cleanup(h.stop)
	h.address = h.do(open).Address
	return h
}

// read hands answers to those who wait for them.
func (h *helper) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			fmt.Fprintf(os.Stderr, "helper: %s\n", lines.Text()) // UCX's own words
			continue
		}
		h.mu.Lock()
		p := h.pending[a.ID]
		if a.Note == "" {
			delete(h.pending, a.ID)
		}
		h.mu.Unlock()
		if p != nil {
			p.answers <- a // room for all of an order
		} else {
			fmt.Fprintf(os.Stderr, "helper: %+v\n", a)
		}
	}
	h.err = h.cmd.Wait()
	close(h.ended)
}

// start gives an order.
func (h *helper) start(o order) *pending {
	h.t.Helper()
	p := &pending{h: h, what: o.Do, answers: make(chan answer, 2)}
	h.mu.Lock()
	h.next++
	o.ID = h.next
	h.pending[o.ID] = p
	line, err := json.Marshal(o)
	if err == nil {
		_, err = h.in.Write(append(line, '\n'))
	}
	h.mu.Unlock()
	must(h.t, err)
	return p
}

func (p *pending) receive() answer {
	p.h.t.Helper()
	select {
	case a := <-p.answers:
		return a
	case <-p.h.ended:
		p.h.t.Fatalf("the second process ended (%v) during %q", p.h.err, p.what)
	case <-time.After(patience + 10*time.Second):
		p.h.t.Fatalf("no answer to %q", p.what)
	}
	return answer{}
}

// begun waits until the operation of the order was handed to UCX.
func (p *pending) begun() *pending {
	p.h.t.Helper()
	if a := p.receive(); a.Note == "" {
		p.h.t.Fatalf("second process: %s%s", p.what, a.Err)
	}
	return p
}

// result waits for the end and returns the error as text.
func (p *pending) result() answer {
	p.h.t.Helper()
	for {
		if a := p.receive(); a.Note == "" {
			return a
		}
	}
}

// wait waits for the end, which must be a good one.
func (p *pending) wait() answer {
	p.h.t.Helper()
	a := p.result()
	if a.Err != "" {
		p.h.t.Fatalf("second process: %s", a.Err)
	}
	return a
}

// do is start and wait.
func (h *helper) do(o order) answer {
	h.t.Helper()
	return h.start(o).wait()
}

// dial connects a worker of the test with the second process. The number names the endpoint there.
func (h *helper) dial(w *ucx.Worker) (*ucx.Endpoint, int) {
	h.t.Helper()
	accept := h.start(order{Do: "accept"})
	ep, err := w.Dial(testContext(h.t), h.address)
	must(h.t, err)
	return ep, accept.wait().Number
}

// signal sends a signal and, for SIGSTOP, waits until the process has stopped.
func (h *helper) signal(s syscall.Signal) {
	h.t.Helper()
	must(h.t, h.cmd.Process.Signal(s))
	if s != syscall.SIGSTOP {
		return
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.cmd.Process.Pid))
		must(h.t, err)
		if _, rest, ok := strings.Cut(string(b), ") "); ok && rest[0] == 'T' {
			return
		}
	}
	h.t.Fatal("the second process did not stop")
}

// quit ends the process in peace and checks that it found nothing wrong.
func (h *helper) quit() {
	h.t.Helper()
	_ = h.in.Close()
	select {
	case <-h.ended:
		if h.err != nil {
			h.t.Errorf("second process: %v", h.err)
		}
	case <-time.After(patience):
		h.t.Error("the second process did not end")
	}
}

func (h *helper) stop() {
	_ = h.in.Close()
	_ = h.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-h.ended:
	case <-time.After(10 * time.Second):
		_ = h.cmd.Process.Kill()
		<-h.ended
	}
}

// connected starts the second process and connects to it.
func connected(t testing.TB, options map[string]string, mode ucx.ProgressMode) (*helper, *ucx.Worker, *ucx.Endpoint,
	int) {
	t.Helper()
	w := newWorker(t, options, ucx.WorkerConfig{Progress: mode})
	h := startHelper(t, options, mode)
	ep, number := h.dial(w)
	return h, w, ep, number
}
