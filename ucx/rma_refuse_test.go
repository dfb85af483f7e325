package ucx

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// TestRMARefuses: what cannot be right is refused before UCX sees it, by both forms.
func TestRMARefuses(t *testing.T) {
	ctx := testContext(t)
	ep, owner := rmaPair(t, Config{})
	other, _ := connectPair(t, ctx, ep.w, newWorker(t, Config{}, WorkerConfig{}))
	far := expose(t, ep, owner, 100, owner.Resource(mem.Host, 0))
	b := make([]byte, 101)
	cases := []struct {
		name string
		ep   *Endpoint
		v    View
		rk   *RemoteKey
		off  int64
		want error
		text string
	}{
		{"negative offset", ep, Bytes(b[:1]), far.rk, -1, ErrOutOfRange, "offset -1"},
		{"offset at the end", ep, Bytes(b[:1]), far.rk, 100, ErrOutOfRange, "100 bytes"},
		{"offset beyond the end", ep, Bytes(b[:0]), far.rk, 101, ErrOutOfRange, "offset 101"},
		{"too long", ep, Bytes(b), far.rk, 0, ErrOutOfRange, "101 bytes"},
		{"too long at an offset", ep, Bytes(b[:100]), far.rk, 1, ErrOutOfRange, "offset 1"},
		{"offset that overflows", ep, Bytes(b[:8]), far.rk, 1<<63 - 4, ErrOutOfRange, ""},
		{"key of another endpoint", other, Bytes(b[:8]), far.rk, 0, ErrInvalidParam, "belongs to"},
		{"no key", ep, Bytes(b[:8]), nil, 0, ErrInvalidParam, "nil"},
		{"bad view", ep, Bytes(b).Slice(5, 1000), far.rk, 0, nil, "slice"},
	}
	before := ep.w.drv.c.Stats.Ops
	for _, c := range cases {
		for op, err := range map[string]error{
			"put": c.ep.Put(ctx, c.v, c.rk, c.off), "get": c.ep.Get(ctx, c.v, c.rk, c.off),
			"start put": c.ep.StartPut(c.v, c.rk, c.off).Wait(ctx), "start get": c.ep.StartGet(c.v, c.rk,
				c.off).Wait(ctx),
		} {
			var oe *OpError
			if !errors.As(err, &oe) || c.want != nil && !errors.Is(err, c.want) ||
				!strings.Contains(err.Error(), c.text) {
				t.Errorf("%s, %s: %v", c.name, op, err)
			}
		}
	}
	after := ep.w.drv.c.Stats.Ops
	if before[ucp.OpPut] != after[ucp.OpPut] || before[ucp.OpGet] != after[ucp.OpGet] {
		t.Error("an operation that was refused has reached UCX")
	}
}

func TestRMAWithoutFeature(t *testing.T) {
	ctx := testContext(t)
	ep, owner := plainPair(t, Config{Features: Tag | Wakeup | Atomic64}, false)
	far := expose(t, ep, owner, 64, mem.NewMmap(mem.MmapConfig{}))
	if err := ep.Put(ctx, Bytes(make([]byte, 8)), far.rk, 0); !errors.Is(err, errUnsupported) ||
		!strings.Contains(err.Error(), "RMA") {
		t.Errorf("put without the feature: %v", err)
	}
	if _, err := AtomicAt[uint32](far.rk, 0).Load(ctx); !errors.Is(err, errUnsupported) ||
		!strings.Contains(err.Error(), "Atomic32") {
		t.Errorf("32-bit atomic without the feature: %v", err)
	}
}

// TestRMAReadOnly: peers can read read-only memory, and not write it.
func TestRMAReadOnly(t *testing.T) {
	ctx := testContext(t)
	ep, owner := rmaPair(t, Config{})
	buf, err := mem.NewMmap(mem.MmapConfig{}).Alloc(ctx, 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Release()
	fill(buf.Bytes())
	v := View{addr: buf.Addr(), n: buf.Len(), device: -1, readOnly: true}
	m, err := owner.Register(v)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	rk := unpack(t, ep, m.Key())
	defer rk.Release()
	if !rk.readOnly {
		t.Error("the key has forgotten that the memory is read-only")
	}
	got := make([]byte, 4096)
	if err := ep.Get(ctx, Bytes(got), rk, 0); err != nil || !bytes.Equal(got, buf.Bytes()) {
		t.Errorf("get: %v", err)
	}
	if err := ep.Put(ctx, Bytes(got), rk, 0); !errors.Is(err, ErrInvalidParam) ||
		!strings.Contains(err.Error(), "read-only") {
		t.Errorf("put: %v", err)
	}
	if _, err := AtomicAt[uint64](rk, 0).FetchAdd(ctx, 1); !errors.Is(err, ErrInvalidParam) {
		t.Errorf("atomic: %v", err)
	}
	if err := AtomicAt[uint64](rk, 0).Add(ctx, 1); !errors.Is(err, ErrInvalidParam) {
		t.Errorf("atomic without a result: %v", err)
	}
	if err := ep.Get(ctx, View{addr: v.addr, n: 8, device: -1, readOnly: true}, rk, 0); err == nil {
		t.Error("get into read-only memory is not refused")
	}
}

// TestRMACancelled: a context that has ended stops an operation before it begins.
func TestRMACancelled(t *testing.T) {
	ep, owner := rmaPair(t, Config{})
	far := expose(t, ep, owner, 1<<20, owner.Resource(mem.Host, 0))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	want := slices.Clone(far.window)
	b := make([]byte, 1<<20)
	if err := ep.Put(ctx, Bytes(b), far.rk, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if err := ep.Get(ctx, Bytes(b), far.rk, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v", err)
	}
	if err := ep.Flush(testContext(t)); err != nil || ep.Err() != nil {
		t.Errorf("the endpoint has suffered: %v, %v", err, ep.Err())
	}
	if !bytes.Equal(far.window, want) || bytes.ContainsFunc(b, func(r rune) bool { return r != 0 }) {
		t.Error("bytes have moved")
	}
}

// TestRMADeadline: the owner is stopped, so that operations which need its progress
// cannot end. They return at the deadline, the memory is the caller's again, and
// nothing is written to it when the owner goes on.
func TestRMADeadline(t *testing.T) {
	const n = 1 << 20
	for _, op := range []string{"get", "put", "atomic"} {
		t.Run(op, func(t *testing.T) {
			h, ep, rk := farProcess(t, "tcp,self", n, op != "atomic")
			if err := ep.Get(testContext(t), Bytes(make([]byte, 8)), rk, 0); err != nil {
				t.Fatal(err) // connected
			}
			h.signal(stopSignal)
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			// Puts end when the kernel has taken the bytes: more than it takes are needed.
			b := make([]byte, n)
			var err error
			start := time.Now()
			switch op {
			case "get":
				err = ep.Get(ctx, Bytes(b), rk, 0)
			case "put":
				for err == nil {
					err = ep.Put(ctx, Bytes(b), rk, 0)
				}
			case "atomic":
				_, err = AtomicAt[uint64](rk, 0).FetchAdd(ctx, 1)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("after %v: %v", time.Since(start), err)
			}
			if alive := ep.Err() == nil; alive != (op == "atomic") {
				t.Errorf("endpoint: %v; it should fail exactly if memory was borrowed", ep.Err())
			}
			fill(b)
			canary := slices.Clone(b)
			h.signal(continueSignal)
			h.say("sleep 100")
			time.Sleep(100 * time.Millisecond)
			if !bytes.Equal(b, canary) {
				t.Error("memory was written after the call had returned")
			}
		})
	}
}
