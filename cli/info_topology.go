package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.millstream.dev/internal/device/nvml"
	"go.millstream.dev/internal/device/topology"
)

// topologyReport is the output of `millstream info --topology --json`.
type topologyReport struct {
	Online  string            `json:"processors_online"`
	Allowed string            `json:"processors_allowed"`
	GPUs    []gpuNeighborhood `json:"gpus"`
}

// gpuNeighborhood describes what is close to one GPU.
type gpuNeighborhood struct {
	Address   string `json:"address"`
	UUID      string `json:"uuid,omitempty"`
	Memory    int64  `json:"memory,omitempty"`
	Node      int    `json:"numa_node"`
	Affinity  string `json:"affinity"`
	NetDevice string `json:"net_device,omitempty"`
	Distance  string `json:"distance,omitempty"`
	// Note is the reason if there is no network device.
	Note string `json:"note,omitempty"`
	// MIG are the MIG instances of the GPU.
	MIG []migReport `json:"mig,omitempty"`
}

type migReport struct {
	UUID   string `json:"uuid"`
	Name   string `json:"name,omitempty"`
	Memory int64  `json:"memory"`
}

// driverGPUs are the GPUs of the NVIDIA driver as a topology.Driver.
type driverGPUs struct{ *nvml.Library }

// GPUs implements topology.Driver.
func (d driverGPUs) GPUs() ([]topology.DriverGPU, error) {
	list, err := d.Library.GPUs()
	if err != nil {
		return nil, err
	}
	out := make([]topology.DriverGPU, len(list))
	for i, g := range list {
		out[i] = topology.DriverGPU{Address: g.Address, UUID: g.UUID, Model: g.Name, Memory: g.Memory,
			NVLinks: g.NVLinks, MIGEnabled: g.MIGEnabled}
		for _, m := range g.MIG {
			out[i].MIG = append(out[i].MIG, topology.MIG(m))
		}
	}
	return out, nil
}

// readMachine reads the topology of this machine, with NVML if it is available, else from the kernel.
func readMachine() (*topology.Machine, error) {
	library, err := nvml.Open()
	if err != nil {
		return topology.Read(topology.Config{})
	}
	defer library.Close()
	m, err := topology.Read(topology.Config{Driver: driverGPUs{library}})
	if err != nil { // the driver does not respond
		return topology.Read(topology.Config{})
	}
	return m, nil
}

// writeTopology prints the topology of this machine.
func writeTopology(w io.Writer, asJSON bool) error {
	m, err := readMachine()
	if err != nil {
		return err
	}
	r := topologyReport{Online: m.Online.String(), Allowed: m.Allowed.String(), GPUs: []gpuNeighborhood{}}
	for _, g := range m.GPUs {
		n := gpuNeighborhood{Address: g.Address, UUID: g.UUID, Memory: g.Memory, Node: g.Node,
			Affinity: m.Affinity(g).String()}
		for _, p := range g.MIG {
			n.MIG = append(n.MIG, migReport{p.UUID, p.Name, p.Memory})
		}
		nic, device, err := m.ClosestInfiniBand(g)
		if err != nil {
			n.Note = strings.TrimPrefix(err.Error(), "topology: ")
			if !slices.ContainsFunc(m.NICs, func(n *topology.NIC) bool { return n.InfiniBand }) {
				n.Note = "no InfiniBand on this machine"
			}
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
