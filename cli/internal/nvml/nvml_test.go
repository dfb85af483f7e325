//go:build nvml && cgo && linux

package nvml_test

import (
	"fmt"
	"strings"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"go.millstream.dev/cli/internal/nvml"
	"go.millstream.dev/internal/device/topology"
)

// linksUp answers as a GPU with so many NVLinks, all up.
func linksUp(n int) func(int) (gonvml.EnableState, gonvml.Return) {
	return func(i int) (gonvml.EnableState, gonvml.Return) {
		if i >= n {
			return 0, gonvml.ERROR_INVALID_ARGUMENT
		}
		return gonvml.FEATURE_ENABLED, gonvml.SUCCESS
	}
}

// server is go-nvml's DGX A100 with addresses, as the mock gives none, and with MIG on GPU 1.
func server(t *testing.T) *dgxa100.Server {
	t.Helper()
	s := dgxa100.New()
	for i, d := range s.Devices {
		d := d.(*dgxa100.Device)
		d.GetPciInfoFunc = func() (info gonvml.PciInfo, r gonvml.Return) {
			for j, c := range []byte(fmt.Sprintf("00000000:%02X:00.0", 0x10*(i+1))) {
				info.BusId[j] = c
			}
			return info, gonvml.SUCCESS
		}
		d.GetNvLinkStateFunc = linksUp(12)
	}
	cut := s.Devices[1].(*dgxa100.Device)
	cut.MigMode = gonvml.DEVICE_MIG_ENABLE
	cut.GetMaxMigDeviceCountFunc = func() (int, gonvml.Return) { return 7, gonvml.SUCCESS }
	cut.GetMigDeviceHandleByIndexFunc = func(i int) (gonvml.Device, gonvml.Return) {
		if i != 0 && i != 2 { // the numbers have gaps
			return nil, gonvml.ERROR_NOT_FOUND
		}
		return &mock.Device{
			GetUUIDFunc: func() (string, gonvml.Return) {
				return fmt.Sprintf("MIG-%d", i), gonvml.SUCCESS
			},
			GetNameFunc:              func() (string, gonvml.Return) { return "Mock MIG 3g.20gb", gonvml.SUCCESS },
			GetGpuInstanceIdFunc:     func() (int, gonvml.Return) { return 10 + i, gonvml.SUCCESS },
			GetComputeInstanceIdFunc: func() (int, gonvml.Return) { return 0, gonvml.SUCCESS },
			GetMemoryInfoFunc: func() (gonvml.Memory, gonvml.Return) {
				return gonvml.Memory{Total: 20 << 30}, gonvml.SUCCESS
			},
		}, gonvml.SUCCESS
	}
	return s
}

