package topology_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.millstream.dev/internal/device/topology"
)

// What hwloc reads of a machine and package topology does not: masks beside lists, cores and sockets,
// and the bus numbers in the configuration of bridges, from which hwloc makes its tree. All of it
// follows from what a tree says, so both read the same machine.

// buildForHwloc is build with all of it.
func buildForHwloc(t testing.TB, name string) string {
	t.Helper()
	b := makeTree(t, name)
	b.processors()
	b.buses()
	return b.root
}

// cpus reads a list.
func (b *builder) cpus(list string) topology.CPUSet {
	b.t.Helper()
	set, err := topology.ParseCPUList(list)
	if err != nil {
		b.t.Fatal(err)
	}
	return set
}

// mask is the kernel's form of a set: words of 32 bits in hexadecimal, the highest first.
func mask(set topology.CPUSet) string {
	words := make([]uint32, 8)
	for _, i := range set.List() {
		for i/32 >= len(words) {
			words = append(words, 0)
		}
		words[i/32] |= 1 << (i % 32)
	}
	slices.Reverse(words)
	text := make([]string, len(words))
	for i, w := range words {
		text[i] = fmt.Sprintf("%08x", w)
	}
	return strings.Join(text, ",")
}

func (b *builder) node(id, cpus string) {
	b.t.Helper()
	n, err := strconv.Atoi(id)
	if err != nil {
		b.t.Fatal(err)
	}
	set := b.cpus(cpus)
	b.nodes = append(b.nodes, topology.Node{ID: n, CPUs: set})
	b.write("sys/devices/system/node/node"+id+"/cpumap", mask(set))
}

// processors describes cores. Two threads of one core are as far apart as half of all processors, as on
// machines of this kind; nodes of one socket follow each other.
func (b *builder) processors() {
	all := b.online.List()
	perSocket := (len(b.nodes) + 1) / 2
	var ids []string
	for i, n := range b.nodes {
		ids = append(ids, strconv.Itoa(n.ID))
		b.write(fmt.Sprintf("sys/devices/system/node/node%d/distance", n.ID), distances(len(b.nodes), i))
	}
	b.write("sys/devices/system/node/online", strings.Join(ids, ","))
	b.write("sys/devices/system/cpu/possible", fmt.Sprintf("0-%d", all[len(all)-1]))
	half := len(all) / 2
	for _, cpu := range all {
		socket := 0
		for i, n := range b.nodes {
			if n.CPUs.Has(cpu) {
				socket = i / perSocket
			}
		}
		var all []int
		for i, n := range b.nodes {
			if i/perSocket == socket {
				all = append(all, n.CPUs.List()...)
			}
		}
		sockets := topology.CPUs(all...)
		core := cpu % half
		threads := topology.CPUs(core, core+half)
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
		b.write(dir+"online", "1")
		b.write(dir+"topology/core_id", strconv.Itoa(core))
		b.write(dir+"topology/physical_package_id", strconv.Itoa(socket))
		b.write(dir+"topology/thread_siblings", mask(threads))
		b.write(dir+"topology/core_cpus", mask(threads))
		b.write(dir+"topology/core_siblings", mask(sockets))
		b.write(dir+"topology/package_cpus", mask(sockets))
	}
}

// distances are the line of one node: 10 to itself, 20 to others.
func distances(n, own int) string {
	line := make([]string, n)
	for i := range line {
		line[i] = "20"
		if i == own {
			line[i] = "10"
		}
	}
	return strings.Join(line, " ")
}

// bus is the number of the bus that a device is on.
func (b *builder) bus(address string) int {
	b.t.Helper()
	n, err := strconv.ParseInt(strings.Split(address, ":")[1], 16, 32)
	if err != nil {
		b.t.Fatal(err)
	}
	return int(n)
}

// buses writes the configuration of every device. A bridge's has the bus right below it and the last one
// below it; a tree in which these overlap could not be a machine, and is refused.
func (b *builder) buses() {
	b.t.Helper()
	first, last := map[string]int{}, map[string]int{}
	for _, path := range b.paths {
		for i := 1; i < len(path)-1; i++ {
			bridge, below := path[i], b.bus(path[i+1])
			if known, ok := first[bridge]; ok && known != below {
				b.t.Fatalf("bridge %s leads to bus %02x and to bus %02x", bridge, known, below)
			}
			first[bridge] = below
			for _, deeper := range path[i+1:] {
				last[bridge] = max(last[bridge], b.bus(deeper))
			}
		}
	}
	for address, dir := range b.at {
		header := make([]byte, 256)
		number := func(name string) uint64 {
			text, err := os.ReadFile(filepath.Join(b.root, dir, name))
			if err != nil {
				b.t.Fatal(err)
			}
			n, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(string(text)), "0x"), 16, 32)
			if err != nil {
				b.t.Fatal(err)
			}
			return n
		}
		binary.LittleEndian.PutUint16(header[0x00:], uint16(number("vendor")))
		binary.LittleEndian.PutUint16(header[0x02:], uint16(number("device")))
		binary.LittleEndian.PutUint32(header[0x08:], uint32(number("class"))<<8)
		if below, ok := first[address]; ok {
			header[0x0e] = 1 // a bridge's header
			header[0x18], header[0x19], header[0x1a] = byte(b.bus(address)), byte(below), byte(last[address])
		}
		if err := os.WriteFile(filepath.Join(b.root, dir, "config"), header, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}
