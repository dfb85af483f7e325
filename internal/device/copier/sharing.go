package copier

import (
	"sync/atomic"

	"go.millstream.dev/mem"
)

// Sharing has the functions by which processes of one machine share device memory. All of them must be set.
type Sharing struct {
	// UUID returns the identity of a device by its ordinal in this process, in any process of the machine.
	UUID func(device int) (string, error)
	// Export returns a handle of a buffer of device memory, which must exist as long as another process uses it.
	Export func(b *mem.Buffer) (handle []byte, err error)
	// Open maps the buffer of a handle of another process. device is the device that uses it. The handle may be
	// invalid. The mapping lasts until the last reference is released, and longer if the device still copies from it.
	Open func(device int, handle []byte) (*mem.Buffer, error)
}

var sharing atomic.Pointer[Sharing]

// RegisterSharing sets the functions of this process. Call it from an init function; tests may call it with nil to
// remove them.
func RegisterSharing(s *Sharing) { sharing.Store(s) }

// Share returns the registered functions, nil in a program without a package for device memory.
func Share() *Sharing { return sharing.Load() }
