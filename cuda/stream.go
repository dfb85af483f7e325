package cuda

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// StreamConfig configures a stream.
type StreamConfig struct {
	// Priority is the stream's priority: lower numbers are served first. Default 0.
	Priority int
	// WithDefaultStream synchronizes the stream with CUDA's legacy default stream. Default: the two are independent.
	WithDefaultStream bool
}

// Stream is a queue of work on one device. Its methods are safe for concurrent use; work runs in the order of the
// calls.
type Stream struct {
	handle uint64
	device int
	kept   bool         // the stream is that of another library, which destroys it
	state  atomic.Int64 // calls in progress, plus closedBit

	mu      sync.Mutex
	work    []*Event // enqueued work that holds buffers, in order
	ends    []func() // of OnClose
	ended   bool     // ends have run
	watched bool     // guarded by the watcher
}

var _ mem.Stream = (*Stream)(nil)

// closedBit marks a closed stream; the last call in progress then destroys it.
const closedBit = math.MinInt64

// NewStream creates a stream, and the device's context if there is none.
func NewStream(device int, cfg StreamConfig) (*Stream, error) {
	var flags uint = cudrv.StreamNonBlocking
	if cfg.WithDefaultStream {
		flags = 0
	}
	h, r := cudrv.StreamCreate(device, flags, cfg.Priority)
	if err := check("create stream", device, r); err != nil {
		return nil, err
	}
	return &Stream{handle: h, device: device}, nil
}

// StreamFromHandle returns a stream for a CUstream that another library has created, such as PyTorch or CuPy; 0 is the
// legacy default stream of the device. The other library keeps it: Close does not destroy it. The handle is not checked
// before its first use.
func StreamFromHandle(device int, handle uintptr) *Stream {
	return &Stream{handle: uint64(handle), device: device, kept: true}
}

// StreamOf returns s as a Stream of this package, such as that of task.Device, or nil if it is of another type.
func StreamOf(s mem.Stream) *Stream {
	c, _ := s.(*Stream)
	return c
}

// acquire keeps the stream open until release.
func (s *Stream) acquire() error {
	for {
		v := s.state.Load()
		if v < 0 {
			return fmt.Errorf("%w: stream on device %d", ErrClosed, s.device)
		}
		if s.state.CompareAndSwap(v, v+1) {
			return nil
		}
	}
}

func (s *Stream) release() {
	if s.state.Add(-1) == closedBit {
		s.destroy()
	}
}

func (s *Stream) destroy() {
	if !s.kept {
		logFailure("destroy stream", s.device, cudrv.StreamDestroy(s.device, s.handle))
	}
}

// Close closes the stream. Enqueued work still runs, and memory of NewAsyncResource can still be released. Closing
// twice does nothing.
func (s *Stream) Close() error {
	s.end()
	for {
		v := s.state.Load()
		if v < 0 {
			return nil
		}
		if s.state.CompareAndSwap(v, v|closedBit) {
			if v == 0 && !s.kept {
				return check("destroy stream", s.device, cudrv.StreamDestroy(s.device, s.handle))
			}
			return nil
		}
	}
}

// Device returns the ordinal of the stream's device.
func (s *Stream) Device() int { return s.device }

// Handle returns the CUstream, for other CUDA libraries. It is valid until Close.
func (s *Stream) Handle() uintptr { return uintptr(s.handle) }

// Record returns a new event that marks the work enqueued so far.
func (s *Stream) Record() (*Event, error) {
	e, err := NewEvent(s.device, EventConfig{})
	if err != nil {
		return nil, err
	}
	return e, e.Record(s)
}

// Mark is Record with the signature of mem.Stream, for pools.
func (s *Stream) Mark() (mem.Event, error) {
	e, err := s.Record()
	if err != nil {
		return nil, err
	}
	return e, nil
}

// OnClose registers a function that Close calls while the stream still accepts work, for pools. On a closed stream it
// is called immediately.
func (s *Stream) OnClose(f func()) {
	s.mu.Lock()
	ended := s.ended
	if !ended {
		s.ends = append(s.ends, f)
	}
	s.mu.Unlock()
	if ended {
		f()
	}
}

func (s *Stream) end() {
	s.mu.Lock()
	ends := s.ends
	s.ends, s.ended = nil, true
	s.mu.Unlock()
	for _, f := range ends {
		f()
	}
}

// WaitEvent makes later work of the stream wait for e on the device; the call itself returns immediately. A nil or
// completed event needs no wait.
func (s *Stream) WaitEvent(e mem.Event) error {
	h, err := pendingHandle(e)
	if err != nil || h == 0 {
		return err
	}
	if o, ok := e.(interface{ RecordedOn(mem.Stream) bool }); ok && o.RecordedOn(s) {
		return nil // the stream runs its work in order
	}
	if err := s.acquire(); err != nil {
		return err
	}
	defer s.release()
	r := cudrv.StreamWait(s.device, s.handle, h)
	runtime.KeepAlive(e)
	return check("wait for event", s.device, r)
}

// Query reports whether all work enqueued so far has finished. It does not block.
func (s *Stream) Query() (bool, error) {
	if err := s.acquire(); err != nil {
		return false, err
	}
	defer s.release()
	done, r := cudrv.StreamQuery(s.device, s.handle)
	return done, check("query stream", s.device, r)
}

// Wait waits until all work enqueued so far has finished, or ctx is done.
func (s *Stream) Wait(ctx context.Context) error {
	e, err := s.Record()
	if err != nil {
		return err
	}
	return e.Wait(ctx)
}

// pendingHandle returns the native event to wait for, or 0 if there is none.
func pendingHandle(e mem.Event) (uint64, error) {
	if e == nil {
		return 0, nil
	}
	done, err := e.Query()
	if done || err != nil {
		return 0, err
	}
	h := e.Handle()
	if h == 0 {
		return 0, fmt.Errorf("cuda: event %T has no CUDA handle that a stream can wait for: wait for the event first",
			e)
	}
	return uint64(h), nil
}
