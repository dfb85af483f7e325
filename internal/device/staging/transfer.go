package staging

import (
	"context"
	"fmt"
	"io"
	"sync"

	"go.millstream.dev/mem"
)

// Pending is a chunk in flight on a stripe. A *ucx.Request is one.
type Pending interface {
	// Wait returns when the chunk is complete, with an error if it has failed or ctx has ended.
	Wait(ctx context.Context) error
}

// Writer is one stripe of a sender. Chunks arrive in the order of the calls.
type Writer interface {
	// Send sends a chunk and retains it as long as needed. It may block until the chunk is complete and return nil.
	Send(ctx context.Context, chunk *mem.Buffer) (Pending, error)
}

// Reader is one stripe of a receiver.
type Reader interface {
	// Recv fills a chunk with the next bytes of the stripe. It may block and return nil.
	Recv(ctx context.Context, chunk *mem.Buffer) (Pending, error)
}

// Send sends device memory. The stripes must not be used otherwise meanwhile. When ctx ends or a stripe fails, abort is
// called once, which must make calls and pendings of all stripes return (close the connections); the stripes cannot be
// used after that. src may be released at any time: copies hold it.
func (e *Engine) Send(ctx context.Context, src *mem.Buffer, lines []Writer, abort func()) error {
	return e.transfer(ctx, src.Len(), len(lines), abort, func(ctx context.Context, p plan) error {
		return e.sendStripe(ctx, src, lines[p.line], p)
	})
}

// Recv receives into device memory and returns when all bytes have arrived. The last of them may still be copied from
// pinned memory to dst, whose ready event is set. After an error the content of dst is undefined. See Send for the
// rest.
func (e *Engine) Recv(ctx context.Context, dst *mem.Buffer, lines []Reader, abort func()) error {
	err := e.transfer(ctx, dst.Len(), len(lines), abort, func(ctx context.Context, p plan) error {
		return e.recvStripe(ctx, dst, lines[p.line], p)
	})
	if err != nil || dst.Len() == 0 {
		return err
	}
	mark, err := e.up.Mark()
	if err != nil {
		return fmt.Errorf("staging: mark the end of a transfer: %w", err)
	}
	dst.SetReady(mark)
	return nil
}

// transfer runs one function for each stripe that has chunks.
func (e *Engine) transfer(ctx context.Context, n, lines int, abort func(),
	line func(context.Context, plan) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if n == 0 {
		return nil
	}
	if lines == 0 {
		return fmt.Errorf("staging: no stripe for %d bytes", n)
	}
	e.begin()
	defer e.end()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var aborted sync.Once
	stop := func() { aborted.Do(abort) }
	quiet := context.AfterFunc(ctx, stop)
	defer quiet()

	run := func(i int) error {
		err := line(inner, plan{total: n, chunk: e.chunk, line: i, lines: lines})
		if err != nil {
			if ctx.Err() != nil { // the context, or the effect of abort on the stripe
				err = fmt.Errorf("staging: %w", context.Cause(ctx))
			}
			cancel(err) // the first error caused the others
			stop()
		}
		return err
	}
	used := min(lines, (n+e.chunk-1)/e.chunk)
	var others sync.WaitGroup
	for i := 1; i < used; i++ {
		others.Go(func() { _ = run(i) })
	}
	_ = run(0)
	others.Wait()
	return context.Cause(inner)
}

