package staging

import (
	"fmt"
	"sync"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// stream is a CUDA stream as a Copier.
type stream struct{ *cuda.Stream }

func (s stream) Copy(dst, src *mem.Buffer) (mem.Event, error) {
	e, err := s.Stream.Copy(dst, src)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// devices holds the process's engines. They live as long as it does: two streams each, and pinned memory while there
// are transfers.
var devices struct {
	sync.Mutex
	made map[int]func() (*Engine, error) // guarded by the lock; each makes its engine the first time
}

// ForDevice is the process's engine of a GPU, with the comms' chunk size. It makes two streams on the device the first
// time, and so its context where there is none: call it for memory of the device, which has one.
func ForDevice(device int) (*Engine, error) {
	devices.Lock()
	engine := devices.made[device]
	if engine == nil {
		if devices.made == nil {
			devices.made = map[int]func() (*Engine, error){}
		}
		engine = sync.OnceValues(func() (*Engine, error) { return NewCUDA(device, 0, 0) })
		devices.made[device] = engine
	}
	devices.Unlock()
	return engine()
}

// NewCUDA makes an engine of a GPU with another chunk size or depth (0: the default), for measurements.
func NewCUDA(device, chunk, depth int) (*Engine, error) {
	down, err := cuda.NewStream(device, cuda.StreamConfig{})
	if err != nil {
		return nil, fmt.Errorf("staging: %w", err)
	}
	up, err := cuda.NewStream(device, cuda.StreamConfig{})
	if err != nil {
		_ = down.Close()
		return nil, fmt.Errorf("staging: %w", err)
	}
	return New(Config{Down: stream{down}, Up: stream{up}, Pinned: cuda.NewPinnedResource(device), Chunk: chunk, Depth: depth})
}

// Use makes e the process's engine of a device, for tests with a device of their own. The returned function undoes it.
func Use(device int, e *Engine) (undo func()) {
	devices.Lock()
	defer devices.Unlock()
	if devices.made == nil {
		devices.made = map[int]func() (*Engine, error){}
	}
	before := devices.made[device]
	devices.made[device] = func() (*Engine, error) { return e, nil }
	return func() {
		devices.Lock()
		defer devices.Unlock()
		devices.made[device] = before
	}
}
