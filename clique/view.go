package clique

import (
	"context"
	"time"

	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// Kind is the type of elements where it is known only at run time.
type Kind = collective.Kind

// F16 is an IEEE 754 half-precision number, as its bits.
type F16 = collective.F16

// BF16 is the upper half of a float32, as its bits.
type BF16 = collective.BF16

// Number is the constraint of elements. It includes F16 and BF16.
type Number = collective.Number

// KindOf returns the kind of a Go type. int and uint have 64 bits, or 32 where those of Go do.
func KindOf[T Number]() Kind { return elem.KindOf[T]() }

// View is memory with elements of one type, which operations read and write. The zero value has no elements; a rank
// passes it for the side of an operation that it does not take part in.
type View[T Number] struct{ m collective.Memory }

// Of returns a view of a slice. The slice is not copied, and must not be modified while an operation runs.
func Of[T Number](s []T) View[T] {
	return View[T]{collective.Memory{Bytes: elem.View(s)}}
}

// Buffer returns a view of a buffer in any kind of memory. Its length must be a multiple of the element size. An
// operation retains the buffer while it runs. A nil buffer gives a view without elements.
//
// Operations on GPU memory are ordered by streams: an operation waits, on the device, for the ready events of its
// buffers, and has set the ready event of its result when it returns or its Request is done. The data arrives later:
// pass the buffer to code that waits for its event, or call its WaitReady, which also fails if the clique failed
// meanwhile. The context bounds the time until the operation is enqueued.
func Buffer[T Number](b *mem.Buffer) View[T] {
	return View[T]{collective.Memory{Buffer: b}}
}

// buffers are the buffers of an operation.
type buffers [2]*mem.Buffer

// hold retains the buffers of an operation and waits for the last writes to those that the host can access.
func hold(ctx context.Context, c *collective.Call) (buffers, error) {
	h := buffers{c.Send.Buffer, c.Recv.Buffer}
	for _, b := range h {
		if b != nil {
			b.Retain()
		}
	}
	for _, b := range h {
		if b == nil || !b.Kind().HostAccessible() {
			continue
		}
		if err := b.WaitReady(ctx); err != nil {
			h.release()
			return buffers{}, err
		}
	}
	return h, nil
}

func (h buffers) release() {
	for _, b := range h {
		if b != nil {
			b.Release()
		}
	}
}

// Request is an operation in flight, returned by Rank.Start.
type Request = collective.Request

// Do runs an operation and waits for it. ctx bounds it on this rank: if ctx ends during a collective, the clique ends,
// because the other ranks would wait without limit. If it ends while a Recv waits for its message, the clique remains
// usable.
func (r *Rank) Do(ctx context.Context, c Call) error {
	if r.s != nil {
		begin := time.Now()
		defer func() { r.s.stats.add(&c.c, time.Since(begin)) }()
	}
	if c.c.Send.Buffer == nil && c.c.Recv.Buffer == nil {
		return r.g.Do(ctx, c.c)
	}
	h, err := hold(ctx, &c.c)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.Do(ctx, c.c)
}

// Start starts an operation and returns immediately. Its memory must not be used until the request is done.
// Collectives, and messages with the same tag, run in the order of the calls of Start and Do. ctx bounds the operation
// as in Do.
func (r *Rank) Start(ctx context.Context, c Call) *Request {
	if r.s != nil {
		r.s.stats.add(&c.c, 0)
	}
	if c.c.Send.Buffer == nil && c.c.Recv.Buffer == nil {
		return r.g.Start(ctx, c.c)
	}
	h, err := hold(ctx, &c.c)
	if err != nil {
		return collective.FailedRequest(err)
	}
	q := r.g.Start(ctx, c.c)
	go func() {
		<-q.Done()
		h.release()
	}()
	return q
}
