package ucx

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// rmaSettings are the ways by which one-sided operations travel in these tests. With
// UCX's self transport alone a worker could not sleep, so tcp stands beside it.
var rmaSettings = []struct {
	name, tls  string
	transports []string // one of them must be in use
}{
	{"self", "self,tcp", []string{"self"}},
	{"shm", "posix,sysv,cma,tcp,self", []string{"posix", "sysv", "cma"}},
	{"tcp", "tcp,self", []string{"tcp"}},
}

// eachSetting runs a test for every setting with an endpoint and the context that owns
// the memory at its far end. Self has no peer error mode and newer UCX no atomics in
// it, so that it is used where it can be.
func eachSetting(t *testing.T, atomics bool, f func(t *testing.T, ep *Endpoint, owner *Context)) {
	for _, s := range rmaSettings {
		t.Run(s.name, func(t *testing.T) {
			cfg := Config{Options: map[string]string{"TLS": s.tls}}
			var ep *Endpoint
			var owner *Context
			if s.name == "self" || atomics {
				ep, owner = plainPair(t, cfg, s.name == "self")
			} else {
				ep, owner = rmaPair(t, cfg)
			}
			f(t, ep, owner)
			transports, err := ep.Transports()
			if err != nil {
				if ep.Err() != nil {
					return
				}
				t.Fatal(err)
			}
			used := func(l Transport) bool { return slices.Contains(s.transports, l.Name) }
			if !slices.ContainsFunc(transports, used) {
				t.Errorf("the endpoint uses %v, none of %v", transports, s.transports)
			}
		})
	}
}

// rmaPair returns an endpoint in peer error mode.
func rmaPair(t testing.TB, cfg Config) (*Endpoint, *Context) {
	t.Helper()
	a, b := pair(t, cfg, WorkerConfig{})
	return a, b.w.ctx
}

// plainPair returns an endpoint without error handling, made from a worker address: of
// its own worker or of another.
func plainPair(t testing.TB, cfg Config, self bool) (*Endpoint, *Context) {
	t.Helper()
	far := newWorker(t, cfg, WorkerConfig{})
	near := far
	if !self {
		near = newWorker(t, cfg, WorkerConfig{})
	}
	addr, err := far.Address()
	if err != nil {
		t.Fatal(err)
	}
	ep, err := near.Connect(addr, &EndpointConfig{NoErrorHandling: true})
	if err != nil {
		t.Fatal(err)
	}
	plainPeers.Store(ep, far)
	t.Cleanup(func() { plainPeers.Delete(ep) })
	return ep, far.ctx
}

// plainPeers knows the worker at the far end of an endpoint that plainPair made.
var plainPeers sync.Map

const guard = 64

// exposed is registered memory between guard bytes, with the key to it.
type exposed struct {
	t      testing.TB
	all    []byte
	window []byte // what is registered
	m      *Memory
	rk     *RemoteKey
}

// expose registers n bytes of memory of the owner and unpacks the key on ep.
func expose(t testing.TB, ep *Endpoint, owner *Context, n int, from mem.Resource) *exposed {
	t.Helper()
	buf, err := from.Alloc(context.Background(), n+2*guard)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Release() // the registration keeps it
	m, err := owner.Register(Buffer(buf).Slice(guard, n))
	if err != nil {
		t.Fatal(err)
	}
	rk := unpack(t, ep, m.Key())
	e := &exposed{t: t, all: buf.Bytes(), m: m, rk: rk}
	e.window = e.all[guard : guard+n]
	fill(e.all)
	t.Cleanup(func() {
		rk.Release()
		m.Release()
	})
	return e
}

func unpack(t testing.TB, ep *Endpoint, key MemoryKey) *RemoteKey {
	t.Helper()
	b, err := key.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var got MemoryKey
	if err := got.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	rk, err := ep.Unpack(got)
	if err != nil {
		t.Fatal(err)
	}
	return rk
}

func fill(b []byte) {
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
}

// resources are where the tests take the registered memory from: UCX itself, which
// takes shared memory where it can, and private mappings.
func resources(owner *Context) map[string]mem.Resource {
	return map[string]mem.Resource{"alloc": owner.Resource(mem.Host, 0), "mmap": mem.NewMmap(mem.MmapConfig{})}
}

