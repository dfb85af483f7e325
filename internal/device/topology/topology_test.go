package topology_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/internal/device/topology"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The nearest InfiniBand device, its distance and the processors of each GPU, as
// `nvidia-smi topo -m` of such machines says.
func TestClosest(t *testing.T) {
	for name, want := range map[string][]string{
		"dgx-a100": {
			"0000:07:00.0 mlx5_0:1 PXB 48-63,176-191", "0000:0f:00.0 mlx5_1:1 PXB 48-63,176-191",
			"0000:47:00.0 mlx5_2:1 PXB 16-31,144-159", "0000:4e:00.0 mlx5_3:1 PXB 16-31,144-159",
			"0000:87:00.0 mlx5_6:1 PXB 112-127,240-255", "0000:90:00.0 mlx5_7:1 PXB 112-127,240-255",
			"0000:b7:00.0 mlx5_8:1 PXB 80-95,208-223", "0000:bd:00.0 mlx5_9:1 PXB 80-95,208-223",
		},
		"dgx-h100": {
			"0000:1b:00.0 mlx5_0:1 PIX 0-55,112-167", "0000:43:00.0 mlx5_3:1 PIX 0-55,112-167",
			"0000:52:00.0 mlx5_4:1 PIX 0-55,112-167", "0000:61:00.0 mlx5_5:1 PIX 0-55,112-167",
			"0000:9d:00.0 mlx5_6:1 PIX 56-111,168-223", "0000:c3:00.0 mlx5_9:1 PIX 56-111,168-223",
			"0000:d1:00.0 mlx5_10:1 PIX 56-111,168-223", "0000:df:00.0 mlx5_11:1 PIX 56-111,168-223",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := read(t, name)
			var got []string
			for i, g := range m.GPUs {
				nic, device, err := m.ClosestInfiniBand(g)
				if err != nil {
					t.Fatal(err)
				}
				if g.Index != i || g.UUID == "" || !strings.HasPrefix(g.Model, "NVIDIA ") {
					t.Errorf("GPU %d: %+v", i, g)
				}
				got = append(got, fmt.Sprintln(g.Address, device, topology.Between(g.Device, nic.Device).Level,
					m.Affinity(g)))
			}
			if g, w := strings.Join(got, ""), strings.Join(want, "\n")+"\n"; g != w {
				t.Errorf("got\n%swant\n%s", g, w)
			}
		})
	}
}

func TestNoInfiniBand(t *testing.T) {
	m := read(t, "two-gpus")
	if len(m.GPUs) != 2 {
		t.Fatalf("%d GPUs: the display of the board and sound are none", len(m.GPUs))
	}
	if _, _, err := m.ClosestInfiniBand(m.GPUs[0]); err == nil ||
		!strings.Contains(err.Error(), "/sys/class/infiniband is empty") {
		t.Errorf("no InfiniBand: %v", err)
	}
	// The firmware says nothing of the second: all processors are as good.
	if a := m.Affinity(m.GPUs[1]); a.String() != "0-31" || m.GPUs[1].UUID != "" || m.GPUs[1].Node != -1 {
		t.Errorf("the second GPU: %s, %+v", a, m.GPUs[1])
	}
	if m.Nodes[1].Memory != 66047872<<10 {
		t.Errorf("node 1 has %d bytes", m.Nodes[1].Memory)
	}
	eno1, _ := m.NIC("eno1")
	eno2, _ := m.NIC("eno2")
	if !eno1.Up || eno2.Up || eno1.InfiniBand {
		t.Errorf("%+v %+v", eno1, eno2)
	}
	if d := topology.Between(eno1.Device, eno2.Device); d.Level != topology.SamePort {
		t.Errorf("two functions of a card are %v apart", d)
	}
	if d := topology.Between(m.GPUs[0].Device, eno1.Device); d.Level != topology.SameNode {
		t.Errorf("one node, two bridges: %v", d)
	}
	if d := topology.Between(m.GPUs[1].Device, eno1.Device); d.Level != topology.System {
		t.Errorf("nobody knows: %v", d)
	}
	lo, _ := m.NIC("lo")
	if d := topology.Between(m.GPUs[0].Device, lo.Device); d.Level != topology.System || lo.Device != nil {
		t.Errorf("the loopback is %v away", d)
	}
	if d := topology.Between(m.GPUs[0].Device, m.GPUs[0].Device); d != (topology.Distance{}) {
		t.Errorf("a device is %v from itself", d)
	}
}

// With one node there is no doubt about where a device is.
func TestOneNode(t *testing.T) {
	m := read(t, "vm")
	eth0, _ := m.NIC("eth0")
	if len(m.GPUs) != 1 || m.GPUs[0].Node != 0 || m.Affinity(m.GPUs[0]).String() != "0-15" || m.GPUs[0].NVLinks != -1 {
		t.Errorf("%+v", m.GPUs)
	}
	if d := topology.Between(m.GPUs[0].Device, eth0.Device); d.Level != topology.SameBridge {
		t.Errorf("%v apart", d)
	}
}

