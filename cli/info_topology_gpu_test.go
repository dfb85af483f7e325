//go:build cgo

package cli

import (
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/device/nvml/nvmltest"
	"go.millstream.dev/internal/device/topology"
)

// With the driver's library the topology has memory, NVLinks and MIG instances; a broken library is as none.
func TestReadMachineWithDriver(t *testing.T) {
	nvmltest.Use(t)
	m, err := readMachine()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.GPUs) != 8 {
		t.Fatalf("got %d GPUs, want 8", len(m.GPUs))
	}
	for i, g := range m.GPUs {
		if g.UUID != fmt.Sprint("GPU-fake-", i) || g.Model != "Fake GPU" || g.Memory != 40<<30 ||
			g.Address != fmt.Sprintf("0000:%02x:00.0", 0x10*(i+1)) || g.MIGEnabled != (i == 1) {
			t.Errorf("GPU %d: got %+v", i, g)
		}
		if found, ok := m.GPU(g.UUID); !ok || found != g {
			t.Errorf("GPU %d is not found by its UUID", i)
		}
	}
	want := []topology.MIG{
		{UUID: "MIG-0", Name: "Fake GPU MIG 3g.20gb", Index: 0, GPUInstance: 10, Memory: 20 << 30},
		{UUID: "MIG-2", Name: "Fake GPU MIG 3g.20gb", Index: 2, GPUInstance: 12, Memory: 20 << 30},
	}
	if got := m.GPUs[1].MIG; len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got instances %+v, want %+v", got, want)
	}
	for _, name := range []string{"MIG-2", "MIG-" + m.GPUs[1].UUID + "/12/0"} {
		if g, p, ok := m.FindMIG(name); !ok || g != m.GPUs[1] || p.Index != 2 {
			t.Errorf("%s: got %v of %v, want instance 2 of GPU 1", name, p, g)
		}
	}
	if tree := m.Tree(); !strings.Contains(tree,
		"40.0 GiB, 12 NVLinks up, part 0 MIG-0 20.0 GiB, part 2 MIG-2 20.0 GiB") {
		t.Errorf("no instances in\n%s", tree)
	}
	for _, word := range []string{"init", "count"} {
		t.Setenv("FAKE_NVML", word)
		m, err := readMachine()
		if err != nil || len(m.GPUs) == 8 {
			t.Errorf("%s: got %d GPUs, %v, want those of the kernel", word, len(m.GPUs), err)
		}
	}
}
