package copier

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"go.millstream.dev/mem"
)

// Without a package for devices there are none; what registers is used.
func TestRegister(t *testing.T) {
	src := mem.FromBytes([]byte("grain"))
	dst := make([]byte, 5)
	if _, err := Open(0); !errors.Is(err, ErrNone) {
		t.Errorf("Open: got %v, want %v", err, ErrNone)
	}
	if err := ToHost(t.Context(), dst, src); !errors.Is(err, ErrNone) {
		t.Errorf("ToHost: got %v, want %v", err, ErrNone)
	}
	defer func() { opener.Store(nil); toHost.Store(nil) }()
	why := errors.New("no such device")
	Register(func(device int) (Device, error) {
		if device != 3 {
			t.Errorf("device %d is opened, want 3", device)
		}
		return Device{}, why
	})
	RegisterToHost(func(_ context.Context, dst []byte, src *mem.Buffer) error {
		copy(dst, src.Bytes())
		return nil
	})
	if _, err := Open(3); !errors.Is(err, why) {
		t.Errorf("Open: got %v, want %v", err, why)
	}
	if err := ToHost(t.Context(), dst, src); err != nil || !bytes.Equal(dst, []byte("grain")) {
		t.Errorf("ToHost: got %q, %v", dst, err)
	}
}