// local is memory on the near side, between guard bytes as well.
func local(t testing.TB, kind string, n int) (View, []byte, []byte) {
	t.Helper()
	if kind == "heap" {
		b := make([]byte, n+2*guard)
		fill(b)
		return Bytes(b[guard : guard+n]), b[guard : guard+n], b
	}
	buf, err := mem.NewMmap(mem.MmapConfig{}).Alloc(context.Background(), n+2*guard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(buf.Release)
	fill(buf.Bytes())
	return Buffer(buf).Slice(guard, n), buf.Bytes()[guard : guard+n], buf.Bytes()
}

// rmaSizes are around the limits that matter: empty, a word, what is copied into a
// slot, shared memory's segments, several fragments.
var rmaSizes = []int{0, 1, 8, ucp.InlineSize - 1, ucp.InlineSize, ucp.InlineSize + 1, 8191, 8192, 8193, 64 << 10,
	1<<20 + 3}

// rmaModes carry a transfer out in the blocking and in the started form.
var rmaModes = map[string]struct {
	put, get func(ctx context.Context, ep *Endpoint, v View, rk *RemoteKey, off int64) error
}{
	"blocking": {
		func(ctx context.Context, ep *Endpoint, v View, rk *RemoteKey, off int64) error {
			return ep.Put(ctx, v, rk, off)
		},
		func(ctx context.Context, ep *Endpoint, v View, rk *RemoteKey, off int64) error {
			return ep.Get(ctx, v, rk, off)
		},
	},
	"started": {
		func(ctx context.Context, ep *Endpoint, v View, rk *RemoteKey, off int64) error {
			return ep.StartPut(v, rk, off).Wait(ctx)
		},
		func(ctx context.Context, ep *Endpoint, v View, rk *RemoteKey, off int64) error {
			return ep.StartGet(v, rk, off).Wait(ctx)
		},
	},
}

// TestMemoryPut and TestMemoryGet move random bytes of every size, from and to every
// place, and look at the bytes around on both sides.
func TestMemoryPut(t *testing.T) {
	eachTransfer(t, func(ctx context.Context, t *testing.T, c transferCase) {
		want := slices.Clone(c.far.all)
		copy(want[guard+c.off:], c.bytes)
		near := slices.Clone(c.around)
		if err := c.mode.put(ctx, c.ep, c.v, c.far.rk, int64(c.off)); err != nil {
			t.Fatal(err)
		}
		if err := c.ep.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.far.all, want) {
			t.Fatalf("the peer's memory is wrong %s", firstDifference(c.far.all, want))
		}
		if !bytes.Equal(c.around, near) {
			t.Fatal("a put has changed its source")
		}
	})
}

func TestMemoryGet(t *testing.T) {
	eachTransfer(t, func(ctx context.Context, t *testing.T, c transferCase) {
		want := slices.Clone(c.around)
		copy(want[guard:], c.far.window[c.off:c.off+len(c.bytes)])
		far := slices.Clone(c.far.all)
		if err := c.mode.get(ctx, c.ep, c.v, c.far.rk, int64(c.off)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.around, want) {
			t.Fatalf("what came is wrong %s", firstDifference(c.around, want))
		}
		if !bytes.Equal(c.far.all, far) {
			t.Fatal("a get has changed the peer's memory")
		}
	})
}

type transferCase struct {
	ep            *Endpoint
	far           *exposed
	v             View
	bytes, around []byte
	off           int
	mode          struct {
		put, get func(ctx context.Context, ep *Endpoint, v View, rk *RemoteKey, off int64) error
	}
}

// eachTransfer runs f for {self, shm, tcp} × {alloc, mmap} × {heap, buffer} ×
// {blocking, started} × sizes × {start, odd offset, end}.
func eachTransfer(t *testing.T, f func(ctx context.Context, t *testing.T, c transferCase)) {
	eachSetting(t, false, func(t *testing.T, ep *Endpoint, owner *Context) {
		ctx := testContext(t)
		const odd = 13
		largest := slices.Max(rmaSizes)
		for place, from := range resources(owner) {
			far := expose(t, ep, owner, largest+2*odd, from)
			for _, kind := range []string{"heap", "buffer"} {
				for name, mode := range rmaModes {
					t.Run(fmt.Sprintf("%s/%s/%s", place, kind, name), func(t *testing.T) {
						for _, n := range rmaSizes {
							for _, off := range []int{0, odd, len(far.window) - n} {
								v, b, around := local(t, kind, n)
								f(ctx, t, transferCase{ep: ep, far: far, v: v, bytes: b, around: around, off: off,
									mode: mode})
							}
						}
					})
				}
			}
		}
	})
}

func firstDifference(got, want []byte) string {
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("at byte %d of %d (guards are %d long): %#x, want %#x", i, len(got), guard, got[i],
				want[i])
		}
	}
	return "nowhere"
}

// TestMemoryGetPreallocated reads into registered memory of this side.
func TestMemoryGetPreallocated(t *testing.T) {
	eachSetting(t, false, func(t *testing.T, ep *Endpoint, owner *Context) {
		const n = 256 << 10 // above the size from which regions are registered
		far := expose(t, ep, owner, n, owner.Resource(mem.Host, 0))
		dst, err := ep.w.ctx.Alloc(n, mem.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer dst.Release()
		if err := ep.Get(testContext(t), Buffer(dst), far.rk, 0); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dst.Bytes(), far.window) {
			t.Error("what came is wrong", firstDifference(dst.Bytes(), far.window))
		}
	})
}

