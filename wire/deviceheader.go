package wire

import (
	"encoding/binary"
	"sync"
)

// deviceHeaders caches the headers of device arrays by class, type, shape and strides. Encoding one takes longer than a
// GPU takes to send a megabyte, and a program's arrays have few of them.
var deviceHeaders struct {
	sync.RWMutex
	m map[string][]byte // guarded by the lock; the headers never change
}

// maxDeviceHeaders bounds the table, which is cleared when it is full.
const maxDeviceHeaders = 1024

// headerKey returns the key of the header of an array, nil for an array that is not in device memory.
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

// known returns the array encoded with a cached header, nil if there is none.
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

// learn caches the header of an array.
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
