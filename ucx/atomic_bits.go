package ucx

import (
	"context"
	"os"
	"sync"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// Debian 12 ships a UCX 1.13.1 whose compiler dropped the operand of fetching and, or
// and xor on shared memory: they return the right value and store a wrong one. So the
// library is tried once, before the first use, and where it fails the operation is
// made of CompareSwap.

// wrongForms says which sort of bitwise operation the library gets wrong.
type wrongForms struct{ fetch, post bool }

var wrongBits = sync.OnceValue(func() wrongForms {
	b, err := tryBits()
	if err != nil { // not to be known: the long way is right in any case
		return wrongForms{fetch: true, post: true}
	}
	return b
})

// tryBits does each bitwise operation on memory of this process, through the code that
// serves shared memory.
func tryBits() (wrong wrongForms, err error) {
	cfg := Config{Name: "millstream-check", Features: RMA | Atomic32 | Atomic64}
	if _, set := os.LookupEnv("UCX_TLS"); !set { // else the check goes the way of the user's choice
		cfg.Options = map[string]string{"TLS": "self,posix,sysv"}
	}
	c, err := NewContext(cfg)
	if err != nil {
		return wrong, err
	}
	defer c.Close()
	w, err := c.NewWorker(WorkerConfig{Errors: ErrorNone})
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

func wrongOn[T Word](a Atomic[T]) (wrong wrongForms, err error) {
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

func bitwise[T Word](op uint64, x, y T) T {
	switch op {
	case atomicAnd:
		return x & y
	case atomicOr:
		return x | y
	}
	return x ^ y
}

// swapBits is a bitwise operation made of CompareSwap.
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

func (a Atomic[T]) startSwapBits(op uint64, v T) *Request {
	if _, err := a.target(); err != nil {
		return failedRequest(ucp.OpAtomic, nil, a.refusal(err))
	}
	r := &Request{w: a.rk.ep.w, op: ucp.OpAtomic, ep: a.rk.ep}
	go func() { // ends with the endpoint or the worker at the latest
		old, err := a.swapBits(background, op, v)
		setWord(&r.arg, old)
		r.err = err
		r.finish()
	}()
	return r
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

func (a Atomic[T]) startPostBits(op uint64, v T) *Request {
	if wrongBits().post {
		return a.startSwapBits(op, v)
	}
	return a.start(op, false, v, 0)
}

func (a Atomic[T]) startFetchBits(op uint64, v T) *AtomicRequest[T] {
	if wrongBits().fetch {
		return &AtomicRequest[T]{a.startSwapBits(op, v)}
	}
	return a.startFetch(op, v, 0)
}
