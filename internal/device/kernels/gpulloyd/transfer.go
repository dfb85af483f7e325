package gpulloyd

import (
	"context"
	"runtime"
	"time"
	"unsafe"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// number is an element type of buffers.
type number interface {
	float32 | float64 | uint64 | int32
}

// view returns host memory as numbers.
func view[N number](b []byte) []N {
	return unsafe.Slice((*N)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(N))))
}

// grown replaces a buffer by one of at least n bytes if it is smaller.
func grown(ctx context.Context, from mem.Resource, b **mem.Buffer, n int) error {
	if *b != nil && (*b).Len() >= n {
		return nil
	}
	fresh, err := from.Alloc(ctx, max(n, 4096))
	if err != nil {
		return err
	}
	if *b != nil {
		(*b).Release() // running work holds it
	}
	*b = fresh
	return nil
}

// stage returns n bytes of pinned memory for the next copy to the device. It waits until the last copy is complete.
func (r *Rows) stage(ctx context.Context, n int) ([]byte, error) {
	if r.staged != nil {
		if err := wait(ctx, r.staged); err != nil {
			return nil, err
		}
		r.staged = nil
	}
	if err := grown(ctx, r.cfg.Pinned, &r.staging, n); err != nil {
		return nil, err
	}
	return r.staging.Bytes()[:n], nil
}

// copyTo copies the first n bytes of a buffer to those of another.
func (r *Rows) copyTo(dst, src *mem.Buffer, n int) (*cuda.Event, error) {
	d, s := dst.Slice(0, n), src.Slice(0, n)
	defer d.Release()
	defer s.Release()
	e, err := r.cfg.Stream.Copy(d, s)
	if err == nil {
		dst.SetReady(e)
	}
	return e, err
}

// upload copies numbers, converted to the type of the data, to inputs, and returns their address.
func (r *Rows) upload(ctx context.Context, lists ...[]float64) (uint64, error) {
	n := 0
	for _, l := range lists {
		n += len(l)
	}
	b, err := r.stage(ctx, n*r.item())
	if err != nil {
		return 0, err
	}
	if err := grown(ctx, r.cfg.Memory, &r.inputs, n*r.item()); err != nil {
		return 0, err
	}
	at := 0
	for _, l := range lists {
		if r.narrow {
			out := view[float32](b)[at:]
			for i, v := range l {
				out[i] = float32(v)
			}
		} else {
			copy(view[float64](b)[at:], l)
		}
		at += len(l)
	}
	if r.staged, err = r.copyTo(r.inputs, r.staging, n*r.item()); err != nil {
		return 0, err
	}
	return uint64(r.inputs.Addr()), nil
}

// fetch waits for the first n doubles of a buffer. They are valid until the next fetch.
func (r *Rows) fetch(ctx context.Context, src *mem.Buffer, n int) ([]float64, error) {
	if err := grown(ctx, r.cfg.Pinned, &r.answers, 8*n); err != nil {
		return nil, err
	}
	e, err := r.copyTo(r.answers, src, 8*n)
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, e); err != nil {
		return nil, err
	}
	return view[float64](r.answers.Bytes())[:n], nil
}

// spin is how long wait polls without a pause: an iteration takes less.
const spin = 2 * time.Millisecond

// wait is Event.Wait with a longer spin: that sleeps for longer than a pass takes after a tenth of a millisecond.
func wait(ctx context.Context, e *cuda.Event) error {
	for begin := time.Now(); time.Since(begin) < spin; {
		done, err := e.Query()
		if err != nil {
			return err
		}
		if done {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		runtime.Gosched()
	}
	return e.Wait(ctx)
}
