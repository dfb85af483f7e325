package interop

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/tests/interop/pypeer"
	"go.millstream.dev/ucx"
)

func TestMain(m *testing.M) {
	// What UCX sets up once per process is no leak of a test.
	if c, err := ucx.NewContext(config()); err == nil {
		if w, err := c.NewWorker(ucx.WorkerConfig{}); err == nil {
			_ = w.Close()
		}
		_ = c.Close()
	}
	os.Exit(leak.Main(m))
}

// config is what reaches UCXX: UCX's own choice of transports, and the release of UCX that
// the peers have, as UCX connects only like ones by socket address.
func config() ucx.Config {
	cfg := ucx.Config{PlainTransports: true}
	python, err := pypeer.Python()
	if err != nil {
		return cfg // newRig reports it
	}
	// pip, conda
	for _, place := range []string{"lib/python3*/site-packages/libucx/lib/libucp.so.0", "lib/libucp.so.0"} {
		if found, _ := filepath.Glob(filepath.Join(filepath.Dir(python), "..", place)); len(found) > 0 {
			cfg.Library = found[0]
			break
		}
	}
	return cfg
}

// rig is one Python peer and one worker of ours.
type rig struct {
	asker
	w *ucx.Worker
}

// lockedBuffer keeps a peer's log, which two goroutines of os/exec may write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newRig(t *testing.T, program string, args ...string) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	log := new(lockedBuffer)
	peer, err := pypeer.Start(ctx, log, nil, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		peer.Kill()
		if t.Failed() {
			t.Logf("log of the peer:\n%s", log)
		}
	})
	c, err := ucx.NewContext(config())
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{asker: asker{t, ctx, peer}, w: w}
}

// link is one connection: our end and the name of the peer's.
type link struct {
	*rig
	ep    *ucx.UCXXEndpoint
	name  string
	their pypeer.Answer // the peer's answer or event about it
}

// client connects us to the peer.
func (r *rig) client() *link {
	r.Helper()
	port := r.do("listen", nil).Port
	ep, err := r.w.DialUCXX(r.ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		r.Fatal(err)
	}
	a, err := r.peer.Event(r.ctx, "accepted")
	if err != nil {
		r.Fatal(err)
	}
	return &link{rig: r, ep: ep, name: a.EP, their: a}
}

// server lets the peer connect to us.
func (r *rig) server() *link {
	r.Helper()
	l, err := r.w.ListenUCXX(r.ctx, "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	defer l.Close()
	p := r.post("connect", pypeer.Command{"host": "127.0.0.1", "port": l.Addr().(*net.TCPAddr).Port})
	ep, err := l.Accept(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	a := r.wait(p)
	return &link{rig: r, ep: ep, name: a.EP, their: a}
}

// bothWays runs a test on a connection of each direction, to one process of UCXX's
// asyncio interface in its default progress mode.
func bothWays(t *testing.T, f func(*link)) {
	r := newRig(t, pypeer.Async)
	for _, way := range []string{"client", "server"} {
		t.Run(way, func(t *testing.T) { f(r.sub(t).link(way)) })
	}
}

// bothWaysAlone is bothWays for tests that end the peer.
func bothWaysAlone(t *testing.T, f func(*link)) {
	for _, way := range []string{"client", "server"} {
		t.Run(way, func(t *testing.T) { f(newRig(t, pypeer.Async).link(way)) })
	}
}

// sub is the rig of a subtest.
func (r *rig) sub(t *testing.T) *rig { return &rig{asker: asker{t, r.ctx, r.peer}, w: r.w} }

func (r *rig) link(way string) *link {
	r.Helper()
	if way == "client" {
		return r.client()
	}
	return r.server()
}

func (l *link) command(c pypeer.Command) pypeer.Command {
	out := pypeer.Command{"ep": l.name}
	for k, v := range c {
		out[k] = v
	}
	return out
}

// async runs one of our operations beside the peer's.
func async(f func() error) <-chan error {
	ch := make(chan error, 1)
	go func() { ch <- f() }()
	return ch
}

// check reports what came instead of the pattern of a seed.
func check(got []byte, size, seed int) error {
	if !bytes.Equal(got, pypeer.NewPattern(size, seed)) {
		return fmt.Errorf("got %d bytes instead of %d, or other ones", len(got), size)
	}
	return nil
}

func checkAnswer(a pypeer.Answer, size, seed int) error {
	if a.Size != int64(size) || a.SHA256 != pypeer.Sum(pypeer.NewPattern(size, seed)) {
		return fmt.Errorf("the peer got %d bytes instead of %d, or other ones", a.Size, size)
	}
	return nil
}

func (l *link) waitDone() {
	l.Helper()
	select {
	case <-l.ep.Done():
	case <-l.ctx.Done():
		l.Fatal("the endpoint is still open")
	}
}

// sizes are those of messages: empty, around UCXX's rendezvous threshold, large.
var sizes = []int{0, 1, 8, 1024, 1025, 8191, 8192, 8193, 1 << 20, 5 << 20}
