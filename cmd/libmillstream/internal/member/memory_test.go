package member

import (
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/clique"
	"go.millstream.dev/internal/testkit/leak"
)

// TestNotDeviceMemory: device memory that is none is named on every rank, and all can continue.
func TestNotDeviceMemory(t *testing.T) {
	leak.Check(t)
	kind := clique.KindOf[float64]()
	each(t, formed(t, 2), func(me int, m *Member) error {
		x := []float64{1, 2}
		right := Operation{Code: AllReduce, Kind: kind, Op: 1, Count: 2, Send: at(x), Recv: at(x), Memory: Host}
		for _, c := range []struct {
			memory Memory
			want   string
		}{{Device, "is not device memory"}, {99, "unknown memory 99"}, {-1, "unknown memory -1"}} {
			o := right
			if me == 1 {
				o.Memory = c.memory
			}
			var mismatch *clique.MismatchError
			_, err := m.Do(o)
			if !errors.As(err, &mismatch) || mismatch.Rank != 1 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("member %d: got %v, want a mismatch of rank 1 with %q", me, err, c.want)
			}
		}
		message := right
		message.Code, message.Memory, message.Peer = Send, Device, 1-me
		if _, err := m.Do(message); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "not device memory") {
			t.Errorf("member %d: send: got %v, want %v", me, err, ErrInvalid)
		}
		_, err := m.Do(right)
		return err
	})
}

// TestNoNCCL: the handle of NCCL is an error that names the backend, and devices that do not exist are rejected.
func TestNoNCCL(t *testing.T) {
	leak.Check(t)
	m := formed(t, 1)[0]
	if _, _, err := m.NCCL(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `moves by "comm"`) {
		t.Errorf("NCCL: got %v, want %v with the backend", err, ErrInvalid)
	}
	for _, device := range []string{"-1", "gpu", "0x1"} {
		cfg := config("devices", "a0")
		cfg.Device = device
		if _, _, err := Open(testContext(t), cfg); !errors.Is(err, ErrInvalid) {
			t.Errorf("device %q: got %v, want %v", device, err, ErrInvalid)
		}
	}
	cfg := config("devices", "a0")
	cfg.Device = "4711"
	if _, _, err := Open(testContext(t), cfg); err == nil || !strings.Contains(err.Error(), "4711") {
		t.Errorf("device 4711: got %v, want an error that names it", err)
	}
}
