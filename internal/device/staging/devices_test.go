package staging_test

import (
	"errors"
	"testing"

	"go.millstream.dev/internal/device/copier"
	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/internal/device/staging/stagetest"
)

// TestDevices: an engine is made of what the package of a device has registered, once; without any the error says what
// to import. (This program does not link package cuda.)
func TestDevices(t *testing.T) {
	const number = 500
	for range 2 { // asked again it says the same
		if e, err := staging.ForDevice(number - 1); e != nil || !errors.Is(err, copier.ErrNone) {
			t.Errorf("without a package for devices: got %v, %v; want %v", e, err, copier.ErrNone)
		}
	}
	d := stagetest.NewDevice(number)
	wrong := errors.New("no such device")
	opened := 0
	copier.Register(func(device int) (copier.Device, error) {
		if device != number {
			return copier.Device{}, wrong
		}
		opened++
		return copier.Device{Down: d.Queue(), Up: d.Queue(), Pinned: d.Pinned()}, nil
	})
	e, err := staging.ForDevice(number)
	if err != nil || e == nil || e.Chunk() != staging.Unit {
		t.Fatalf("got %v, %v; want an engine with chunks of %d bytes", e, err, staging.Unit)
	}
	if again, err := staging.ForDevice(number); again != e || err != nil || opened != 1 {
		t.Errorf("asked again: got %p, %v, opened %d times; want %p, once", again, err, opened, e)
	}
	if e, err := staging.ForDevice(number + 1); e != nil || !errors.Is(err, wrong) {
		t.Errorf("another device: got %v, %v; want %v", e, err, wrong)
	}
}