// Ports that are down are passed over, the next nearest serves; without any, all are named.
func TestPortsDown(t *testing.T) {
	root := build(t, "dgx-h100")
	down := func(name string) {
		if err := os.WriteFile(filepath.Join(root, "sys/class/infiniband", name, "ports/1/state"), []byte("1: DOWN\n"),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	down("mlx5_0")
	m, err := topology.Read(topology.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	nic, device, err := m.ClosestInfiniBand(m.GPUs[0])
	if err != nil || device != "mlx5_3:1" || topology.Between(m.GPUs[0].Device, nic.Device).Level != topology.SameNode {
		t.Errorf("next nearest: %s, %v", device, err)
	}
	if w := m.CheckInterface(nic, "ibp64s0"); w != "" {
		t.Errorf("the right interface: %s", w)
	}
	if w := m.CheckInterface(nic, "eth0"); !strings.Contains(w, "mlx5_3 is not behind --interface eth0") ||
		!strings.Contains(w, "use --interface ibp64s0") {
		t.Errorf("the wrong interface: %s", w)
	}
	for _, n := range m.NICs {
		if n.InfiniBand {
			down(n.Name)
		}
	}
	if m, err = topology.Read(topology.Config{Root: root}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.ClosestInfiniBand(m.GPUs[0]); err == nil ||
		!strings.Contains(err.Error(), "mlx5_0:1 (DOWN), mlx5_1:1 (DOWN)") {
		t.Errorf("all down: %v", err)
	}
}

// The processors near a GPU are cut down to those that the process may use, and widened to
// all of these when none is near.
func TestAffinityAllowed(t *testing.T) {
	root := build(t, "dgx-h100")
	for _, c := range []struct{ allowed, want string }{{"0-3,60", "60"}, {"0-3", "0-3"}, {"0-500", "56-111,168-223"}} {
		allowed, err := topology.ParseCPUList(c.allowed)
		if err != nil {
			t.Fatal(err)
		}
		m, err := topology.Read(topology.Config{Root: root, Allowed: &allowed})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Affinity(m.GPUs[7]); got.String() != c.want {
			t.Errorf("allowed %s: %s, want %s", c.allowed, got, c.want)
		}
	}
}

func TestFindGPU(t *testing.T) {
	m := read(t, "dgx-a100")
	for name, index := range map[string]int{"0000:0f:00.0": 1, "00000000:0F:00.0": 1,
		"GPU-00000003-aaaa-bbbb-cccc-dddddddddddd": 3, "GPU-00000004": 4, "GPU-0000": -1, "": -1, "GPU-9": -1,
		"0000:99:00.0": -1} {
		g, ok := m.GPU(name)
		if ok != (index >= 0) || ok && g.Index != index {
			t.Errorf("%q is %v %v", name, g, ok)
		}
	}
	if d, ok := m.Device("00000000:4B:00.0"); !ok || d.Vendor != 0x15b3 || d.Node != 1 {
		t.Errorf("a device: %+v", d)
	}
}

func TestTree(t *testing.T) {
	for _, name := range []string{"dgx-a100", "dgx-h100", "two-gpus", "vm"} {
		got := read(t, name).Tree()
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || got != string(want) {
			t.Errorf("%s (-update writes it): %v\ngot\n%s", name, err, got)
		}
	}
}

// This machine can be read, and is not empty.
func TestThisMachine(t *testing.T) {
	m, err := topology.Read(topology.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Allowed.Len() == 0 || m.Online.Len() < m.Allowed.Len() || len(m.Nodes) == 0 || m.Nodes[0].Memory == 0 {
		t.Errorf("%s", m.Tree())
	}
	if lo, ok := m.NIC("lo"); !ok || !lo.Up {
		t.Errorf("no loopback: %s", m.Tree())
	}
}

func TestBroken(t *testing.T) {
	if _, err := topology.Read(topology.Config{Root: t.TempDir()}); err == nil ||
		!strings.Contains(err.Error(), "mount sysfs") {
		t.Errorf("nothing there: %v", err)
	}
	for file, text := range map[string]string{"sys/devices/system/cpu/online": "0-",
		"sys/devices/system/node/node1/cpulist": "5-3", "sys/bus/pci/devices/0000:17:00.0/local_cpulist": "0-99999"} {
		root := build(t, "two-gpus")
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := topology.Read(topology.Config{Root: root}); err == nil ||
			!strings.Contains(err.Error(), "not a list of processors") {
			t.Errorf("%s: %v", file, err)
		}
	}
	root := build(t, "two-gpus")
	link := filepath.Join(root, "sys/bus/pci/devices/0000:99:00.0")
	if err := os.Symlink("/proc", link); err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Read(topology.Config{Root: root}); err == nil ||
		!strings.Contains(err.Error(), "leads out of") {
		t.Errorf("a link out of the tree: %v", err)
	}
}
