package gpu

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/nvml"
)

// TestGPUManagementLibrary compares what libnvidia-ml reports with CUDA and nvidia-smi: the device is found by the UUID
// of CUDA, its memory is that of the driver, and an allocation is seen.
func TestGPUManagementLibrary(t *testing.T) {
	requireGPU(t)
	ctx := testContext(t)
	l, err := nvml.Open()
	must(t, err)
	defer l.Close()
	of, err := cuda.DeviceByOrdinal(device)
	must(t, err)
	d, err := l.ByUUID(of.UUID)
	must(t, err)
	if uuid, err := d.UUID(); err != nil || uuid != of.UUID {
		t.Errorf("UUID: got %q, %v, want %q", uuid, err, of.UUID)
	}
	if name, err := d.Name(); err != nil || !of.MIG && name != of.Name {
		t.Errorf("name: got %q, %v, want %q", name, err, of.Name)
	}
	before, err := d.Sample()
	must(t, err)
	// The management library counts memory that the driver reserves; CUDA does not.
	if before.Total < of.TotalMemory || before.Total > of.TotalMemory+of.TotalMemory/8 {
		t.Errorf("total memory: got %d, want a little more than %d of CUDA", before.Total, of.TotalMemory)
	}
	if !of.MIG && (before.Utilization < 0 || before.Utilization > 100) {
		t.Errorf("utilization: got %d, want a percentage", before.Utilization)
	}
	const n = 512 << 20
	b, err := cuda.NewDeviceResource(device).Alloc(ctx, n)
	must(t, err)
	defer b.Release()
	after, err := d.Sample()
	must(t, err)
	if after.Used-before.Used < n {
		t.Errorf("used memory after an allocation of %d bytes: got %d, %d before", n, after.Used, before.Used)
	}
	list, err := l.GPUs()
	must(t, err)
	found := false
	for _, g := range list {
		found = found || g.UUID == of.GPUUUID && strings.EqualFold(g.Address[len(g.Address)-7:],
			of.PCIBusID[len(of.PCIBusID)-7:])
	}
	if !found {
		t.Errorf("GPUs: got %+v, want one with %s at %s", list, of.GPUUUID, of.PCIBusID)
	}
	compareWithSMI(t, of, before.Total)
}

// compareWithSMI compares the memory with the program of the driver, where it is installed.
func compareWithSMI(t *testing.T, of cuda.Device, total int64) {
	t.Helper()
	path, err := exec.LookPath("nvidia-smi")
	if err != nil || of.MIG {
		t.Log("nvidia-smi is not compared")
		return
	}
	out, err := exec.Command(path, "--id="+of.UUID, "--query-gpu=name,memory.total",
		"--format=csv,noheader,nounits").Output()
	must(t, err)
	name, mib, ok := strings.Cut(strings.TrimSpace(string(out)), ", ")
	want, err := strconv.ParseInt(mib, 10, 64)
	if !ok || err != nil || name != of.Name || want != total>>20 {
		t.Errorf("nvidia-smi: got %q, want %s, %d", strings.TrimSpace(string(out)), of.Name, total>>20)
	}
}
