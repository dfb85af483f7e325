package ucx

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// TestRemoteKey: an unpacked key knows what it opens.
func TestRemoteKey(t *testing.T) {
	eachSetting(t, false, func(t *testing.T, ep *Endpoint, owner *Context) {
		far := expose(t, ep, owner, 1234, owner.Resource(mem.Host, 0))
		if far.rk.Len() != 1234 || far.rk.kind != mem.Host || far.rk.readOnly || far.rk.ep != ep {
			t.Errorf("%d bytes of %v memory, read-only %v, of %v", far.rk.Len(), far.rk.kind, far.rk.readOnly,
				far.rk.ep)
		}
	})
}

// TestUnpackRefuses: keys that are not whole do not reach UCX.
func TestUnpackRefuses(t *testing.T) {
	ep, owner := rmaPair(t, Config{})
	far := expose(t, ep, owner, 100, owner.Resource(mem.Host, 0))
	before := ep.w.drv.c.Stats.Ops[ucp.OpCall]
	cut := far.m.Key()
	cut.packed = cut.packed[:len(cut.packed)/2]
	if cut.packed[0] == 0 {
		t.Fatalf("the key names no memory domain: %x", far.m.Key().packed)
	}
	for name, k := range map[string]MemoryKey{"empty": {}, "cut off": cut} {
		_, err := ep.Unpack(k)
		var oe *OpError
		if !errors.As(err, &oe) || !errors.Is(err, ErrInvalidParam) || oe.Peer != ep.Peer() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ep.w.drv.c.Stats.Ops[ucp.OpCall] != before {
		t.Error("a refused key has reached UCX")
	}
}

// TestRemoteKeyOfOtherRelease: a key that another UCX release packed opens the memory,
// also where this one does not understand it.
func TestRemoteKeyOfOtherRelease(t *testing.T) {
	eachSetting(t, true, func(t *testing.T, ep *Endpoint, owner *Context) {
		ctx := testContext(t)
		far := expose(t, ep, owner, 50_000, owner.Resource(mem.Host, 0))
		foreign := far.m.Key()
		foreign.lib[1]++
		odd := foreign
		if odd.packed = foreign.bare(); bytes.Equal(odd.packed, foreign.packed) {
			t.Error("the key has no transport's part")
		}
		for name, key := range map[string]MemoryKey{"foreign": foreign, "bare": odd} {
			rk := unpack(t, ep, key)
			src, got := make([]byte, 50_000), make([]byte, 50_000)
			fill(src)
			if err := ep.Put(ctx, Bytes(src), rk, 0); err != nil {
				t.Fatal(name, err)
			}
			if err := ep.Flush(ctx); err != nil {
				t.Fatal(name, err)
			}
			if !bytes.Equal(far.window, src) {
				t.Fatal(name, firstDifference(far.window, src))
			}
			if err := ep.Get(ctx, Bytes(got), rk, 0); err != nil || !bytes.Equal(got, src) {
				t.Fatal(name, err)
			}
			word := AtomicAt[uint64](rk, 8)
			old, err := word.FetchAdd(ctx, 3)
			if now, err2 := word.Load(ctx); err != nil || err2 != nil || now != old+3 {
				t.Fatal(name, old, now, err, err2)
			}
			rk.Release()
		}
	})
}

// TestRemoteKeyRelease: releasing twice is once, and a released key opens nothing.
func TestRemoteKeyRelease(t *testing.T) {
	ctx := testContext(t)
	ep, owner := plainPair(t, Config{}, false)
	far := expose(t, ep, owner, 100, owner.Resource(mem.Host, 0))
	second := unpack(t, ep, far.m.Key())
	far.rk.Release()
	far.rk.Release()
	b := make([]byte, 8)
	for name, err := range map[string]error{
		"put": ep.Put(ctx, Bytes(b), far.rk, 0), "start get": ep.StartGet(Bytes(b), far.rk, 0).Wait(ctx),
		"atomic": AtomicAt[uint32](far.rk, 0).Add(ctx, 1),
	} {
		if !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "released") {
			t.Errorf("%s with a released key: %v", name, err)
		}
	}
	if err := ep.Put(ctx, Bytes(b), second, 0); err != nil {
		t.Errorf("the other key has suffered: %v", err)
	}
	second.Release()
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if len(ep.rkeys) != 0 {
		t.Errorf("the endpoint still counts %d keys", len(ep.rkeys))
	}
}

