package cuda_test

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

func TestGPUDevices(t *testing.T) {
	requireGPU(t)
	v := one(cuda.DriverVersion())(t)
	if v < 10020 {
		t.Errorf("driver version %v", v)
	}
	if !strings.Contains(cuda.Library(), "libcuda") {
		t.Errorf("library %q", cuda.Library())
	}
	devices := one(cuda.Devices())(t)
	if len(devices) == 0 {
		t.Fatal("Available, but no device")
	}
	seen := map[string]bool{}
	for i, d := range devices {
		t.Logf("%v, %d.%d, %d MiB, NUMA node %d", d, d.Major, d.Minor, d.TotalMemory>>20, d.NUMANode)
		if d.Ordinal != i || d.Name == "" || d.TotalMemory <= 0 || d.Major < 3 || d.Multiprocessors <= 0 ||
			!d.UnifiedAddressing {
			t.Errorf("%+v", d)
		}
		if !regexp.MustCompile(`^(GPU|MIG)(-[0-9a-f]+){5}$`).MatchString(d.UUID) || seen[d.UUID] {
			t.Errorf("UUID %q", d.UUID)
		}
		if !regexp.MustCompile(`^[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]$`).MatchString(d.PCIBusID) {
			t.Errorf("PCI bus id %q", d.PCIBusID)
		}
		if d.MIG != strings.HasPrefix(d.UUID, "MIG-") || !strings.HasPrefix(d.GPUUUID, "GPU-") || !d.MIG &&
			d.GPUUUID != d.UUID {
			t.Errorf("MIG %v: %q of %q", d.MIG, d.UUID, d.GPUUUID)
		}
		seen[d.UUID] = true
	}
	free, total, err := cuda.MemoryInfo(0)
	must(t, err)
	if free <= 0 || free > total || total > devices[0].TotalMemory*2 {
		t.Errorf("%d of %d bytes free", free, total)
	}
	if d := one(cuda.DeviceByOrdinal(0))(t); d.FreeMemory <= 0 {
		t.Errorf("free memory %d although there is a context", d.FreeMemory)
	}
}

// TestContextIsLazy: looking must not make a context, using memory must, and on the chosen
// device only.
func TestGPUContextIsLazy(t *testing.T) {
	requireGPU(t)
	if out := runChild(t, "lazy-context", nil); !strings.Contains(out, "lazy") {
		t.Error(out)
	}
}

func childLazyContext() error {
	devices, err := cuda.Devices()
	if err != nil {
		return err
	}
	if _, err := cuda.Pointer(4096); err != nil {
		return err
	}
	count := func() (n int) {
		for i := range devices {
			if has, err := cuda.HasContext(i); err != nil || has {
				n++
			}
		}
		return n
	}
	if n := count(); n != 0 {
		return fmt.Errorf("%d contexts before any use", n)
	}
	if devices[0].FreeMemory != -1 {
		return fmt.Errorf("free memory %d without a context", devices[0].FreeMemory)
	}
	last := len(devices) - 1
	b, err := cuda.NewDeviceResource(last).Alloc(ctxBackground, 1)
	if err != nil {
		return err
	}
	defer b.Release()
	if has, err := cuda.HasContext(last); err != nil || !has {
		return fmt.Errorf("no context after an allocation: %v", err)
	}
	if n := count(); n != 1 {
		return fmt.Errorf("%d contexts after use of one device", n)
	}
	fmt.Println("lazy")
	return nil
}

func TestGPUPrimaryContextIsOne(t *testing.T) {
	requireGPU(t)
	a, b := one(cuda.PrimaryContext(0))(t), one(cuda.PrimaryContext(0))(t)
	if a == 0 || a != b {
		t.Errorf("%#x %#x", a, b)
	}
	must(t, cuda.SetCurrent(0))
	if yes, err := cuda.CanAccessPeer(0, 0); err != nil || yes {
		t.Errorf("peer of itself: %v %v", yes, err)
	}
}

func TestGPUInvalidDevice(t *testing.T) {
	requireGPU(t)
	for _, dev := range []int{-1, 99, math.MaxInt32} {
		_, err := cuda.NewDeviceResource(dev).Alloc(within(t), 1)
		wantError(t, err, cuda.ErrInvalidDevice, fmt.Sprint(dev), "this process sees")
		_, err = cuda.DeviceByOrdinal(dev)
		wantError(t, err, cuda.ErrInvalidDevice)
		_, err = cuda.HasContext(dev)
		wantError(t, err, cuda.ErrInvalidDevice)
	}
}

func TestGPUOutOfMemory(t *testing.T) {
	requireGPU(t)
	_, err := cuda.NewDeviceResource(0).Alloc(within(t), 1<<45)
	wantError(t, err, cuda.ErrOutOfMemory, "35184372088832 bytes", "bytes are free", "CUDA_ERROR_OUT_OF_MEMORY")
	if !errors.Is(err, mem.ErrOutOfMemory) {
		t.Error("not mem.ErrOutOfMemory")
	}
	alloc(t, cuda.NewDeviceResource(0), 1).Release() // the device still works
}
