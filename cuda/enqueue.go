package cuda

import (
	"context"
	"runtime"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// Enqueue lets another library enqueue work on the stream, such as kernels or collectives. It makes the stream wait for
// the ready events of all buffers, calls submit with the stream's handle, and records an event after the work of
// submit. The event becomes the ready event of the buffers in writes; all buffers are held until it is done, so that
// the caller may release them immediately.
//
// Enqueue may be called concurrently; Close waits for a running submit, and the order of work is that of the calls into
// the driver.
func (s *Stream) Enqueue(ctx context.Context, submit func(stream uintptr) error, reads, writes []*mem.Buffer) (*Event,
	error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all := make([]*mem.Buffer, 0, len(reads)+len(writes))
	all = append(append(all, reads...), writes...)
	for _, b := range writes {
		if err := checkWrite("enqueue", b); err != nil {
			return nil, err
		}
	}
	for _, b := range all {
		if err := s.WaitEvent(b.Ready()); err != nil {
			return nil, err
		}
	}
	var failed error
	e, err := s.enqueue("enqueue", func(e *Event) cudrv.Result {
		failed = submit(uintptr(s.handle))
		return cudrv.EventRecord(s.device, e.handle, s.handle)
	}, all...)
	runtime.KeepAlive(all)
	if failed != nil {
		return nil, failed // work enqueued before still holds the buffers
	}
	if err != nil {
		return nil, err
	}
	for _, b := range writes {
		b.SetReady(e)
	}
	return e, nil
}
