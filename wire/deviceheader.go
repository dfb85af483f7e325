package wire

import (
	"encoding/binary"
	"sync"
)

// deviceHeaders are the headers of device arrays by what they say: class, type, shape and strides. They take longer to
// make than a GPU takes to send a megabyte, and a program's arrays have few of them.
var deviceHeaders struct {
	sync.RWMutex
	m map[string][]byte // guarded by the lock; the headers never change
}

// maxDeviceHeaders bounds the table, which begins anew when it is full.
const maxDeviceHeaders = 1024

// headerKey is what the header of an array says, nil for an array that is none in device memory.
func (d *DeviceArray) headerKey() []byte {
	if d == nil || !d.Frame.CUDA() {
		return nil
	}
	b := make([]byte, 0, 128)
	b = append(append(b, d.Class...), 0)
	b = append(append(b, d.DType...), 0)
	b = binary.AppendUvarint(b, uint64(len(d.Shape)))
	for _, n := range d.Shape {
		b = binary.AppendVarint(b, int64(n))
	}
	for _, n := range d.Strides {
		b = binary.AppendVarint(b, int64(n))
	}
	return b
}

// known is the array encoded with a header that was made before, nil if there is none.
func (d *DeviceArray) known() *Serialized {
	key := d.headerKey()
	if key == nil {
		return nil
	}
	deviceHeaders.RLock()
	h := deviceHeaders.m[string(key)]
	deviceHeaders.RUnlock()
	if h == nil || d.check() != nil {
		return nil
	}
	return &Serialized{Header: h, Frames: []Frame{d.Frame.Retain()}}
}

// learn keeps the header that was made for an array.
func (d *DeviceArray) learn(header []byte) {
	key := d.headerKey()
	if key == nil {
		return
	}
	deviceHeaders.Lock()
	defer deviceHeaders.Unlock()
	if deviceHeaders.m == nil || len(deviceHeaders.m) >= maxDeviceHeaders {
		deviceHeaders.m = map[string][]byte{}
	}
	deviceHeaders.m[string(key)] = header[:len(header):len(header)]
}
