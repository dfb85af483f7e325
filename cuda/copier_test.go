package cuda_test

import (
	"errors"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/copier"
	"go.millstream.dev/mem"
)

// Importing the package is enough for comms to stage memory of GPUs; without a GPU the error names the driver.
func TestCopierRegistered(t *testing.T) {
	d, err := copier.Open(0)
	if cuda.Available() != nil {
		if err == nil || errors.Is(err, copier.ErrNone) {
			t.Errorf("without a GPU: got %v, want an error of the driver", err)
		}
		return // tests/gpu stages memory of GPUs
	}
	if err != nil || d.Down == nil || d.Up == nil || d.Pinned == nil {
		t.Errorf("got %+v, %v; want two queues and pinned memory", d, err)
	}
}

// Comms copy memory of GPUs to the host without importing the package.
func TestToHostRegistered(t *testing.T) {
	if cuda.Available() == nil {
		return // tests/gpu copies memory of GPUs
	}
	src := mem.NewRegion(mem.RegionConfig{Addr: 4096, Len: 8, Kind: mem.Device}).Buffer()
	defer src.Release()
	if err := copier.ToHost(t.Context(), make([]byte, 8), src); err == nil || errors.Is(err, copier.ErrNone) {
		t.Errorf("without a GPU: got %v, want an error of the driver", err)
	}
}

// Workers share memory of GPUs without importing the package. Handles of peers may be anything.
func TestSharingRegistered(t *testing.T) {
	s := copier.Share()
	if s == nil || s.UUID == nil || s.Export == nil || s.Open == nil {
		t.Fatalf("got %+v, want all functions", s)
	}
	for _, handle := range [][]byte{nil, {1}, make([]byte, 104)} {
		if b, err := s.Open(0, handle); err == nil {
			b.Release()
			t.Errorf("handle of %d bytes: got memory, want an error", len(handle))
		}
	}
	host := mem.FromBytes(make([]byte, 8))
	defer host.Release()
	if _, err := s.Export(host); err == nil {
		t.Error("export of host memory: got nil, want an error")
	}
	if _, err := s.UUID(1 << 20); err == nil {
		t.Error("device that does not exist: got nil, want an error")
	}
}
