package staging

import (
	"fmt"
	"sync"

	"go.millstream.dev/internal/device/copier"
)

// devices holds the process's engines, for its lifetime: two streams each, and pinned memory while there are transfers.
var devices struct {
	sync.Mutex
	made map[int]func() (*Engine, error) // guarded by the lock; each creates its engine on first use
}

// ForDevice returns the process's engine of a GPU, with the comms' chunk size. The first call creates two streams on
// the device, and so its context if there is none: call it for memory of the device, which has one. The error wraps
// copier.ErrNone in a program that does not import package cuda.
func ForDevice(device int) (*Engine, error) {
	devices.Lock()
	engine := devices.made[device]
	if engine == nil {
		if devices.made == nil {
			devices.made = map[int]func() (*Engine, error){}
		}
		engine = sync.OnceValues(func() (*Engine, error) { return open(device) })
		devices.made[device] = engine
	}
	devices.Unlock()
	return engine()
}

// open returns an engine on new queues of a device.
func open(device int) (*Engine, error) {
	d, err := copier.Open(device)
	if err != nil {
		return nil, fmt.Errorf("staging: %w", err)
	}
	return New(Config{Down: d.Down, Up: d.Up, Pinned: d.Pinned})
}

// Use sets the process's engine of a device, for tests. The returned function undoes it.
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
