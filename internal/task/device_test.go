package task_test

import (
	"errors"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

func TestCurrentDevice(t *testing.T) {
	if d, err := task.CurrentDevice(t.Context()); d != nil || !errors.Is(err, task.ErrOutside) {
		t.Errorf("outside of a task: %v, %v", d, err)
	}
	host := &task.Host{}
	ctx := task.WithInfo(t.Context(), &task.Info{Host: host})
	if d, err := task.CurrentDevice(ctx); d != nil || !errors.Is(err, task.ErrNoDevice) {
		t.Errorf("without a GPU: %v, %v", d, err)
	}
	host.Device = &task.Device{UUID: "GPU-1"}
	if d, err := task.CurrentDevice(ctx); err != nil || d != host.Device {
		t.Errorf("with a GPU: %v, %v", d, err)
	}
}

// DeviceBytes returns the GPU memory of a value, live or in frames, at any depth.
func TestDeviceBytes(t *testing.T) {
	device := func(n int) *mem.Buffer {
		return mem.NewRegion(mem.RegionConfig{Addr: 1 << 20, Len: n, Kind: mem.Device}).Buffer()
	}
	array := func(n int) *wire.DeviceArray {
		return &wire.DeviceArray{DType: wire.Uint8, Shape: []int{n}, Frame: wire.BufferFrame(device(n))}
	}
	for _, c := range []struct {
		name string
		v    any
		want int64
	}{
		{"nothing", nil, 0},
		{"number", 7, 0},
		{"host", mem.FromBytes(make([]byte, 10)), 0},
		{"buffer", device(10), 10},
		{"array", array(20), 20},
		{"list", []any{array(20), "x", device(3)}, 23},
		{"field", struct{ A, B *wire.DeviceArray }{array(1), array(2)}, 3},
	} {
		v := task.NewValue(c.v)
		if got := v.DeviceBytes(); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
		v.Release()
	}
	v := task.NewValue(array(20))
	s, err := v.Retained()
	if err != nil {
		t.Fatal(err)
	}
	frames := task.NewEncoded(s)
	if got := frames.DeviceBytes(); got != 20 {
		t.Errorf("in frames: %d bytes", got)
	}
	frames.Release()
	v.Release()
}
