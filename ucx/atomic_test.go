package ucx

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"go.millstream.dev/mem"
)

// atomicForms are all operations in both forms; each says what it does to the word.
func atomicForms[T word]() map[string]struct {
	do   func(ctx context.Context, a Atomic[T], x, y T) (T, error)
	want func(old, x, y T) T
	post bool // returns no value
} {
	type form = struct {
		do   func(ctx context.Context, a Atomic[T], x, y T) (T, error)
		want func(old, x, y T) T
		post bool
	}
	add := func(old, x, _ T) T { return old + x }
	and := func(old, x, _ T) T { return old & x }
	or := func(old, x, _ T) T { return old | x }
	xor := func(old, x, _ T) T { return old ^ x }
	swap := func(_, x, _ T) T { return x }
	same := func(old, _, _ T) T { return old }
	cswap := func(old, x, y T) T {
		if old == x {
			return y
		}
		return old
	}
	return map[string]form{
		"Add": {func(ctx context.Context, a Atomic[T], x, _ T) (T, error) { return 0, a.Add(ctx, x) }, add, true},
		"And": {func(ctx context.Context, a Atomic[T], x, _ T) (T, error) { return 0, a.And(ctx, x) }, and, true},
		"Or":  {func(ctx context.Context, a Atomic[T], x, _ T) (T, error) { return 0, a.Or(ctx, x) }, or, true},
		"Xor": {func(ctx context.Context, a Atomic[T], x, _ T) (T, error) { return 0, a.Xor(ctx, x) }, xor, true},

		"FetchAdd": {func(ctx context.Context, a Atomic[T], x, _ T) (T, error) { return a.FetchAdd(ctx, x) },
			add, false},
		"FetchAnd": {func(ctx context.Context, a Atomic[T], x, _ T) (T, error) { return a.FetchAnd(ctx, x) },
			and, false},
		"FetchOr": {func(ctx context.Context, a Atomic[T], x, _ T) (T, error) { return a.FetchOr(ctx, x) }, or,
			false},
		"FetchXor": {func(ctx context.Context, a Atomic[T], x, _ T) (T, error) { return a.FetchXor(ctx, x) },
			xor, false},
		"Swap": {func(ctx context.Context, a Atomic[T], x, _ T) (T, error) { return a.Swap(ctx, x) }, swap,
			false},
		"Load": {func(ctx context.Context, a Atomic[T], _, _ T) (T, error) { return a.Load(ctx) }, same,
			false},
		"CompareSwap": {func(ctx context.Context, a Atomic[T], x, y T) (T,
			error) {
			return a.CompareSwap(ctx, x, y)
		}, cswap, false},
	}
}

// TestAtomics: each operation, form and size, at each place of the memory, changes its
// word as it should and nothing beside it.
func TestAtomics(t *testing.T) {
	eachSetting(t, true, func(t *testing.T, ep *Endpoint, owner *Context) {
		for place, from := range resources(owner) {
			far := expose(t, ep, owner, 64, from)
			t.Run(place+"/uint32", func(t *testing.T) { testAtomics[uint32](t, far) })
			t.Run(place+"/uint64", func(t *testing.T) { testAtomics[uint64](t, far) })
		}
	})
}

func testAtomics[T word](t *testing.T, far *exposed) {
	ctx := testContext(t)
	for name, form := range atomicForms[T]() {
		for round := range 10 {
			fill(far.all)
			size := Atomic[T]{}.size()
			off := rand.IntN(len(far.window)/size) * size
			word := (*T)(unsafe.Pointer(&far.window[off]))
			old, x, y := *word, T(rand.Uint64()), T(rand.Uint64())
			if strings.Contains(name, "CompareSwap") && round%2 == 0 {
				x = old
			}
			want := slices.Clone(far.all)
			*(*T)(unsafe.Pointer(&want[guard+off])) = form.want(old, x, y)
			got, err := form.do(ctx, AtomicAt[T](far.rk, int64(off)), x, y)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if form.post {
				if err := far.rk.ep.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			} else if got != old {
				t.Errorf("%s returned %#x, the word was %#x", name, got, old)
			}
			if !slices.Equal(far.all, want) {
				t.Fatalf("%s(%#x, %#x) of %#x: the word is %#x; %s", name, x, y, old, *word,
					firstDifference(far.all, want))
			}
		}
	}
}

