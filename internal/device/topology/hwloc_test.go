package topology_test

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.millstream.dev/internal/device/topology"
)

// lstopo is hwloc's program: `make hwloc` fetches it and writes testdata/NAME.hwloc anew with it.
var lstopo = flag.String("lstopo", "", "hwloc's lstopo-no-graphics, to write the expected answers anew")

// hwlocCommand is how it is asked; the tree's folder comes behind --input.
var hwlocCommand = []string{"--if", "fsroot", "--whole-io", "--of", "xml", "-f", "-"}

// TestHwloc compares with what hwloc makes of the same trees: the bridges above each GPU and network card,
// the processors next to them, the nodes with their processors and memory, and which interface is on which card.
func TestHwloc(t *testing.T) {
	for _, name := range []string{"dgx-a100", "dgx-h100", "two-gpus", "vm"} {
		t.Run(name, func(t *testing.T) {
			golden := filepath.Join("testdata", name+".hwloc")
			if *lstopo != "" {
				if err := os.WriteFile(golden, askHwloc(t, name), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.Lines(string(text)) {
				if !strings.HasPrefix(line, "#") {
					want = append(want, strings.TrimSpace(line))
				}
			}
			if got := asHwloc(read(t, name)); !slices.Equal(got, want) {
				t.Errorf("got\n%s\nhwloc says\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// asHwloc writes what we read in the lines of the expected answers, sorted.
func asHwloc(m *topology.Machine) []string {
	var lines []string
	for _, n := range m.Nodes {
		lines = append(lines, fmt.Sprintf("node %d %s %d", n.ID, n.CPUs, n.Memory))
	}
	named := map[string][]string{}
	devices := map[string]*topology.Device{}
	for _, g := range m.GPUs {
		devices[g.Address] = g.Device
	}
	for _, n := range m.NICs {
		if n.Device != nil {
			devices[n.Device.Address] = n.Device
			named[n.Device.Address] = append(named[n.Device.Address], n.Name)
		}
	}
	for address, d := range devices {
		lines = append(lines, deviceLine(d.Path[1:], d.CPUs, named[address]))
	}
	slices.Sort(lines)
	return lines
}

// deviceLine is one device: the way to it, the processors next to it, and the names that it has.
func deviceLine(path []string, cpus topology.CPUSet, names []string) string {
	slices.Sort(names)
	return strings.TrimSpace(fmt.Sprintf("device %s %s %s", strings.Join(path, "/"), cpus, strings.Join(names, " ")))
}

// hwlocObject is an element of hwloc's XML.
type hwlocObject struct {
	Type     string        `xml:"type,attr"`
	Bus      string        `xml:"pci_busid,attr"`
	PCIType  string        `xml:"pci_type,attr"`
	Index    int           `xml:"os_index,attr"`
	Name     string        `xml:"name,attr"`
	CPUs     string        `xml:"cpuset,attr"`
	Memory   int64         `xml:"local_memory,attr"`
	Children []hwlocObject `xml:"object"`
}

// askHwloc runs lstopo on a tree and returns the expected answers.
func askHwloc(t *testing.T, name string) []byte {
	t.Helper()
	version, err := exec.Command(*lstopo, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(*lstopo, append([]string{"--input", buildForHwloc(t, name)}, hwlocCommand...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Objects []hwlocObject `xml:"object"`
	}
	decoder := xml.NewDecoder(bytes.NewReader(out))
	decoder.Strict = false
	if err := decoder.Decode(&all); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, o := range all.Objects {
		lines = o.lines(t, lines, nil, topology.CPUSet{})
	}
	slices.Sort(lines)
	head := fmt.Sprintf("# Written by `make hwloc`: %s of %s.tree\n# lstopo-no-graphics --input TREE %s\n",
		strings.TrimSpace(string(version)), name, strings.Join(hwlocCommand, " "))
	return []byte(head + strings.Join(lines, "\n") + "\n")
}

// lines walks down; near are the processors of the object that devices hang on.
func (o hwlocObject) lines(t *testing.T, lines, path []string, near topology.CPUSet) []string {
	t.Helper()
	if o.CPUs != "" {
		near = unmask(t, o.CPUs)
	}
	switch {
	case o.Type == "NUMANode":
		lines = append(lines, fmt.Sprintf("node %d %s %d", o.Index, near, o.Memory))
	case o.Type == "Bridge" && o.Bus != "":
		path = append(slices.Clone(path), o.Bus)
	case o.Type == "PCIDev" && wanted(o.PCIType):
		var names []string
		for _, c := range o.Children {
			if c.Type == "OSDev" {
				names = append(names, c.Name)
			}
		}
		lines = append(lines, deviceLine(append(slices.Clone(path), o.Bus), near, names))
	}
	for _, c := range o.Children {
		lines = c.lines(t, lines, path, near)
	}
	return lines
}

// wanted are NVIDIA's GPUs and network cards; pci_type begins with the class and has the vendor in brackets.
func wanted(pciType string) bool {
	gpu := (strings.HasPrefix(pciType, "0302") || strings.HasPrefix(pciType, "0300")) &&
		strings.Contains(pciType, "[10de:")
	return gpu || strings.HasPrefix(pciType, "0200") || strings.HasPrefix(pciType, "0207")
}

// unmask reads hwloc's sets: words of 32 bits, the highest first.
func unmask(t *testing.T, text string) topology.CPUSet {
	t.Helper()
	var list []int
	words := strings.Split(text, ",")
	slices.Reverse(words)
	for i, w := range words {
		if w == "" {
			continue // zero
		}
		v, err := strconv.ParseUint(strings.TrimPrefix(w, "0x"), 16, 32)
		if err != nil {
			t.Fatalf("set %q: %v", text, err)
		}
		for ; v != 0; v &= v - 1 {
			list = append(list, 32*i+bits.TrailingZeros64(v))
		}
	}
	return topology.CPUs(list...)
}

// Sets go through hwloc's form unchanged.
func TestMasks(t *testing.T) {
	for _, list := range []string{"0", "31-32", "0-7,16-23", "48-63,176-191", "0-255"} {
		set, err := topology.ParseCPUList(list)
		if err != nil {
			t.Fatal(err)
		}
		if got := unmask(t, mask(set)); got.String() != list {
			t.Errorf("%s becomes %s", list, got)
		}
	}
}