// TestRMAImplicit starts many puts, waits for none of them, and flushes.
func TestRMAImplicit(t *testing.T) {
	flushes := map[string]func(context.Context, *Endpoint) error{
		"endpoint": func(ctx context.Context, ep *Endpoint) error { return ep.Flush(ctx) },
		"worker":   func(ctx context.Context, ep *Endpoint) error { return ep.w.Flush(ctx) },
		"request":  func(ctx context.Context, ep *Endpoint) error { return ep.StartFlush().Wait(ctx) },
	}
	eachSetting(t, false, func(t *testing.T, ep *Endpoint, owner *Context) {
		ctx := testContext(t)
		const piece, pieces = 1500, 64
		far := expose(t, ep, owner, piece*pieces, owner.Resource(mem.Host, 0))
		for name, flush := range flushes {
			src := make([]byte, piece*pieces)
			fill(src)
			requests := make([]*Request, pieces)
			for i := range requests {
				requests[i] = ep.StartPut(Bytes(src[i*piece:(i+1)*piece]), far.rk, int64(i*piece))
			}
			if err := flush(ctx, ep); err != nil {
				t.Fatal(name, err)
			}
			if !bytes.Equal(far.window, src) {
				t.Fatalf("flush of the %s: %s", name, firstDifference(far.window, src))
			}
			for _, r := range requests {
				if err := r.Wait(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestRMAFence writes data and then, after a fence, a flag: whoever sees the flag sees
// the data.
func TestRMAFence(t *testing.T) {
	eachSetting(t, true, func(t *testing.T, ep *Endpoint, owner *Context) {
		ctx := testContext(t)
		const n = 32 << 10
		far := expose(t, ep, owner, n+8, owner.Resource(mem.Host, 0))
		flag := AtomicAt[uint64](far.rk, n)
		for round := range uint64(20) {
			src := make([]byte, n)
			fill(src)
			data := ep.StartPut(Bytes(src), far.rk, 0)
			if err := ep.w.Fence(); err != nil {
				t.Fatal(err)
			}
			if _, err := flag.Swap(ctx, round); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, n)
			if err := ep.Get(ctx, Bytes(got), far.rk, 0); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, src) {
				t.Fatalf("round %d: the flag was there before the data", round)
			}
			if err := data.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestRMAProgressModes: one-sided operations work whoever makes the progress.
func TestRMAProgressModes(t *testing.T) {
	for _, wcfg := range []WorkerConfig{{Progress: Adaptive}, {Progress: Polling}, {Progress: Thread},
		{threads: threadSingle}, {threads: threadMulti}} {
		t.Run(fmt.Sprintf("%v/threads %d", wcfg.Progress, wcfg.threads), func(t *testing.T) {
			ctx := testContext(t)
			a, b := pair(t, Config{}, wcfg)
			for name, mode := range rmaModes {
				far := expose(t, a, b.w.ctx, 1<<18, b.w.ctx.Resource(mem.Host, 0))
				src, dst := make([]byte, 1<<18), make([]byte, 1<<18)
				fill(src)
				if err := mode.put(ctx, a, Bytes(src), far.rk, 0); err != nil {
					t.Fatal(name, err)
				}
				if err := a.Flush(ctx); err != nil {
					t.Fatal(name, err)
				}
				if err := mode.get(ctx, a, Bytes(dst), far.rk, 0); err != nil {
					t.Fatal(name, err)
				}
				if !bytes.Equal(far.window, src) || !bytes.Equal(dst, src) {
					t.Errorf("%s: bytes are wrong", name)
				}
			}
		})
	}
}

// TestRMAAllocations: blocking one-sided operations allocate nothing.
func TestRMAAllocations(t *testing.T) {
	ctx := testContext(t)
	ep, owner := plainPair(t, Config{}, true)
	far := expose(t, ep, owner, 1<<16, owner.Resource(mem.Host, 0))
	small, large := make([]byte, 8), make([]byte, 1<<16)
	word := AtomicAt[uint64](far.rk, 0)
	for name, op := range map[string]func() error{
		"put 8":      func() error { return ep.Put(ctx, Bytes(small), far.rk, 0) },
		"get 8":      func() error { return ep.Get(ctx, Bytes(small), far.rk, 0) },
		"put 64 KiB": func() error { return ep.Put(ctx, Bytes(large), far.rk, 0) },
		"get 64 KiB": func() error { return ep.Get(ctx, Bytes(large), far.rk, 0) },
		"fetch add":  func() error { _, err := word.FetchAdd(ctx, 1); return err },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := op(); err != nil {
				t.Fatal(err)
			}
		}); n >= 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