// TestAtomicBits: what stands in for bitwise operations that a library gets wrong is
// right on each transport, also when others change the word meanwhile.
func TestAtomicBits(t *testing.T) {
	t.Logf("this library gets wrong: %+v", wrongBits())
	eachSetting(t, true, func(t *testing.T, ep *Endpoint, owner *Context) {
		ctx := testContext(t)
		far := expose(t, ep, owner, 8, owner.Resource(mem.Host, 0))
		for name, op := range map[string]uint64{"and": atomicAnd, "or": atomicOr, "xor": atomicXor} {
			old, x := rand.Uint64(), rand.Uint64()
			*(*uint64)(unsafe.Pointer(&far.window[0])) = old
			word := AtomicAt[uint64](far.rk, 0)
			got, err := word.swapBits(ctx, op, x)
			if now := *(*uint64)(unsafe.Pointer(&far.window[0])); err != nil || got != old ||
				now != bitwise(op, old, x) {
				t.Errorf("%s(%#x) of %#x: returned %#x, stored %#x, %v", name, x, old, got, now, err)
			}
		}
		clear(far.window)
		var all sync.WaitGroup
		for g := range 16 { // each flips its own bit an odd number of times
			all.Go(func() {
				for range 51 {
					if _, err := AtomicAt[uint32](far.rk, 4).swapBits(ctx, atomicXor, 1<<g); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		if got, err := AtomicAt[uint32](far.rk, 4).Load(ctx); err != nil || got != 0xffff {
			t.Errorf("the bits are %#x, %v", got, err)
		}
	})
}

// TestAtomicsConcurrent: 16 goroutines on two endpoints of different workers lose no
// addition, and no two of them see the same value before theirs.
func TestAtomicsConcurrent(t *testing.T) {
	const goroutines, each = 16, 100
	eachSetting(t, true, func(t *testing.T, ep *Endpoint, owner *Context) {
		ctx := testContext(t)
		far := expose(t, ep, owner, 24, owner.Resource(mem.Host, 0))
		clear(far.window)
		second := unpack(t, secondEndpoint(t, ep), far.m.Key())
		defer second.Release()
		seen := make([][]uint64, goroutines)
		var all sync.WaitGroup
		for g := range goroutines {
			rk := far.rk
			if g%2 == 1 {
				rk = second
			}
			all.Go(func() {
				ticket, sum, small := AtomicAt[uint64](rk, 0), AtomicAt[uint64](rk, 8), AtomicAt[uint32](rk, 16)
				for i := range each {
					old, err := ticket.FetchAdd(ctx, 1)
					seen[g] = append(seen[g], old)
					if err == nil {
						err = sum.Add(ctx, uint64(g*i))
					}
					if err == nil {
						err = small.Add(ctx, 3)
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		for _, rk := range []*RemoteKey{far.rk, second} {
			if err := rk.ep.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		tickets := slices.Sorted(slices.Values(slices.Concat(seen...)))
		for i, v := range tickets {
			if v != uint64(i) {
				t.Fatalf("ticket %d is %d: one was given twice or lost", i, v)
			}
		}
		wantSum := uint64(0)
		for g := range goroutines {
			for i := range each {
				wantSum += uint64(g * i)
			}
		}
		if got, err := AtomicAt[uint64](far.rk, 8).Load(ctx); err != nil || got != wantSum {
			t.Errorf("sum %d, want %d, %v", got, wantSum, err)
		}
		if got, err := AtomicAt[uint32](far.rk, 16).Load(ctx); err != nil || got != 3*goroutines*each {
			t.Errorf("small sum %d, want %d, %v", got, 3*goroutines*each, err)
		}
	})
}

// secondEndpoint connects another worker of ep's context to ep's peer: itself, where
// the peer is itself.
func secondEndpoint(t *testing.T, ep *Endpoint) *Endpoint {
	t.Helper()
	w, err := ep.w.ctx.NewWorker(WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	peer, _ := plainPeers.Load(ep)
	addr, err := peer.(*Worker).Address()
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.Connect(addr, &EndpointConfig{NoErrorHandling: true})
	if err != nil {
		t.Fatal(err)
	}
	return second
}

// TestAtomicRefuses: mistakes are refused before UCX, by all forms.
func TestAtomicRefuses(t *testing.T) {
	ctx := testContext(t)
	ep, owner := plainPair(t, Config{}, false)
	far := expose(t, ep, owner, 100, owner.Resource(mem.Host, 0))
	check := func(name string, want error, text string, errs ...error) {
		t.Helper()
		for i, err := range errs {
			var oe *OpError
			if !errors.Is(err, want) || !strings.Contains(err.Error(), text) || !errors.As(err, &oe) ||
				oe.Op != "atomic" {
				t.Errorf("%s, form %d: %v", name, i, err)
			}
		}
	}
	forms64 := func(a Atomic[uint64]) []error {
		_, e1 := a.FetchAdd(ctx, 1)
		_, e2 := a.CompareSwap(ctx, 1, 2)
		_, e3 := a.Swap(ctx, 1)
		return []error{a.Add(ctx, 1), e1, e2, a.Xor(ctx, 1), e3}
	}
	forms32 := func(a Atomic[uint32]) []error {
		_, e1 := a.Swap(ctx, 1)
		_, e2 := a.FetchOr(ctx, 1)
		return []error{a.Or(ctx, 1), e1, a.And(ctx, 1), e2}
	}
	for _, off := range []int64{1, 4, 7} {
		check("unaligned", ErrInvalidParam, "unaligned", forms64(AtomicAt[uint64](far.rk, off))...)
	}
	check("unaligned", ErrInvalidParam, "unaligned", forms32(AtomicAt[uint32](far.rk, 2))...)
	for _, off := range []int64{-8, 96, 100, 1 << 62} {
		check("out of range", ErrOutOfRange, "remote memory of 100 bytes", forms64(AtomicAt[uint64](far.rk, off))...)
	}
	check("out of range", ErrOutOfRange, "", forms32(AtomicAt[uint32](far.rk, 100))...)
	check("no key", ErrInvalidParam, "nil", forms64(AtomicAt[uint64](nil, 0))...)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := AtomicAt[uint64](far.rk, 0).FetchAdd(canceled, 1)
	check("canceled", context.Canceled, "", err, AtomicAt[uint64](far.rk, 0).Add(canceled, 1))
	far.rk.Release()
	check("released", net.ErrClosed, "released", forms64(AtomicAt[uint64](far.rk, 0))...)
}

// TestAtomicPeerMode: where UCX has atomics on endpoints in peer error mode they work,
// elsewhere the error names what does; and what it names works.
func TestAtomicPeerMode(t *testing.T) {
	ctx := testContext(t)
	try := func(t *testing.T, cfg Config) (uint64, error) {
		ep, owner := rmaPair(t, cfg)
		far := expose(t, ep, owner, 8, owner.Resource(mem.Host, 0))
		clear(far.window)
		word := AtomicAt[uint64](far.rk, 0)
		if _, err := word.FetchAdd(ctx, 40); err != nil {
			return 0, err
		}
		if err := word.Add(ctx, 2); err != nil {
			return 0, err
		}
		return word.Load(ctx)
	}
	for _, s := range rmaSettings[1:] {
		t.Run(s.name, func(t *testing.T) {
			got, err := try(t, Config{Options: map[string]string{"TLS": s.tls}})
			if c := newContext(t, Config{}); c.amoOK {
				if err != nil || got != 42 {
					t.Errorf("%d, %v", got, err)
				}
			} else if !errors.Is(err, errUnsupported) || !strings.Contains(err.Error(), "NoErrorHandling") ||
				!strings.Contains(err.Error(), "PROTO_ENABLE=n") {
				t.Errorf("%d, %v", got, err)
			}
			if got, err := try(t, Config{Options: map[string]string{"TLS": s.tls,
				"PROTO_ENABLE": "n"}}); err != nil || got != 42 {
				t.Errorf("with PROTO_ENABLE=n: %d, %v", got, err)
			}
		})
	}
}

// TestAtomicWords: a word lies at the start of its eight bytes whatever the byte order.
func TestAtomicWords(t *testing.T) {
	var u uint64
	setWord[uint32](&u, 0x01020304)
	if wordOf[uint32](&u) != 0x01020304 {
		t.Error("the word has changed")
	}
	raw := (*[8]byte)(unsafe.Pointer(&u))
	if fmt.Sprint(raw[4:]) != "[0 0 0 0]" {
		t.Errorf("%x", raw)
	}
}

// TestErrorModes: endpoints of a worker without error handling are in error mode "none", in which atomics work with
// every release; those of other workers are not.
func TestErrorModes(t *testing.T) {
	ctx := testContext(t)
	far := newWorker(t, Config{}, WorkerConfig{})
	addr, err := far.Address()
	if err != nil {
		t.Fatal(err)
	}
	for _, none := range []bool{false, true} {
		ep, err := newWorker(t, Config{}, WorkerConfig{NoErrorHandling: none}).Connect(addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		shared := expose(t, ep, far.ctx, 8, far.ctx.Resource(mem.Host, 0))
		clear(shared.window)
		old, err := AtomicAt[uint64](shared.rk, 0).FetchAdd(ctx, 2)
		if none || far.ctx.amoOK {
			if err != nil || old != 0 {
				t.Errorf("NoErrorHandling %v: got %d, %v, want 0", none, old, err)
			}
		} else if !errors.Is(err, errUnsupported) {
			t.Errorf("NoErrorHandling %v: got %d, %v, want %v", none, old, err, errUnsupported)
		}
	}
}
