package topology_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/internal/device/topology"
)

// build makes a sysfs out of testdata/NAME.tree and returns its root.
func build(t testing.TB, name string) string {
	t.Helper()
	return makeTree(t, name).root
}

// makeTree reads a tree. Each line is one thing:
//
//	online CPUS
//	node ID CPUS KILOBYTES
//	pci PATH CLASS VENDOR DEVICE NODE CPUS|-
//	gpu ADDRESS UUID MODEL…
//	ib NAME ADDRESS INTERFACE STATE LINK RATE…
//	net NAME ADDRESS|- [STATE]
func makeTree(t testing.TB, name string) *builder {
	t.Helper()
	root := t.TempDir()
	file, err := os.Open(filepath.Join("testdata", name+".tree"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b := &builder{t: t, root: root, at: map[string]string{}}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		switch f[0] {
		case "online":
			b.write("sys/devices/system/cpu/online", f[1])
			b.online = b.cpus(f[1])
		case "node":
			dir := "sys/devices/system/node/node" + f[1]
			b.write(dir+"/cpulist", f[2])
			b.node(f[1], f[2])
			b.write(dir+"/meminfo", fmt.Sprintf("Node %s MemTotal:       %s kB\nNode %s MemFree: 1 kB", f[1], f[3],
				f[1]))
		case "pci":
			b.pci(f[1:])
		case "gpu":
			b.write("proc/driver/nvidia/gpus/"+f[1]+"/information", fmt.Sprintf("Model: \t\t %s\nIRQ:   \t\t 89\nGPU "+
				"UUID: \t %s\nBus Location: \t %s", strings.Join(f[3:], " "), f[2], f[1]))
		case "ib":
			b.infiniband(f[1:])
		case "net":
			state := "up"
			if len(f) > 3 {
				state = f[3]
			}
			b.net(f[1], f[2], state)
		default:
			t.Fatalf("%s.tree: %q", name, lines.Text())
		}
	}
	return b
}

type builder struct {
	t      testing.TB
	root   string
	at     map[string]string // PCI address → folder
	online topology.CPUSet
	nodes  []topology.Node
	paths  [][]string // of PCI devices, from the host bridge down
}

func (b *builder) write(name, text string) {
	b.t.Helper()
	full := filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text+"\n"), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *builder) link(name, target string) {
	b.t.Helper()
	full := filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		b.t.Fatal(err)
	}
	to, err := filepath.Rel(filepath.Dir(full), filepath.Join(b.root, target))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.Symlink(to, full); err != nil {
		b.t.Fatal(err)
	}
}

// pci makes a device and the bridges above it.
func (b *builder) pci(f []string) {
	parts := strings.Split(f[0], "/")
	b.paths = append(b.paths, parts)
	for i := 1; i < len(parts); i++ {
		address, dir := parts[i], "sys/devices/"+strings.Join(parts[:i+1], "/")
		if b.at[address] != "" {
			continue
		}
		b.at[address] = dir
		class, vendor, device := "0x060400", "0x10b5", "0x8796" // a bridge
		if i == len(parts)-1 {
			class, vendor, device = f[1], f[2], f[3]
		}
		b.write(dir+"/class", class)
		b.write(dir+"/vendor", vendor)
		b.write(dir+"/device", device)
		b.write(dir+"/numa_node", f[4])
		if f[5] != "-" {
			b.write(dir+"/local_cpulist", f[5])
			b.write(dir+"/local_cpus", mask(b.cpus(f[5])))
		}
		b.link("sys/bus/pci/devices/"+address, dir)
	}
}

func (b *builder) infiniband(f []string) {
	dir := b.at[f[1]] + "/infiniband/" + f[0]
	b.write(dir+"/ports/1/state", map[string]string{"ACTIVE": "4: ACTIVE", "DOWN": "1: DOWN"}[f[3]])
	b.write(dir+"/ports/1/link_layer", f[4])
	b.write(dir+"/ports/1/rate", strings.Join(f[5:], " "))
	b.link(dir+"/device", b.at[f[1]])
	b.link("sys/class/infiniband/"+f[0], dir)
	b.net(f[2], f[1], "up")
}

func (b *builder) net(name, address, state string) {
	dir := "sys/devices/virtual/net/" + name
	if address != "-" {
		dir = b.at[address] + "/net/" + name
	}
	b.write(dir+"/ifindex", "7")
	b.write(dir+"/operstate", state)
	if address != "-" {
		b.link(dir+"/device", b.at[address])
	}
	b.link("sys/class/net/"+name, dir)
}

// machines are those that have been read: they do not change, and a tree is hundreds of files.
var machines = map[string]*topology.Machine{}

func read(t testing.TB, name string) *topology.Machine {
	t.Helper()
	if m := machines[name]; m != nil {
		return m
	}
	all, err := topology.ParseCPUList("0-511")
	if err != nil {
		t.Fatal(err)
	}
	m, err := topology.Read(topology.Config{Root: build(t, name), Allowed: &all})
	if err != nil {
		t.Fatal(err)
	}
	machines[name] = m
	return m
}
