package transfer

import (
	"strings"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/peermem"
	"go.millstream.dev/wire"
)

// Record describes one transfer of data between a worker and a peer or a client. worker.Transfer has the same fields
// and documents them.
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

// largeTransfer is the size in bytes from which the cost of a query for UCX transports is negligible.
const largeTransfer = 1 << 20

// count sets the sizes of a message, and the transports of large or device transfers.
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

// preferred are the transports that move the data of large messages, fastest first. An endpoint of UCX has others for
// small ones.
var preferred = []string{"staged", "cuda_ipc", "rc", "dc", "ud", "gdr", "cma", "xpmem", "knem", "sysv", "posix",
	"stripes", "tcp"}

// Transport returns the transport that moved the data, "" if it is not known.
func (r *Record) Transport() string {
	for _, want := range preferred {
		if (want == "cuda_ipc" || want == "staged") && r.DeviceBytes == 0 {
			continue // of an endpoint that could also move device memory
		}
		for _, t := range r.Transports {
			if t == want || strings.HasPrefix(t, want+"_") || strings.HasPrefix(t, want+"/") {
				return t
			}
		}
	}
	if len(r.Transports) > 0 {
		return r.Transports[0]
	}
	return ""
}

// countLent sets the transport of a transfer of which so many bytes were read from the memory of the peer.
func (r *Record) countLent(n peermem.Lent) {
	switch {
	case n.Total() <= r.Bytes/2:
	case n.Device > n.Host:
		r.Transports = []string{peermem.DeviceTransport}
	default:
		r.Transports = []string{peermem.Transport}
	}
}

// markArrived records that the data has arrived.
func (r *Record) markArrived() { r.Took = time.Since(r.Start) }

func (r *Record) finish(busy bool, err error) {
	if r.Took == 0 {
		r.markArrived()
	}
	r.Duration = r.Took.Seconds()
	if busy {
		r.Error = "busy"
	}
	if err != nil {
		r.Error = err.Error()
	}
}
