package cluster

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"go.millstream.dev/cuda"
)

var discard = slog.New(slog.NewTextHandler(io.Discard, nil))

// A worker's process wants the GPU that was planned for it, and says what is missing.
func TestDeviceSetUp(t *testing.T) {
	right := cuda.Device{Name: "NVIDIA A100", UUID: "GPU-1", GPUUUID: "GPU-1"}
	for _, c := range []struct {
		name    string
		spec    DeviceSpec
		devices []cuda.Device
		err     error
		want    string
	}{
		{"right", DeviceSpec{UUID: "GPU-1", MemoryLimit: 1}, []cuda.Device{right}, nil, ""},
		{"instance", DeviceSpec{UUID: "GPU-1"}, []cuda.Device{{UUID: "MIG-5", GPUUUID: "GPU-1"}}, nil, ""},
		{"not told", DeviceSpec{}, []cuda.Device{right}, nil, ""},
		{"wrong", DeviceSpec{UUID: "GPU-2"}, []cuda.Device{right}, nil, "device 0 of the worker is GPU-1 (NVIDIA A100), and GPU-2 was planned"},
		{"hidden", DeviceSpec{}, nil, nil, "CUDA_VISIBLE_DEVICES hides all"},
		{"no driver", DeviceSpec{}, nil, fmt.Errorf("%w: no libcuda", cuda.ErrUnavailable), "the worker's GPU: CUDA is not available: no libcuda"},
		{"pool", DeviceSpec{PoolSize: 1, Track: true}, []cuda.Device{right}, nil, "rmm-pool-size, rmm-track-allocations: workers of this release do not allocate"},
	} {
		err := c.spec.setUp(func() ([]cuda.Device, error) { return c.devices, c.err })
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Without a driver the error says what is missing, before anything is started.
func TestLocalCUDAWithoutDriver(t *testing.T) {
	if cuda.Available() == nil {
		t.Log("there is a GPU here: LocalCUDA would start")
		return
	}
	_, err := LocalCUDA(t.Context(), CUDAOptions{}, Options{})
	if !errors.Is(err, cuda.ErrUnavailable) || !strings.Contains(err.Error(), "workers with GPUs") {
		t.Error(err)
	}
	_, err = LocalCUDA(t.Context(), CUDAOptions{RMM: RMMOptions{Async: true, ManagedMemory: true}}, Options{})
	if err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Error(err)
	}
}
