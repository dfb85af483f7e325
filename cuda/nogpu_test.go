package cuda_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// What must hold on every machine, with or without a GPU.

func TestNoDriver(t *testing.T) {
	out := runChild(t, "no-driver", nil, "MILLSTREAM_CUDA_LIBRARY=/nonexistent/libcuda.so.1")
	if !strings.Contains(out, "all calls refused") {
		t.Error(out)
	}
}

// childNoDriver runs where the driver library cannot be opened (or in a build without cgo).
func childNoDriver() error {
	err := cuda.Available()
	if !errors.Is(err, cuda.ErrUnavailable) {
		return fmt.Errorf("Available: %v", err)
	}
	text := err.Error()
	if !strings.Contains(text, "CGO_ENABLED=1") {
		for _, want := range []string{"cuda: CUDA is not available", "libcuda.so.1", "/nonexistent",
			"install the NVIDIA driver", "--gpus all"} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("%q does not say %q", text, want)
			}
		}
	}
	ctx := context.Background()
	heap, device := mem.FromBytes([]byte{1}), mem.NewRegion(mem.RegionConfig{Addr: 4096, Len: 1,
		Kind: mem.Device}).Buffer()
	for name, err := range map[string]error{
		"DriverVersion":       second(cuda.DriverVersion()),
		"DeviceCount":         second(cuda.DeviceCount()),
		"Devices":             second(cuda.Devices()),
		"DeviceByOrdinal":     second(cuda.DeviceByOrdinal(0)),
		"HasContext":          second(cuda.HasContext(0)),
		"WrongContexts":       second(cuda.WrongContexts(0)),
		"PrimaryContext":      second(cuda.PrimaryContext(0)),
		"SetCurrent":          cuda.SetCurrent(0),
		"CanAccessPeer":       second(cuda.CanAccessPeer(0, 1)),
		"NewStream":           second(cuda.NewStream(0, cuda.StreamConfig{})),
		"Stream.Query":        second(cuda.StreamFromHandle(0, 0).Query()),
		"Stream.Record":       second(cuda.StreamFromHandle(0, 0).Record()),
		"NewEvent":            second(cuda.NewEvent(0, cuda.EventConfig{})),
		"NewDeviceResource":   second(cuda.NewDeviceResource(0).Alloc(ctx, 1)),
		"NewManagedResource":  second(cuda.NewManagedResource(0).Alloc(ctx, 1)),
		"NewPinnedResource":   second(cuda.NewPinnedResource(0).Alloc(ctx, 1)),
		"Pointer":             second(cuda.Pointer(device.Addr())),
		"FromPointer":         second(cuda.FromPointer(4096, 1, nil)),
		"Copy to device":      cuda.Copy(ctx, device, heap),
		"Copy to host":        cuda.Copy(ctx, heap, device),
		"Fill":                cuda.Fill(ctx, device, 1),
		"ExportMem":           second(cuda.ExportMem(device)),
		"LoadModule":          second(cuda.LoadModule(0, []byte("// PTX"))),
		"SetReleaseThreshold": cuda.SetReleaseThreshold(0, 1),
		"DriverPoolBytes":     second(cuda.DriverPoolBytes(0)),
		"OpenEvent":           second(cuda.OpenEvent(0, cuda.EventHandle{})),
	} {
		if !errors.Is(err, cuda.ErrUnavailable) || strings.Count(err.Error(), "cuda: ") != 1 {
			return fmt.Errorf("%s: %v", name, err)
		}
	}
	if cuda.Library() != "" {
		return fmt.Errorf("Library: %q", cuda.Library())
	}
	fmt.Println("all calls refused")
	return nil
}

func second[T any](_ T, err error) error { return err }

func TestErrors(t *testing.T) {
	if cuda.ErrOutOfMemory.Name() != "CUDA_ERROR_OUT_OF_MEMORY" || cuda.ErrOutOfMemory != 2 {
		t.Errorf("%v", cuda.ErrOutOfMemory)
	}
	err := fmt.Errorf("alloc: %w", cuda.ErrOutOfMemory)
	for _, target := range []error{cuda.ErrOutOfMemory, cuda.Error(2), mem.ErrOutOfMemory} {
		if !errors.Is(err, target) {
			t.Errorf("%v is not %v", err, target)
		}
	}
	if errors.Is(err, cuda.ErrInvalidValue) || errors.Is(err, cuda.ErrUnavailable) {
		t.Errorf("%v is everything", err)
	}
	if !errors.Is(cuda.ErrNoDevice, cuda.ErrUnavailable) {
		t.Error("no device, but available?")
	}
	if s := cuda.ErrOutOfMemory.Error(); !strings.Contains(s, "CUDA_ERROR_OUT_OF_MEMORY (2)") {
		t.Error(s)
	}
	var e cuda.Error
	if !errors.As(err, &e) || e != 2 {
		t.Errorf("errors.As: %v", e)
	}
}

