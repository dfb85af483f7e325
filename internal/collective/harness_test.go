package collective

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/collective/transport"
	_ "go.millstream.dev/internal/comm/inproc"
	_ "go.millstream.dev/internal/comm/tcp"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/ucx"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(withUCX{m})) }

// withUCX closes the context of all tests before leaks are looked for.
type withUCX struct{ m *testing.M }

func (w withUCX) Run() int {
	sharedPiece = 4 << 10
	code := w.m.Run()
	if c, err := ucxContext(); err == nil {
		_ = c.Close()
	}
	return code
}

// backend is one way to connect ranks in these tests.
type backend struct {
	name   string
	scheme string
	ucx    bool
	shared SharedMemory
	det    bool
}

// backends are all of them. The shared memory of one process is as good as that of several: it is mapped once for each
// rank.
var backends = []backend{
	{name: "inproc", scheme: "inproc", shared: SharedOff},
	{name: "tcp", scheme: "tcp", shared: SharedOff},
	{name: "ucx", scheme: "inproc", ucx: true, shared: SharedOff},
	{name: "shm", scheme: "inproc"},
	{name: "deterministic", scheme: "inproc", shared: SharedOff, det: true},
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// connect makes a comm between every two of n ranks.
func connect(ctx context.Context, t testing.TB, scheme string, n int) [][]comm.Comm {
	t.Helper()
	address := scheme + "://"
	if scheme == "tcp" {
		address += "127.0.0.1:0"
	}
	l, err := comm.Listen(ctx, address, comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all := make([][]comm.Comm, n)
	for r := range all {
		all[r] = make([]comm.Comm, n)
	}
	for i := range n {
		for j := range i {
			dialed := make(chan comm.Comm, 1)
			go func() {
				c, err := comm.Dial(ctx, l.ContactAddr(), comm.DialConfig{})
				if err != nil {
					t.Error(err)
				}
				dialed <- c
			}()
			if all[j][i], err = l.Accept(ctx); err != nil {
				t.Fatal(err)
			}
			if all[i][j] = <-dialed; all[i][j] == nil {
				t.FailNow()
			}
		}
	}
	return all
}

var ucxContext = sync.OnceValues(func() (*ucx.Context, error) { return ucx.NewContext(ucx.Config{}) })

// transports connects n ranks.
func (b backend) transports(ctx context.Context, t testing.TB, n int) []transport.Transport {
	t.Helper()
	comms := connect(ctx, t, b.scheme, n)
	ts := make([]transport.Transport, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for r := range n {
		all.Go(func() {
			m, err := transport.NewComm(r, comms[r])
			if err != nil || !b.ucx {
				ts[r], errs[r] = m, err
				return
			}
			c, err := ucxContext()
			if err != nil {
				errs[r] = err
				return
			}
			w, err := c.NewWorker(ucx.WorkerConfig{})
			if err != nil {
				errs[r] = err
				return
			}
			ts[r], errs[r] = transport.NewUCX(ctx, m, w, nil)
		})
	}
	all.Wait()
	for r, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	return ts
}

// groups makes a group of n ranks, which the test's end closes.
func (b backend) groups(ctx context.Context, t testing.TB, n int) []*Group {
	t.Helper()
	gs := make([]*Group, n)
	ts := b.transports(ctx, t, n)
	names := make([]string, n)
	for r := range names {
		names[r] = fmt.Sprintf("worker-%d", r)
	}
	each(t, n, func(r int) error {
		var err error
		gs[r], err = New(ctx, ts[r], Config{Deterministic: b.det, SharedMemory: b.shared, Names: names})
		return err
	})
	t.Cleanup(func() { closeAll(gs) })
	return gs
}

func closeAll(gs []*Group) {
	var all sync.WaitGroup
	for _, g := range gs {
		if g != nil {
			all.Go(func() { _ = g.Close() })
		}
	}
	all.Wait()
}

// each runs f on every rank and fails the test with the first error.
func each(t testing.TB, n int, f func(rank int) error) {
	t.Helper()
	for r, err := range results(n, f) {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
}

// results runs f on every rank.
func results(n int, f func(rank int) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for r := range n {
		all.Go(func() { errs[r] = f(r) })
	}
	all.Wait()
	return errs
}
