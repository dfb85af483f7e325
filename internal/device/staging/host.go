package staging

import (
	"io"
	"net"
)

// hostStep is the memory of a transfer into host memory before any byte has arrived.
const hostStep = 1 << 20

// ToHost receives a transfer of size bytes in chunks of Unit into host memory, which grows with the received data: for
// a receiver whose GPU is full. It ends when the stripes are closed.
func ToHost(size int64, lines []net.Conn) ([]byte, error) {
	b := make([]byte, min(size, hostStep))
	for at, i := int64(0), 0; at < size; i++ {
		end := min(at+Unit, size)
		if end > int64(len(b)) {
			grown := make([]byte, min(size, max(end, 4*int64(len(b)))))
			copy(grown, b[:at])
			b = grown
		}
		if _, err := io.ReadFull(lines[i%len(lines)], b[at:end]); err != nil {
			return nil, err
		}
		at = end
	}
	return b, nil
}