// sendStripe sends the chunks of one stripe. Of depth chunks, half are being copied and half are being sent; a stripe
// with blocking sends has all of the others copied ahead.
func (e *Engine) sendStripe(ctx context.Context, src *mem.Buffer, line Writer, p plan) error {
	count := p.count()
	type copying struct {
		slot *mem.Buffer
		done mem.Event
	}
	copied := make([]copying, 0, e.depth) // enqueued and not sent, in order
	var sent []Pending                    // not waited for, in order
	defer func() {
		// The copies hold the slots until they are done, and so does the sender.
		for _, c := range copied {
			c.slot.Release()
		}
	}()
	next := 0
	for k := range count {
		for next < count && len(copied)+len(sent) < e.depth {
			c, err := e.copyDown(ctx, src, p, next)
			if err != nil {
				return err
			}
			copied = append(copied, copying{c, c.Ready()})
			next++
		}
		c := copied[0]
		if err := c.done.Wait(ctx); err != nil {
			return fmt.Errorf("staging: copy chunk %d from the device: %w", k, err)
		}
		c.slot.SetReady(nil) // saves the transport a query
		copied = append(copied[:0], copied[1:]...)
		pending, err := line.Send(ctx, c.slot)
		c.slot.Release()
		if err != nil {
			return fmt.Errorf("staging: send chunk %d: %w", k, err)
		}
		if pending == nil {
			continue
		}
		sent = append(sent, pending)
		if len(sent) > e.depth/2 {
			if err := sent[0].Wait(ctx); err != nil {
				return fmt.Errorf("staging: send chunk %d: %w", k+1-len(sent), err)
			}
			sent = sent[1:]
		}
	}
	for i, pending := range sent {
		if err := pending.Wait(ctx); err != nil {
			return fmt.Errorf("staging: send chunk %d: %w", count-len(sent)+i, err)
		}
	}
	return nil
}

// copyDown enqueues the copy of a stripe's chunk k into a slot, whose ready event reports its completion.
func (e *Engine) copyDown(ctx context.Context, src *mem.Buffer, p plan, k int) (*mem.Buffer, error) {
	off, n := p.at(k)
	slot, err := e.slot(ctx, n)
	if err != nil {
		return nil, err
	}
	part := src.Slice(off, n)
	defer part.Release()
	done, err := e.down.Copy(slot, part)
	if err != nil {
		slot.Release()
		return nil, fmt.Errorf("staging: copy %d bytes from the device: %w", n, err)
	}
	slot.SetReady(done)
	return slot, nil
}

// recvStripe receives the chunks of one stripe.
func (e *Engine) recvStripe(ctx context.Context, dst *mem.Buffer, line Reader, p plan) error {
	count := p.count()
	type arriving struct {
		slot    *mem.Buffer
		pending Pending
	}
	var open []arriving    // requested and not copied, in order
	var copies []mem.Event // into the device, not waited for, in order
	defer func() {
		for _, a := range open {
			a.slot.Release() // a transport that still writes to it holds a reference
		}
	}()
	next := 0
	for k := range count {
		// Half of the chunks may wait for the network, the others for the copy engine. A stripe with blocking receives
		// gets one at a time.
		for next < count && (len(open) == 0 || open[len(open)-1].pending != nil && len(open) < (e.depth+1)/2) {
			if len(open)+len(copies) >= e.depth {
				if len(copies) == 0 {
					break
				}
				if err := copies[0].Wait(ctx); err != nil {
					return fmt.Errorf("staging: copy a chunk to the device: %w", err)
				}
				copies = copies[1:]
			}
			_, n := p.at(next)
			slot, err := e.slot(ctx, n)
			if err != nil {
				return err
			}
			pending, err := line.Recv(ctx, slot)
			if err != nil {
				slot.Release()
				return fmt.Errorf("staging: receive chunk %d: %w", next, err)
			}
			open = append(open, arriving{slot, pending})
			next++
		}
		a := open[0]
		if a.pending != nil {
			if err := a.pending.Wait(ctx); err != nil {
				return fmt.Errorf("staging: receive chunk %d: %w", k, err)
			}
		}
		off, n := p.at(k)
		part := dst.Slice(off, n)
		done, err := e.up.Copy(part, a.slot)
		part.Release()
		a.slot.Release()
		open = open[1:]
		if err != nil {
			return fmt.Errorf("staging: copy %d bytes to the device: %w", n, err)
		}
		copies = append(copies, done)
	}
	return nil
}

// ToWriter returns a stripe over a byte stream.
func ToWriter(w io.Writer) Writer { return streamWriter{w} }

type streamWriter struct{ w io.Writer }

func (s streamWriter) Send(_ context.Context, chunk *mem.Buffer) (Pending, error) {
	_, err := s.w.Write(chunk.Bytes())
	return nil, err
}

// FromReader returns a stripe over a byte stream. Data after a transfer is left in it.
func FromReader(r io.Reader) Reader { return streamReader{r} }

type streamReader struct{ r io.Reader }

func (s streamReader) Recv(_ context.Context, chunk *mem.Buffer) (Pending, error) {
	_, err := io.ReadFull(s.r, chunk.Bytes())
	return nil, err
}