func TestVersionText(t *testing.T) {
	for v, want := range map[cuda.Version]string{12040: "12.4", 11080: "11.8", 13000: "13.0", 10020: "10.2"} {
		if v.String() != want {
			t.Errorf("%d: %v", int(v), v)
		}
	}
}

func TestEventConfigRefused(t *testing.T) {
	_, err := cuda.NewEvent(0, cuda.EventConfig{Timing: true, IPC: true})
	wantError(t, err, nil, "exclude each other")
}

func TestHostCopyNeedsNoGPU(t *testing.T) {
	ctx := within(t)
	dst, src := mem.FromBytes(make([]byte, 5)), mem.FromBytes([]byte("hello"))
	must(t, cuda.Copy(ctx, dst, src))
	checkSame(t, "copy", dst.Bytes(), []byte("hello"))
	must(t, cuda.Fill(ctx, dst, 'x'))
	checkSame(t, "fill", dst.Bytes(), []byte("xxxxx"))
	wantError(t, cuda.Copy(ctx, dst, src.Slice(0, 4)), nil, "4 bytes into 5")
	ro := mem.NewRegion(mem.RegionConfig{Heap: []byte("fixed"), ReadOnly: true}).Buffer()
	wantError(t, cuda.Copy(ctx, ro, src), nil, "read-only")
	wantError(t, cuda.Fill(ctx, ro, 1), nil, "read-only")
	checkSame(t, "read-only memory", ro.Bytes(), []byte("fixed"))
}

func TestAllocRefusesNonsense(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	for _, r := range []mem.Resource{cuda.NewDeviceResource(0), cuda.NewManagedResource(0), cuda.NewPinnedResource(0)} {
		_, err := r.Alloc(ctx, -1)
		wantError(t, err, nil, "negative size -1", r.Kind().String())
	}
	cancel()
	_, err := cuda.NewDeviceResource(0).Alloc(ctx, 1)
	wantError(t, err, context.Canceled)
	if r := cuda.NewPinnedResource(3); r.Kind() != mem.Pinned || r.Device() != -1 {
		t.Errorf("%v %d", r.Kind(), r.Device())
	}
	if r := cuda.NewManagedResource(3); r.Kind() != mem.Managed || r.Device() != 3 {
		t.Errorf("%v %d", r.Kind(), r.Device())
	}
}

func TestExportRefusesHostMemory(t *testing.T) {
	_, err := cuda.ExportMem(mem.FromBytes([]byte{1}))
	wantError(t, err, cuda.ErrNotSupported, "host memory", "NewDeviceResource")
	_, err = cuda.OpenMem(-1, cuda.MemHandle{})
	wantError(t, err, nil, "empty")
	_, err = cuda.FromPointer(0, 1, nil)
	wantError(t, err, nil, "not a range")
	_, err = cuda.FromPointer(1, -1, nil)
	wantError(t, err, nil, "not a range")
}

// What a stream owes to pools when it ends: told once, and at once if it is too late. The
// stream has no driver behind it, so that what Close returns is not looked at.
func TestStreamOnClose(t *testing.T) {
	var s cuda.Stream
	told := 0
	s.OnClose(func() { told++ })
	s.OnClose(func() { told += 10 })
	_ = s.Close()
	_ = s.Close()
	if told != 11 {
		t.Errorf("told %d, want 11: each once", told)
	}
	if s.OnClose(func() { told += 100 }); told != 111 {
		t.Errorf("told %d: a closed stream tells at once", told)
	}
}

type foreignStream struct{ mem.Stream }

func TestStreamOf(t *testing.T) {
	want := new(cuda.Stream)
	if got := cuda.StreamOf(want); got != want {
		t.Errorf("got %p, want %p", got, want)
	}
	for _, s := range []mem.Stream{nil, foreignStream{}} {
		if got := cuda.StreamOf(s); got != nil {
			t.Errorf("%T: got %v, want nil", s, got)
		}
	}
}