func TestMockServer(t *testing.T) {
	s := server(t)
	d, err := nvml.New(s)
	if err != nil {
		t.Fatal(err)
	}
	m, err := topology.Read(topology.Config{Driver: d})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.GPUs) != 8 {
		t.Fatalf("%d GPUs", len(m.GPUs))
	}
	for i, g := range m.GPUs {
		mocked := s.Devices[i].(*dgxa100.Device)
		if g.UUID != mocked.UUID || g.Model != mocked.Name || g.Memory != 40<<30 || g.NVLinks != 12 ||
			g.Address != fmt.Sprintf("0000:%02x:00.0", 0x10*(i+1)) || g.MIGEnabled != (i == 1) {
			t.Errorf("GPU %d: %+v", i, g)
		}
		if found, ok := m.GPU(g.UUID); !ok || found != g || m.Affinity(g).Len() == 0 {
			t.Errorf("GPU %d is not found by its UUID", i)
		}
	}
	want := []topology.MIG{
		{UUID: "MIG-0", Name: "Mock MIG 3g.20gb", Index: 0, GPUInstance: 10, Memory: 20 << 30},
		{UUID: "MIG-2", Name: "Mock MIG 3g.20gb", Index: 2, GPUInstance: 12, Memory: 20 << 30},
	}
	if got := m.GPUs[1].MIG; len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"MIG-2", "MIG-" + m.GPUs[1].UUID + "/12/0"} {
		if g, p, ok := m.FindMIG(name); !ok || g != m.GPUs[1] || p.Index != 2 {
			t.Errorf("%s is %v of %v", name, p, g)
		}
	}
	if _, _, ok := m.FindMIG("MIG-" + m.GPUs[0].UUID + "/12/0"); ok {
		t.Error("a part of a GPU that has none")
	}
	if tree := m.Tree(); !strings.Contains(tree,
		"40.0 GiB, 12 NVLinks up, part 0 MIG-0 20.0 GiB, part 2 MIG-2 20.0 GiB") {
		t.Errorf("no parts in\n%s", tree)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// The release of go-nvml that is pinned has no server with H100s, so its A100s are dressed as
// such: 80 GiB and 18 links each, of which some are down, missing or unknown.
func TestLinks(t *testing.T) {
	s := server(t)
	for _, d := range s.Devices {
		d := d.(*dgxa100.Device)
		d.Name, d.MigMode = "NVIDIA H100 80GB HBM3", gonvml.DEVICE_MIG_DISABLE
		d.GetMemoryInfoFunc = func() (gonvml.Memory, gonvml.Return) {
			return gonvml.Memory{Total: 80 << 30}, gonvml.SUCCESS
		}
		d.GetNvLinkStateFunc = linksUp(18)
	}
	s.Devices[1].(*dgxa100.Device).GetNvLinkStateFunc = func(i int) (gonvml.EnableState, gonvml.Return) {
		return gonvml.EnableState(i % 2), gonvml.SUCCESS // every other link is down
	}
	s.Devices[2].(*dgxa100.Device).GetNvLinkStateFunc = func(int) (gonvml.EnableState, gonvml.Return) {
		return 0, gonvml.ERROR_NOT_SUPPORTED
	}
	s.Devices[3].(*dgxa100.Device).GetNvLinkStateFunc = func(int) (gonvml.EnableState, gonvml.Return) {
		return 0, gonvml.ERROR_UNKNOWN
	}
	d, err := nvml.New(s)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	list, err := d.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range list {
		want := 18
		if i >= 1 && i <= 3 {
			want = []int{9, 0, -1}[i-1]
		}
		if g.NVLinks != want || g.Memory != 80<<30 || g.Model != "NVIDIA H100 80GB HBM3" {
			t.Errorf("GPU %d: %+v, want %d links", i, g, want)
		}
	}
}

// Without a library, and with GPUs that do not answer.
func TestBroken(t *testing.T) {
	if d, err := nvml.Open(); err != nil && !strings.Contains(err.Error(), "libnvidia-ml") &&
		!strings.Contains(err.Error(), "start: ") {
		t.Errorf("%v", err)
	} else if err == nil {
		_ = d.Close()
	}
	s := server(t)
	s.InitFunc = func() gonvml.Return { return gonvml.ERROR_DRIVER_NOT_LOADED }
	if _, err := nvml.New(s); err == nil || !strings.Contains(err.Error(), "topology/nvml: start") {
		t.Errorf("%v", err)
	}
	s = server(t)
	s.Devices[3].(*dgxa100.Device).GetUUIDFunc = func() (string, gonvml.Return) { return "", gonvml.ERROR_GPU_IS_LOST }
	d, err := nvml.New(s)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := d.GPUs(); err != nil || len(list) != 7 {
		t.Errorf("one is lost: %d, %v", len(list), err)
	}
	s.DeviceGetHandleByIndexFunc = func(int) (gonvml.Device, gonvml.Return) { return nil, gonvml.ERROR_GPU_IS_LOST }
	if _, err := d.GPUs(); err == nil || !strings.Contains(err.Error(), "GPU 7") {
		t.Errorf("all are lost: %v", err)
	}
	s.DeviceGetCountFunc = func() (int, gonvml.Return) { return 0, gonvml.ERROR_UNKNOWN }
	if _, err := d.GPUs(); err == nil || !strings.Contains(err.Error(), "count GPUs") {
		t.Errorf("%v", err)
	}
}
