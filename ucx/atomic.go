package ucx

import (
	"context"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// word is an operand of atomic operations.
type word interface{ uint32 | uint64 }

// Atomic is a word in a peer's memory on which atomic operations work, as those of
// [sync/atomic] do on local memory. It is a small value that owns nothing:
//
//	counter := ucx.AtomicAt[uint64](rk, 0)
//	old, err := counter.FetchAdd(ctx, 1)
//
// Operations are atomic with respect to other UCX operations on the same word, by all peers. The peer's own accesses
// are atomic with respect to them only where UCX_ATOMIC_MODE is cpu. Words are in the peer's byte order.
//
// Add, And, Or and Xor return when they are submitted; they have taken effect after [Endpoint.Flush]. The others return
// the previous value and have taken effect.
//
// UCX 1.16 to 1.22 support atomics only on endpoints without error handling: connect with
// [EndpointConfig].NoErrorHandling, or set the option PROTO_ENABLE=n on the context, which selects the protocols of
// older releases.
type Atomic[T uint32 | uint64] struct {
	rk  *RemoteKey
	off int64
}

// AtomicAt returns the word at byte offset off, which must be aligned in the peer's memory. Invalid offsets are
// reported by the operations.
func AtomicAt[T uint32 | uint64](rk *RemoteKey, off int64) Atomic[T] { return Atomic[T]{rk, off} }

// UCX's numbers of the operations.
const (
	atomicAdd = iota
	atomicSwap
	atomicCompareSwap
	atomicAnd
	atomicOr
	atomicXor
)

// Add adds v.
func (a Atomic[T]) Add(ctx context.Context, v T) error { return a.post(ctx, atomicAdd, v) }

// And clears the bits that are not set in v.
func (a Atomic[T]) And(ctx context.Context, v T) error { return a.postBits(ctx, atomicAnd, v) }

// Or sets the bits that are set in v.
func (a Atomic[T]) Or(ctx context.Context, v T) error { return a.postBits(ctx, atomicOr, v) }

// Xor flips the bits that are set in v.
func (a Atomic[T]) Xor(ctx context.Context, v T) error { return a.postBits(ctx, atomicXor, v) }

// FetchAdd adds v and returns the previous value.
func (a Atomic[T]) FetchAdd(ctx context.Context, v T) (old T, err error) {
	return a.fetch(ctx, atomicAdd, v, 0)
}

// FetchAnd clears the bits that are not set in v and returns the previous value.
func (a Atomic[T]) FetchAnd(ctx context.Context, v T) (old T, err error) {
	return a.fetchBits(ctx, atomicAnd, v)
}

// FetchOr sets the bits that are set in v and returns the previous value.
func (a Atomic[T]) FetchOr(ctx context.Context, v T) (old T, err error) {
	return a.fetchBits(ctx, atomicOr, v)
}

// FetchXor flips the bits that are set in v and returns the previous value.
func (a Atomic[T]) FetchXor(ctx context.Context, v T) (old T, err error) {
	return a.fetchBits(ctx, atomicXor, v)
}

// Swap stores v and returns the previous value.
func (a Atomic[T]) Swap(ctx context.Context, v T) (old T, err error) {
	return a.fetch(ctx, atomicSwap, v, 0)
}

// CompareSwap stores v if the word is equal to expected. It returns the previous value: the swap took place if that
// equals expected.
func (a Atomic[T]) CompareSwap(ctx context.Context, expected, v T) (old T, err error) {
	return a.fetch(ctx, atomicCompareSwap, expected, v)
}

// Load returns the value.
func (a Atomic[T]) Load(ctx context.Context) (T, error) { return a.fetch(ctx, atomicAdd, 0, 0) }

func (a Atomic[T]) size() int {
	var v T
	return int(unsafe.Sizeof(v))
}

// wordOf reads a word of either size from the start of the eight bytes, where UCX stores it.
func wordOf[T word](p *uint64) T { return *(*T)(unsafe.Pointer(p)) }

func setWord[T word](p *uint64, v T) {
	*p = 0
	*(*T)(unsafe.Pointer(p)) = v
}

func (a Atomic[T]) target() (uint64, error) {
	if a.rk == nil {
		return 0, fmt.Errorf("ucx: nil *RemoteKey: %w", ErrInvalidParam)
	}
	size := a.size()
	feature, name := Atomic64, "Atomic64"
	if size == 4 {
		feature, name = Atomic32, "Atomic32"
	}
	if a.rk.ep.w.ctx.cfg.Features&feature == 0 {
		return 0, fmt.Errorf("ucx: the context does not have the feature %s; add it to Config.Features: %w", name,
			errUnsupported)
	}
	addr, err := a.rk.reach(a.rk.ep, a.off, size, true)
	if err != nil {
		return 0, err
	}
	if addr%uint64(size) != 0 {
		return 0, fmt.Errorf("ucx: offset %d leaves a word of %d bytes unaligned in the remote memory at %#x: %w",
			a.off, size, a.rk.addr, ErrInvalidParam)
	}
	if c := a.rk.ep.w.ctx; a.rk.peerErrs && !c.amoOK && !c.lib.AtLeast(1, 23) {
		return 0, fmt.Errorf("ucx: UCX %s has no atomics on endpoints that handle errors: connect with "+
			"EndpointConfig.NoErrorHandling, or make the contexts with the option "+
			"PROTO_ENABLE=n: %w", c.lib.Version, errUnsupported)
	}
	return addr, nil
}

func (a Atomic[T]) fill(s *ucp.Slot, addr uint64, op uint64, fetch bool, v, reply T) {
	a.rk.aim(s, addr)
	s.Len = uint64(a.size())
	s.Arg[0] = op | uint64(a.size())<<16
	if fetch {
		s.Arg[0] |= 1 << 8
	}
	setWord(&s.Arg[1], v)
	setWord(&s.Arg[2], reply)
}

func (a Atomic[T]) post(ctx context.Context, op uint64, v T) error {
	_, err := a.do(ctx, op, false, v, 0)
	return err
}

func (a Atomic[T]) fetch(ctx context.Context, op uint64, v, reply T) (T, error) {
	return a.do(ctx, op, true, v, reply)
}

func (a Atomic[T]) do(ctx context.Context, op uint64, fetch bool, v, reply T) (T, error) {
	addr, err := a.target()
	if err != nil {
		return 0, a.refusal(err)
	}
	w := a.rk.ep.w
	s, r, err := w.prepare(ucp.OpAtomic, a.rk.ep)
	if err != nil {
		return 0, err
	}
	a.fill(s, addr, op, fetch, v, reply)
	if err := ctx.Err(); err != nil {
		return 0, r.unbind(s, err)
	}
	if err := w.drv.run(ctx, s, r); err != nil {
		return 0, err // operand and result are in the slot: no memory of the caller is in use
	}
	r.takeResult(s)
	old, err := r.arg, r.err
	w.drv.putSlot(s)
	if err != nil {
		return 0, err
	}
	return wordOf[T](&old), nil
}

func (a Atomic[T]) refusal(err error) error {
	peer := ""
	if a.rk != nil {
		peer = a.rk.ep.peer
	}
	return &OpError{Op: ucp.OpAtomic.String(), Peer: peer, Err: err}
}

// Debian 12 ships a UCX 1.13.1 whose compiler dropped the operand of fetching and, or and xor on shared memory: they
// return the right value and store a wrong one. The library is therefore tested once, before the first use, and if the
// test fails the operations are implemented with CompareSwap.

// wrongForms reports which forms of bitwise operations the library gets wrong.
type wrongForms struct{ fetch, post bool }

var wrongBits = sync.OnceValue(func() wrongForms {
	b, err := tryBits()
	if err != nil { // unknown: CompareSwap is always correct
		return wrongForms{fetch: true, post: true}
	}
	return b
})

// tryBits performs each bitwise operation on memory of this process, through the code that serves shared memory.
func tryBits() (wrong wrongForms, err error) {
	cfg := Config{Name: "millstream-check", Features: RMA | Atomic32 | Atomic64}
	if _, set := os.LookupEnv("UCX_TLS"); !set { // otherwise the check uses the user's transports
		cfg.Options = map[string]string{"TLS": "self,posix,sysv"}
	}
	c, err := NewContext(cfg)
	if err != nil {
		return wrong, err
	}
	defer c.Close()
	w, err := c.NewWorker(WorkerConfig{NoErrorHandling: true})
	if err != nil {
		return wrong, err
	}
	defer w.Close()
	addr, err := w.Address()
	if err != nil {
		return wrong, err
	}
	ep, err := w.Connect(addr, nil)
	if err != nil {
		return wrong, err
	}
	buf, err := c.Alloc(8, mem.Host)
	if err != nil {
		return wrong, err
	}
	defer buf.Release()
	m, err := c.Register(Buffer(buf))
	if err != nil {
		return wrong, err
	}
	defer m.Release()
	rk, err := ep.Unpack(m.Key())
	if err != nil {
		return wrong, err
	}
	w32, err := wrongOn(AtomicAt[uint32](rk, 0))
	if err != nil {
		return wrong, err
	}
	w64, err := wrongOn(AtomicAt[uint64](rk, 0))
	return wrongForms{w32.fetch || w64.fetch, w32.post || w64.post}, err
}

func wrongOn[T word](a Atomic[T]) (wrong wrongForms, err error) {
	const before, operand = 0b1100, 0b1010
	for _, op := range []uint64{atomicAnd, atomicOr, atomicXor} {
		for _, fetch := range []bool{false, true} {
			if _, err := a.Swap(background, before); err != nil {
				return wrong, err
			}
			old, err := a.do(background, op, fetch, operand, 0)
			if err != nil {
				return wrong, err
			}
			after, err := a.Load(background)
			if err != nil {
				return wrong, err
			}
			right := after == bitwise[T](op, before, operand)
			wrong.fetch = wrong.fetch || fetch && (!right || old != before)
			wrong.post = wrong.post || !fetch && !right
		}
	}
	return wrong, nil
}

func bitwise[T word](op uint64, x, y T) T {
	switch op {
	case atomicAnd:
		return x & y
	case atomicOr:
		return x | y
	}
	return x ^ y
}

// swapBits implements a bitwise operation with CompareSwap.
func (a Atomic[T]) swapBits(ctx context.Context, op uint64, v T) (T, error) {
	old, err := a.Load(ctx)
	for err == nil {
		var seen T
		if seen, err = a.CompareSwap(ctx, old, bitwise(op, old, v)); err == nil {
			if seen == old {
				return old, nil
			}
			old = seen
		}
	}
	return 0, err
}

func (a Atomic[T]) postBits(ctx context.Context, op uint64, v T) error {
	if wrongBits().post {
		_, err := a.swapBits(ctx, op, v)
		return err
	}
	return a.post(ctx, op, v)
}

func (a Atomic[T]) fetchBits(ctx context.Context, op uint64, v T) (T, error) {
	if wrongBits().fetch {
		return a.swapBits(ctx, op, v)
	}
	return a.fetch(ctx, op, v, 0)
}