// TestRemoteKeyReleaseInFlight releases keys while operations on them are under way:
// those that were started finish rightly, and each key is destroyed once.
func TestRemoteKeyReleaseInFlight(t *testing.T) {
	eachSetting(t, false, func(t *testing.T, ep *Endpoint, owner *Context) {
		ctx := testContext(t)
		const piece, pieces = 20_000, 16
		far := expose(t, ep, owner, piece*pieces, owner.Resource(mem.Host, 0))
		for range 20 {
			rk := unpack(t, ep, far.m.Key())
			got := make([]byte, piece*pieces)
			var requests []*Request
			for i := range pieces {
				requests = append(requests, ep.StartGet(Bytes(got[i*piece:(i+1)*piece]), rk, int64(i*piece)))
			}
			rk.Release()
			for _, r := range requests {
				if err := r.Wait(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(got, far.window) {
				t.Fatal(firstDifference(got, far.window))
			}
		}
	})
}

// TestRemoteKeyReleaseRace: operations that race with the release of their key work or
// are refused.
func TestRemoteKeyReleaseRace(t *testing.T) {
	ctx := testContext(t)
	ep, owner := rmaPair(t, Config{})
	far := expose(t, ep, owner, 1<<16, owner.Resource(mem.Host, 0))
	for range 30 {
		rk := unpack(t, ep, far.m.Key())
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				b := make([]byte, 5000)
				for {
					if err := ep.Get(ctx, Bytes(b), rk, int64(g*5000)); err != nil {
						if !errors.Is(err, ErrClosed) && !errors.Is(err, errCanceled) {
							t.Error(err)
						}
						return
					}
					if !bytes.Equal(b, far.window[g*5000:][:5000]) {
						t.Error(firstDifference(b, far.window[g*5000:][:5000]))
						return
					}
				}
			})
		}
		rk.Release()
		all.Wait()
	}
	if err := ep.Flush(ctx); err != nil || ep.Err() != nil {
		t.Errorf("the endpoint has suffered: %v, %v", err, ep.Err())
	}
}

// TestRemoteKeyAfterClose: after the endpoint, and after the worker, everything about a
// key gives an error or does nothing.
func TestRemoteKeyAfterClose(t *testing.T) {
	ctx := testContext(t)
	wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	a, _ := connectPair(t, ctx, wa, wb)
	far := expose(t, a, wb.ctx, 100, wb.ctx.Resource(mem.Host, 0))
	b := make([]byte, 8)
	if err := a.Put(ctx, Bytes(b), far.rk, 0); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		for name, err := range map[string]error{
			"put": a.Put(ctx, Bytes(b), far.rk, 0), "get": a.Get(ctx, Bytes(b), far.rk, 0),
			"start put": a.StartPut(Bytes(b), far.rk, 0).Wait(ctx), "start get": a.StartGet(Bytes(b), far.rk,
				0).Wait(ctx),
			"atomic": AtomicAt[uint64](far.rk, 0).Add(ctx, 1),
		} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s after the %s was closed: %v", name, when, err)
			}
		}
		if _, err := a.Unpack(far.m.Key()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("unpack after the %s was closed: %v", when, err)
		}
		if _, err := NewRemoteFile(testContext(t), a, far.rk).ReadAt(b, 0); !errors.Is(err, net.ErrClosed) {
			t.Errorf("file after the %s was closed: %v", when, err)
		}
		far.rk.Release()
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	check("endpoint")
	if err := wa.Close(); err != nil {
		t.Fatal(err)
	}
	check("worker")
}
