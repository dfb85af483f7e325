package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/internal/device/devmem/devmemtest"
	"go.millstream.dev/worker"
)

var discard = slog.New(slog.NewTextHandler(io.Discard, nil))

// fakeMachine returns a machine with one fake GPU.
func fakeMachine(g *devmemtest.GPU) gpuMachine {
	return gpuMachine{
		devices: func() ([]cuda.Device, error) {
			if g.NoDriver != nil {
				return nil, g.NoDriver
			}
			return []cuda.Device{g.Info}, nil
		},
		wrong: func(int) ([]cuda.WrongContext, error) { return nil, nil },
		open:  func(cfg devmem.Config) (*devmem.Memory, error) { return devmem.OpenWith(cfg, g) },
	}
}

// A worker process requires its planned GPU, and the error describes what is missing.
func TestDeviceSetUp(t *testing.T) {
	right := cuda.Device{Name: "NVIDIA A100", UUID: "GPU-1", GPUUUID: "GPU-1"}
	other := cuda.Device{Ordinal: 1, Name: "NVIDIA A100", UUID: "GPU-7", GPUUUID: "GPU-7"}
	for _, c := range []struct {
		name    string
		spec    DeviceSpec
		devices []cuda.Device
		err     error
		want    string
		warn    string
	}{
		{"right", DeviceSpec{UUID: "GPU-1", MemoryLimit: 1}, []cuda.Device{right}, nil, "", ""},
		{"instance", DeviceSpec{UUID: "GPU-1"}, []cuda.Device{{UUID: "MIG-5", GPUUUID: "GPU-1"}}, nil, "", ""},
		{"not told", DeviceSpec{}, []cuda.Device{right}, nil, "", ""},
		{"wrong", DeviceSpec{UUID: "GPU-2"}, []cuda.Device{right}, nil, "device 0 of the worker is GPU-1 (NVIDIA " +
			"A100) instead of GPU-2", ""},
		{"hidden", DeviceSpec{}, nil, nil, "CUDA_VISIBLE_DEVICES hides all", ""},
		{"no driver", DeviceSpec{}, nil, fmt.Errorf("%w: no libcuda", cuda.ErrUnavailable),
			"GPU of the worker: cuda: CUDA is not available: no libcuda", ""},
		{"pool", DeviceSpec{PoolSize: 1 << 20, Track: true}, []cuda.Device{right}, nil, "", ""},
		{"pool too large", DeviceSpec{PoolSize: 1 << 30}, []cuda.Device{right}, nil, "GPU of the worker: devmem: " +
			"pool of 1073741824 bytes (rmm-pool-size)", ""},
		{"async and managed", DeviceSpec{Async: true, Managed: true}, []cuda.Device{right}, nil, "exclude each other",
			""},
		{"context elsewhere", DeviceSpec{}, []cuda.Device{right, other}, nil, "", "libelsewhere.so"},
	} {
		g := devmemtest.New(100 << 20)
		m := fakeMachine(g)
		m.devices = func() ([]cuda.Device, error) { return c.devices, c.err }
		m.wrong = func(int) ([]cuda.WrongContext, error) {
			if len(c.devices) < 2 {
				return nil, nil
			}
			return []cuda.WrongContext{{Device: other, Libraries: []string{"libelsewhere.so"}}}, nil
		}
		var log bytes.Buffer
		device, err := c.spec.setUp(m, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if c.warn == "" && log.Len() > 0 || !strings.Contains(log.String(), c.warn) || c.warn != "" &&
			!strings.Contains(log.String(), "GPU-7") {
			t.Errorf("%s: log: got %q", c.name, log.String())
		}
		device.close(discard)
		if used, _ := g.Used(); used != 0 {
			t.Errorf("%s: %d bytes are left", c.name, used)
		}
	}
}

// A worker uses the GPU memory for its tasks, its connections and its results, with the limit; memory that was not
// released is logged.
func TestDeviceApply(t *testing.T) {
	g := devmemtest.New(100 << 20)
	spec := DeviceSpec{MemoryLimit: 10 << 20, PoolSize: 20 << 20, Track: true}
	device, err := spec.setUp(fakeMachine(g), discard)
	if err != nil {
		t.Fatal(err)
	}
	var cfg worker.Config
	device.apply(&cfg)
	if cfg.GPU.UUID != "GPU-fake" || cfg.GPU.Memory != cfg.Device.Memory || cfg.Device.Limit != 10<<20 ||
		cfg.Device.Memory.Limit() != 10<<20 || cfg.GPU.Pinned == nil {
		t.Errorf("got GPU %+v and device %+v, want GPU-fake with a limit of 10 MiB", cfg.GPU, cfg.Device)
	}
	b, err := cfg.GPU.Memory.Alloc(t.Context(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	device.close(slog.New(slog.NewTextHandler(&log, nil)))
	if !strings.Contains(log.String(), "not released (rmm-track-allocations)") ||
		!strings.Contains(log.String(), "device_test.go") {
		t.Errorf("log: got %q", log.String())
	}
	b.Release()
	device.close(discard)
	var none *gpu
	none.apply(&worker.Config{})
	none.close(discard)
}

// Without a driver the error describes what is missing, before a process is started.
func TestLocalCUDAWithoutDriver(t *testing.T) {
	if cuda.Available() == nil {
		t.Log("there is a GPU here: LocalCUDA would start")
		return
	}
	_, err := LocalCUDA(t.Context(), CUDAConfig{}, Config{})
	if !errors.Is(err, cuda.ErrUnavailable) || !strings.Contains(err.Error(), "GPU workers") {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	_, err = LocalCUDA(t.Context(), CUDAConfig{RMM: RMMConfig{Async: true, ManagedMemory: true}}, Config{})
	if err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("async and managed memory: got %v, want an error", err)
	}
}
