package ucx

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"go.millstream.dev/mem"
)

// eagerLimit is where the operation matrix makes UCX change from eager to rendezvous.
const eagerLimit = 8192

// matrixSizes are the message lengths of the operation matrix: nothing, the slot's own
// memory and one more, the eager limit and its neighbors, fragments, many fragments.
var matrixSizes = []int{0, 1, 8, 1024, 1025, eagerLimit - 1, eagerLimit, eagerLimit + 1, 64 << 10, 1<<20 + 3}

// opSetting is one column of the operation matrix.
type opSetting struct {
	transport string // self, shm, tcp
	mode      string
	w         WorkerConfig
}

var transportOptions = map[string]string{"self": "self", "shm": "posix,sysv,cma,self", "tcp": "tcp,self"}

func opSettings() []opSetting {
	var out []opSetting
	for _, transport := range []string{"self", "shm", "tcp"} {
		out = append(out,
			opSetting{transport, "adaptive", WorkerConfig{}},
			opSetting{transport, "polling", WorkerConfig{Progress: Polling}},
			opSetting{transport, "thread", WorkerConfig{Progress: Thread}},
			opSetting{transport, "single", WorkerConfig{threads: threadSingle}})
	}
	return out
}

// transportConfig asks for one transport. UCX cannot sleep on "self" alone, so that one goes without.
func transportConfig(transport string) Config {
	c := Config{Options: map[string]string{"TLS": transportOptions[transport], "RNDV_THRESH": fmt.Sprint(eagerLimit)}}
	if transport == "self" {
		c.Features = AllFeatures &^ Wakeup
	}
	return c
}

// transportPair connects two workers, or one with itself, over one transport.
func transportPair(t testing.TB, transport string, wcfg WorkerConfig) (a, b *Endpoint) {
	t.Helper()
	if transport != "self" {
		return pair(t, transportConfig(transport), wcfg)
	}
	w := newWorker(t, transportConfig(transport), wcfg)
	addr, err := w.Address()
	if err != nil {
		t.Fatal(err)
	}
	// The self transport cannot fail, and does not offer to report it.
	ep, err := w.Connect(addr, &EndpointConfig{NoErrorHandling: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ep.Close() })
	return ep, ep
}

// payload is memory of one kind for one operation, with guard bytes behind it.
type payload struct {
	view  View
	all   []byte // data and guard
	n     int
	free  func()
	guard byte
}

const guardLen = 64

// memoryKinds are where the matrix takes payloads from.
var memoryKinds = []string{"heap", "mmap", "pool"}

type payloads struct {
	t    testing.TB
	pool *mem.Pool
}

func newPayloads(t testing.TB) *payloads {
	p, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{SlabBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("pool: %v", err)
		}
	})
	return &payloads{t, p}
}

func (ps *payloads) get(kind string, n int) *payload {
	p := &payload{n: n, guard: 0xa5, free: func() {}}
	if kind == "heap" {
		p.all = make([]byte, n+guardLen)
		p.view = Bytes(p.all[:n])
	} else {
		var res mem.Resource = ps.pool
		if kind == "mmap" {
			res = mem.NewMmap(mem.MmapConfig{})
		}
		b, err := res.Alloc(context.Background(), n+guardLen)
		if err != nil {
			ps.t.Fatal(err)
		}
		p.all = b.Bytes()
		p.view = Buffer(b).Slice(0, n)
		p.free = b.Release
	}
	clear(p.all[:n])
	for i := range guardLen {
		p.all[n+i] = p.guard
	}
	return p
}

// check compares what arrived and looks at the bytes behind it.
func (p *payload) check(want []byte) error {
	if !bytes.Equal(p.all[:len(want)], want) {
		return fmt.Errorf("%d bytes: content differs", len(want))
	}
	for i, c := range p.all[p.n:] {
		if c != p.guard {
			return fmt.Errorf("%d bytes: byte %d behind the buffer was overwritten", p.n, i)
		}
	}
	return nil
}
