package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev"
	"go.millstream.dev/cli"
	"go.millstream.dev/client"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	millstream.Main()
	cli.Serve()
	os.Exit(leak.Main(m))
}

// full is the long form of every test.
var full = os.Getenv("MILLSTREAM_CHAOS") == "full"

// pick is a number of the long form and its short form.
func pick[T any](long, short T) T {
	if full {
		return long
	}
	return short
}

// step is a task: it takes a while and hashes its inputs.
var step = client.Func3("chaos.step", func(ctx context.Context, seed uint64, ms int, inputs []uint64) (uint64, error) {
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return hash(seed, inputs), nil
})

// mix is a hash step (splitmix64).
func mix(h, v uint64) uint64 {
	h += v + 0x9E3779B97F4A7C15
	h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
	h = (h ^ h>>27) * 0x94D049BB133111EB
	return h ^ h>>31
}

func hash(seed uint64, inputs []uint64) uint64 {
	h := mix(seed, uint64(len(inputs)))
	for _, v := range inputs {
		h = mix(h, v)
	}
	return h
}

// plan is a graph of dependent tasks of 10 to 50 ms. It has blocks of layers of eight tasks; each task has two
// to four inputs of the layer before it in its block. The last layers of the blocks are wanted. What a lost
// result costs is bounded by its block: released results that it needs are computed again.
type plan struct {
	blocks, layers int
	seed           uint64
	quick          bool // tasks take no time: the undisturbed run
}

const width = 8

func (p plan) tasks() int { return p.blocks * p.layers * width }

// built is a graph and what each of its tasks must give.
type built struct {
	graph  *client.Graph
	nodes  []client.Node[uint64]
	values []uint64
	wanted []int // indices
}

func (p plan) build() built {
	r := rand.New(rand.NewPCG(p.seed, 1))
	b := built{graph: client.NewGraph()}
	for i := range p.tasks() {
		seed, ms := r.Uint64(), 10+r.IntN(41)
		if p.quick {
			ms = 0
		}
		var args []client.Arg[uint64]
		var inputs []uint64
		layer := i / width % p.layers
		if layer > 0 {
			for range 2 + r.IntN(3) {
				k := i - i%width - width + r.IntN(width)
				args = append(args, b.nodes[k])
				inputs = append(inputs, b.values[k])
			}
		}
		// Each layer is a group of its own to the scheduler, as in graphs of real programs.
		name := "step"
		if p.quick {
			name = "calm"
		}
		key := fmt.Sprintf("%s%c-%d-%d", name, 'a'+rune(layer), p.seed, i)
		b.nodes = append(b.nodes, step.Node(b.graph, key, client.Val(seed), client.Val(ms), client.List(args...)))
		b.values = append(b.values, hash(seed, inputs))
		if layer == p.layers-1 {
			b.wanted = append(b.wanted, i)
		}
	}
	return b
}

// running is a graph that was submitted.
type running struct {
	t       *testing.T
	built   built
	futures []*client.Future[uint64]
	results []uint64 // in the order of futures
	done    atomic.Int64
}

// submit submits a graph: all of its tasks are wanted, or the last layers.
func (p plan) submit(t *testing.T, c *client.Client, all bool) *running {
	t.Helper()
	b := p.build()
	nodes := b.nodes
	if !all {
		nodes = nil
		for _, i := range b.wanted {
			nodes = append(nodes, b.nodes[i])
		}
	} else {
		b.wanted = b.wanted[:0]
		for i := range nodes {
			b.wanted = append(b.wanted, i)
		}
	}
	futures, err := client.Compute(t.Context(), c, b.graph, nodes...)
	if err != nil {
		t.Fatal(err)
	}
	return &running{t: t, built: b, futures: futures, results: make([]uint64, len(futures))}
}

// collect fetches each result when it is there, checks it and lets it go. It returns a hash of all.
func (r *running) collect() uint64 {
	t := r.t
	t.Helper()
	ctx := bounded(t)
	at := map[client.Key]int{}
	for i, f := range r.futures {
		at[f.Key()] = i
	}
	for f, err := range client.AsCompleted(ctx, r.futures) {
		if err != nil {
			t.Fatal(err)
		}
		v, err := f.Result(ctx)
		if err != nil {
			t.Fatal(err)
		}
		i := at[f.Key()]
		if want := r.built.values[r.built.wanted[i]]; v != want {
			t.Fatalf("%v is %x, it must be %x", f.Key(), v, want)
		}
		r.results[i] = v
		r.done.Add(1)
		f.Release()
	}
	if n := int(r.done.Load()); n != len(r.futures) {
		t.Fatalf("%d of %d results have come", n, len(r.futures))
	}
	return hash(0, r.results)
}

// progress is the part of the results that have come.
func (r *running) progress() float64 { return float64(r.done.Load()) / float64(len(r.futures)) }

// undisturbed runs a plan without waiting in its tasks: what the disturbed run is compared with.
func (p plan) undisturbed(t *testing.T, c *client.Client, all bool) uint64 {
	t.Helper()
	p.quick = true
	return p.submit(t, c, all).collect()
}

// await waits until something is true; the test's deadline bounds it.
func await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	limit := time.Now().Add(2 * time.Minute)
	for !reached() {
		if time.Now().After(limit) {
			t.Fatalf("not within two minutes: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// bounded is a context that ends while there is time left to tell what has happened.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), pick(10*time.Minute, 2*time.Minute))
	t.Cleanup(cancel)
	return ctx
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (l *tail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, b...)
	if len(l.buf) > 1<<20 {
		l.buf = append(l.buf[:0], l.buf[len(l.buf)-1<<19:]...)
	}
	return len(b), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.buf)
}
