package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"go.millstream.dev/topology"
)

// topologyReport is what `millstream info --topology --json` prints.
type topologyReport struct {
	Online  string              `json:"processors_online"`
	Allowed string              `json:"processors_allowed"`
	GPUs    []gpuNeighbourhoods `json:"gpus"`
}

// gpuNeighbourhoods is what lies next to one GPU.
type gpuNeighbourhoods struct {
	Address   string `json:"address"`
	UUID      string `json:"uuid,omitempty"`
	Node      int    `json:"numa_node"`
	Affinity  string `json:"affinity"`
	NetDevice string `json:"net_device,omitempty"`
	Distance  string `json:"distance,omitempty"`
	// Note says why there is no net device.
	Note string `json:"note,omitempty"`
}

// writeTopology prints how this machine's devices are wired.
func writeTopology(w io.Writer, asJSON bool) error {
	m, err := topology.Read(topology.Config{})
	if err != nil {
		return err
	}
	r := topologyReport{Online: m.Online.String(), Allowed: m.Allowed.String(), GPUs: []gpuNeighbourhoods{}}
	for _, g := range m.GPUs {
		n := gpuNeighbourhoods{Address: g.Address, UUID: g.UUID, Node: g.Node, Affinity: m.Affinity(g).String()}
		nic, device, err := m.ClosestInfiniBand(g)
		if err != nil {
			n.Note = err.Error()
		} else {
			n.NetDevice, n.Distance = device, topology.Between(g.Device, nic.Device).Level.String()
		}
		r.GPUs = append(r.GPUs, n)
	}
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	fmt.Fprint(w, m.Tree())
	for i, g := range r.GPUs {
		if g.Note != "" {
			fmt.Fprintf(w, "GPU %d: processors %s; %s\n", i, g.Affinity, g.Note)
			continue
		}
		fmt.Fprintf(w, "GPU %d: processors %s, network device %s (%s)\n", i, g.Affinity, g.NetDevice, g.Distance)
	}
	return nil
}
