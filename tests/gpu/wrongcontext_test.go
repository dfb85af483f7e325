package gpu

import (
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/ucx"
)

// TestGPUWrongContexts: a context on a device that is not the process's is told with that device's UUID
// and with UCX's library, which is linked with CUDA.
func TestGPUWrongContexts(t *testing.T) {
	requireGPU(t)
	newWorker(t, ipc, ucx.WorkerConfig{})
	_, err := cuda.PrimaryContext(device)
	must(t, err)
	own, err := cuda.WrongContexts(device)
	must(t, err)
	if len(own) != 0 {
		t.Errorf("the process's own: %v", own)
	}
	wrong, err := cuda.WrongContexts(-1)
	must(t, err)
	d, err := cuda.DeviceByOrdinal(device)
	must(t, err)
	if len(wrong) != 1 || wrong[0].Device.UUID != d.UUID {
		t.Fatalf("%v", wrong)
	}
	t.Log(wrong[0])
	if !slices.ContainsFunc(wrong[0].Libraries, func(s string) bool { return strings.Contains(s, "libuct_cuda") }) {
		t.Errorf("UCX's CUDA library is not among %v", wrong[0].Libraries)
	}
	if slices.ContainsFunc(wrong[0].Libraries, func(s string) bool { return strings.Contains(s, "libcuda.so") }) {
		t.Errorf("the driver is among %v", wrong[0].Libraries)
	}
}
