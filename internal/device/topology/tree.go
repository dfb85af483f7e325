package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Tree returns a drawing of the machine: nodes, their host bridges, and below them GPUs and network devices with the
// bridges that lead to them.
func (m *Machine) Tree() string {
	var text strings.Builder
	fmt.Fprintf(&text, "machine: %d processors, %d of them for this process (%s)\n", m.Online.Len(), m.Allowed.Len(),
		orNone(m.Allowed.String()))
	for _, n := range m.Nodes {
		fmt.Fprintf(&text, "node %d: processors %s, %s\n", n.ID, orNone(n.CPUs.String()), gib(n.Memory))
		m.branches(&text, n.ID)
	}
	m.branches(&text, -1)
	var others []string
	for _, n := range m.NICs {
		if n.Device == nil {
			others = append(others, n.describe())
		}
	}
	if len(others) > 0 {
		fmt.Fprintf(&text, "not on the PCI bus: %s\n", strings.Join(others, ", "))
	}
	return text.String()
}

// branches draws the devices of one node, -1 for those without one.
func (m *Machine) branches(text *strings.Builder, node int) {
	leaves := map[string][]string{} // text for each PCI address
	var shown []*Device
	add := func(d *Device, line string) {
		own := d.Node
		if m.node(own) == nil {
			own = -1
		}
		if own != node {
			return
		}
		if leaves[d.Address] == nil {
			shown = append(shown, d)
		}
		leaves[d.Address] = append(leaves[d.Address], line)
	}
	for _, g := range m.GPUs {
		add(g.Device, fmt.Sprintf("GPU %d %s", g.Index, g.describe()))
	}
	for _, n := range m.NICs {
		if n.Device != nil {
			add(n.Device, n.describe())
		}
	}
	if len(shown) == 0 {
		return
	}
	if node < 0 {
		text.WriteString("node unknown\n")
	}
	slices.SortFunc(shown, func(a, b *Device) int { return slices.Compare(a.Path, b.Path) })
	var last []string
	for _, d := range shown {
		depth := 0
		for depth < min(len(last), len(d.Path)) && last[depth] == d.Path[depth] {
			depth++
		}
		for ; depth < len(d.Path); depth++ {
			line := d.Path[depth]
			if depth == len(d.Path)-1 {
				line += " " + strings.TrimSpace(strings.Join(leaves[d.Address], ", "))
			}
			fmt.Fprintf(text, "%s%s\n", strings.Repeat("  ", depth+1), line)
		}
		last = d.Path
	}
}

// describe returns a description of a GPU, followed by its instances.
func (g *GPU) describe() string {
	text := strings.TrimSpace(g.Model + " " + g.UUID)
	if g.Memory > 0 {
		text += " " + gib(g.Memory)
	}
	if g.NVLinks > 0 {
		text += fmt.Sprintf(", %d NVLinks up", g.NVLinks)
	}
	if !g.MIGEnabled {
		return text
	}
	if len(g.MIG) == 0 {
		return text + ", MIG without an instance: nothing can run on it"
	}
	for _, p := range g.MIG {
		text += fmt.Sprintf(", part %d %s %s", p.Index, p.UUID, gib(p.Memory))
	}
	return text
}

func (n *NIC) describe() string {
	if !n.InfiniBand {
		if n.Up {
			return n.Name
		}
		return n.Name + " (down)"
	}
	ports := make([]string, len(n.Ports))
	for i, p := range n.Ports {
		ports[i] = strings.TrimSpace(fmt.Sprintf("port %d %s %s", p.Number, p.State, p.Rate))
	}
	return fmt.Sprintf("%s (%s)", n.Name, orNone(strings.Join(ports, ", ")))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func gib(n int64) string {
	if n == 0 {
		return "no memory"
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
