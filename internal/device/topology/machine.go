package topology

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Config specifies where a machine is read from. The zero value is this machine.
type Config struct {
	// Root is a directory with sys and proc, "/" by default: a container has those of its host under another name, and
	// tests use trees of other machines.
	Root string
	// Allowed, if not nil, replaces the processors that this process may use. Default: queried from the kernel.
	Allowed *CPUSet
	// Driver, if not nil, provides information that the kernel does not have: memory and MIG.
	Driver Driver
}

// Node is a NUMA node.
type Node struct {
	ID     int
	CPUs   CPUSet
	Memory int64 // bytes
}

// Machine is the description of a machine. It is immutable.
type Machine struct {
	Nodes   []Node
	Online  CPUSet // processors that the machine has
	Allowed CPUSet // those that this process may use
	GPUs    []*GPU // in the order of their PCI addresses, which is that of CUDA_DEVICE_ORDER=PCI_BUS_ID
	NICs    []*NIC // network interfaces and InfiniBand devices, in the order of their names

	devices map[string]*Device // by PCI address
}

// Read reads a machine. Missing parts, such as InfiniBand, are empty; it returns an error if there is no sysfs or it is
// inconsistent.
func Read(cfg Config) (*Machine, error) {
	if cfg.Root == "" {
		cfg.Root = "/"
	}
	fs := files{cfg.Root}
	m := &Machine{devices: map[string]*Device{}}
	var err error
	if m.Online, err = ParseCPUList(fs.text("sys/devices/system/cpu/online")); err != nil {
		return nil, fmt.Errorf("topology: processors online: %w", err)
	}
	if m.Online.Len() == 0 {
		return nil, fmt.Errorf("topology: %s has no sys/devices/system/cpu/online: mount sysfs there", cfg.Root)
	}
	m.Allowed = m.Online
	if cfg.Allowed != nil {
		m.Allowed = cfg.Allowed.And(m.Online)
	} else if own, err := allowed(); err == nil {
		m.Allowed = own.And(m.Online)
	}
	if err := m.readNodes(fs); err != nil {
		return nil, err
	}
	if err := m.readDevices(fs); err != nil {
		return nil, err
	}
	m.readGPUs(fs)
	m.readNICs(fs)
	if cfg.Driver != nil {
		if err := m.ask(cfg.Driver); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Machine) readNodes(fs files) error {
	for _, name := range fs.list("sys/devices/system/node") {
		digits, ok := strings.CutPrefix(name, "node")
		id, err := strconv.Atoi(digits)
		if !ok || err != nil {
			continue
		}
		dir := "sys/devices/system/node/" + name
		cpus, err := ParseCPUList(fs.text(dir + "/cpulist"))
		if err != nil {
			return fmt.Errorf("topology: node %d: %w", id, err)
		}
		m.Nodes = append(m.Nodes, Node{ID: id, CPUs: cpus, Memory: memTotal(fs.text(dir + "/meminfo"))})
	}
	slices.SortFunc(m.Nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	if len(m.Nodes) == 0 { // a kernel without NUMA
		m.Nodes = []Node{{CPUs: m.Online, Memory: memTotal(fs.text("proc/meminfo"))}}
	}
	return nil
}

// memTotal parses "MemTotal: 123 kB" from the kernel's text.
func memTotal(text string) int64 {
	_, rest, ok := strings.Cut(text, "MemTotal:")
	if !ok {
		return 0
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || kb < 0 || kb > 1<<50 {
		return 0
	}
	return kb << 10
}

// node returns the node with an id, or nil.
func (m *Machine) node(id int) *Node {
	for i := range m.Nodes {
		if m.Nodes[i].ID == id {
			return &m.Nodes[i]
		}
	}
	return nil
}

// files reads small files below a root.
type files struct{ root string }

// maxFile bounds the size of a file: files of sysfs are at most a page long, few of proc are longer.
const maxFile = 1 << 20

// text returns a file's trimmed text, or "" if it cannot be read.
func (f files) text(name string) string {
	file, err := os.Open(filepath.Join(f.root, name))
	if err != nil {
		return ""
	}
	defer file.Close()
	buf := make([]byte, 0, 4096)
	for len(buf) < maxFile {
		buf = slices.Grow(buf, 4096)
		n, err := file.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil || n == 0 {
			break
		}
	}
	return strings.TrimSpace(string(buf))
}

// list returns the names in a directory, in order; none if it does not exist.
func (f files) list(name string) []string {
	entries, err := os.ReadDir(filepath.Join(f.root, name))
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// number parses a file with a number in decimal or, with 0x, in hexadecimal.
func (f files) number(name string, otherwise int64) int64 {
	n, err := strconv.ParseInt(f.text(name), 0, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// target returns the target of a link, as a path below the root.
func (f files) target(name string) (string, error) {
	real, err := filepath.EvalSymlinks(filepath.Join(f.root, name))
	if err != nil {
		return "", err
	}
	root, err := filepath.EvalSymlinks(f.root)
	if err != nil {
		return "", err
	}
	below, err := filepath.Rel(root, real)
	if err != nil || strings.HasPrefix(below, "..") {
		return "", errors.Join(fmt.Errorf("%s leads out of %s", name, f.root), err)
	}
	return below, nil
}
