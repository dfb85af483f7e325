package clique

import (
	"context"

	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// Kind is the type of elements where it is known at run time only.
type Kind = collective.Kind

// F16 is an IEEE 754 number of 16 bits, as its bits.
type F16 = collective.F16

// BF16 is the upper half of a float32, as its bits.
type BF16 = collective.BF16

// Number is the constraint of elements, F16 and BF16 among them.
type Number = collective.Number

// KindOf returns the kind of a Go type. int and uint are those of 64 bits, or 32 where Go's are.
func KindOf[T Number]() Kind { return elem.KindOf[T]() }

// View is memory with elements of one type: what operations read from and write to. The zero value has no elements; it
// is what a rank gives for a side of an operation that it has no part in.
type View[T Number] struct{ m collective.Memory }

// Of returns the view of a slice. The slice is not copied, and is borrowed while an operation runs.
func Of[T Number](s []T) View[T] {
	return View[T]{collective.Memory{Bytes: elem.View(s)}}
}

// Buffer returns the view of a buffer of any kind of memory, whose length must be a multiple of an element's. An
// operation retains the buffer while it runs. nil is a view without elements.
//
// On memory of a GPU everything is ordered by streams: an operation waits, on the device, for the ready events of its
// buffers, and has set the ready event of its result when it returns, or its Request is done. The data comes later:
// pass the buffer to whatever waits for its event, or call its WaitReady, which also fails if the clique failed
// meanwhile. The context then bounds what happens until the operation was enqueued.
func Buffer[T Number](b *mem.Buffer) View[T] {
	return View[T]{collective.Memory{Buffer: b}}
}

// held are the buffers of an operation.
type held [2]*mem.Buffer

// hold retains the buffers of an operation and waits until what was written last to those that the host reaches is
// there.
func hold(ctx context.Context, c *collective.Call) (held, error) {
	h := held{c.Send.Buffer, c.Recv.Buffer}
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
			return held{}, err
		}
	}
	return h, nil
}

func (h held) release() {
	for _, b := range h {
		if b != nil {
			b.Release()
		}
	}
}

// Request is an operation in flight, returned by Rank.Start.
type Request = collective.Request

// Do carries an operation out and returns when it is done. ctx bounds it on this rank: when ctx ends in the middle of a
// collective the clique ends, as the other ranks could wait for ever. When it ends while a Recv waits for its message
// the clique lives on.
func (r *Rank) Do(ctx context.Context, c Call) error {
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

// Start begins an operation and returns at once. Its memory is borrowed until the request is done. Collectives, and
// messages of one tag, take place in the order of the calls of Start and Do. ctx bounds the operation as that of Do.
func (r *Rank) Start(ctx context.Context, c Call) *Request {
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
