package topology_test

import (
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/internal/device/topology"
)

type fakeDriver struct {
	gpus []topology.DriverGPU
	err  error
}

func (d fakeDriver) GPUs() ([]topology.DriverGPU, error) { return d.gpus, d.err }

// What the driver knows is added to what the kernel knows, whichever way it writes addresses.
func TestDriver(t *testing.T) {
	root := build(t, "dgx-h100")
	d := fakeDriver{gpus: []topology.DriverGPU{
		{Address: "00000000:1B:00.0", UUID: "GPU-a", Model: "NVIDIA H100 80GB HBM3", Memory: 80 << 30},
		{Address: "00000000:43:00.0", UUID: "GPU-b", Memory: 80 << 30, MIGEnabled: true,
			MIG: []topology.MIG{{UUID: "MIG-x", GPUInstance: 1, Memory: 10 << 30},
				{UUID: "MIG-y", Index: 1, GPUInstance: 2, Memory: 40 << 30}}},
		{Address: "00000000:52:00.0", UUID: "GPU-c", Memory: 80 << 30, MIGEnabled: true},
		{Address: "00000000:FF:00.0", UUID: "GPU-far", Memory: 1 << 30},
	}}
	m, err := topology.Read(topology.Config{Root: root, Driver: d})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.GPUs) != 9 || m.GPUs[0].UUID != "GPU-a" || m.GPUs[0].Memory != 80<<30 || m.GPUs[3].Memory != 0 ||
		m.GPUs[3].UUID == "" {
		t.Fatalf("%d GPUs, %+v", len(m.GPUs), m.GPUs[0])
	}
	far, ok := m.GPU("0000:ff:00.0")
	if !ok || far.Index != 8 || far.Node != -1 || m.Affinity(far).Len() != m.Allowed.Len() {
		t.Errorf("a GPU that only the driver knows: %+v", far)
	}
	if l := topology.Between(far.Device, m.GPUs[0].Device).Level; l != topology.System {
		t.Errorf("nobody knows how far it is, not %v", l)
	}
	if _, _, err := m.ClosestInfiniBand(far); err != nil {
		t.Errorf("any network device serves: %v", err)
	}
	if g, p, ok := m.FindMIG("MIG-y"); !ok || g.UUID != "GPU-b" || p.Memory != 40<<30 {
		t.Errorf("%v %v", g, p)
	}
	if g, p, ok := m.FindMIG("MIG-GPU-b/1/0"); !ok || g.UUID != "GPU-b" || p.UUID != "MIG-x" {
		t.Errorf("%v %v", g, p)
	}
	for _, name := range []string{"", "MIG-z", "MIG-GPU-b/3/0", "GPU-b"} {
		if _, p, ok := m.FindMIG(name); ok {
			t.Errorf("%q is %v", name, p)
		}
	}
	tree := m.Tree()
	for _, want := range []string{"GPU-a 80.0 GiB\n", "part 0 MIG-x 10.0 GiB, part 1 MIG-y 40.0 GiB",
		"GPU-c 80.0 GiB, MIG without an instance", "0000:ff:00.0 GPU 8 GPU-far"} {
		if !strings.Contains(tree, want) {
			t.Errorf("no %q in\n%s", want, tree)
		}
	}
	if _,
		err := topology.Read(topology.Config{Root: root,
		Driver: fakeDriver{err: errors.New("driver is asleep")}}); err == nil ||
		!strings.Contains(err.Error(), "driver is asleep") {
		t.Errorf("%v", err)
	}
}
