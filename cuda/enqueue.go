package cuda

import (
	"context"
	"runtime"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// Enqueue lets another library put work on the stream: kernels, collectives. It makes the
// stream wait for the ready events of all buffers, calls submit with the stream's handle, and
// records an event behind what submit has enqueued. The event becomes the ready event of the
// buffers in writes; all buffers are held until it is done, so that the caller may release
// them at once.
//
// Several goroutines may call it; each of their submits runs alone with respect to Close, and
// the order of work is that of their calls into the driver.
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
		return nil, failed // what was enqueued before still holds the buffers
	}
	if err != nil {
		return nil, err
	}
	for _, b := range writes {
		b.SetReady(e)
	}
	return e, nil
}
