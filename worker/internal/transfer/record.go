package transfer

import (
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/wire"
)

// Record is one transfer of data between a worker and a peer or a client. See worker.Transfer, which has the same
// fields.
type Record struct {
	Peer        string
	Incoming    bool
	Scheme      string
	Keys        int
	Bytes       int64
	DeviceBytes int64
	Transports  []string
	Start       time.Time
	Took        time.Duration
	Duration    float64
	Error       string
}

// largeTransfer is from how many bytes on the cost of asking UCX for its transports does not matter.
const largeTransfer = 1 << 20

// count notes what a message carries, and over what it came or went if that is of interest.
func (r *Record) count(c comm.Comm, m *wire.Message) {
	r.Bytes, r.DeviceBytes = m.Size(), 0
	for _, f := range m.Frames {
		if f.OnDevice() {
			r.DeviceBytes += int64(f.Len())
		}
	}
	if u, ok := c.(interface{ Transports() []string }); ok && (r.DeviceBytes > 0 || r.Bytes >= largeTransfer) {
		r.Transports = u.Transports()
	}
}

// arrived notes that the data is here.
func (r *Record) arrived() { r.Took = time.Since(r.Start) }

func (r *Record) end(busy bool, err error) {
	if r.Took == 0 {
		r.arrived()
	}
	r.Duration = r.Took.Seconds()
	if busy {
		r.Error = "busy"
	}
	if err != nil {
		r.Error = err.Error()
	}
}
