package stagetest

import (
	"context"
	crand "crypto/rand"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/wire"
)

// ordinals numbers the devices of tests: real GPUs have lower ordinals.
var ordinals atomic.Int32

// Install makes a device that the comms of this process stage for. When the test ends all memory of it, and what was
// pinned for it, must have come back.
func Install(t testing.TB) *Device {
	t.Helper()
	d := NewDevice(1000 + int(ordinals.Add(1)))
	e, err := d.Engine(staging.Unit, 0)
	if err != nil {
		t.Fatal(err)
	}
	undo := staging.Use(d.Ordinal(), e)
	t.Cleanup(func() {
		undo()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			d.Drain()
			e.Trim()
			if d.Live() == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("%d bytes of a device and of pinned memory are still allocated", d.Live())
				return
			}
		}
	})
	return d
}

// Frame returns a frame of the device's memory with the data.
func (d *Device) Frame(t testing.TB, data []byte) wire.Frame {
	t.Helper()
	b, err := d.Memory().Alloc(context.Background(), len(data))
	if err != nil {
		t.Fatal(err)
	}
	Fill(b, data)
	return wire.BufferFrame(b)
}

// Contents returns the content of a frame, in any memory, once it is ready.
func Contents(t testing.TB, f wire.Frame) []byte {
	t.Helper()
	if !f.OnDevice() {
		return f.Bytes()
	}
	if err := f.Buffer().WaitReady(context.Background()); err != nil {
		t.Fatal(err)
	}
	return Bytes(f.Buffer())
}

// Random returns n bytes that no earlier call returned.
func Random(n int) []byte {
	b := make([]byte, n)
	var seed [32]byte
	_, _ = crand.Read(seed[:])
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}
