package cluster

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.millstream.dev/config"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/topology"
	"go.millstream.dev/worker"
)

// CUDAMachine describes the machine for which Plan plans GPU workers. Plan only reads it.
type CUDAMachine struct {
	// Topology is the topology of the machine as the kernel reports it.
	Topology *topology.Machine
	// Devices are the GPUs that the driver reports to this process, with their memory and UUIDs.
	Devices []cuda.Device
	// Memory is the memory of the machine, or of the container, in bytes.
	Memory int64
	// Env is the environment that workers inherit, as NAME=value.
	Env []string
	// Config is the Dask configuration with the defaults of options; nil for none.
	Config *config.Config
}

// ThisCUDAMachine returns the machine on which this process runs. Without a CUDA driver or a GPU it returns an error
// that wraps cuda.ErrUnavailable.
func ThisCUDAMachine() (CUDAMachine, error) {
	m := CUDAMachine{Memory: worker.SystemMemory(), Env: os.Environ()}
	var err error
	if m.Devices, err = cuda.Devices(); err != nil {
		return m, fmt.Errorf("cluster: GPU workers: %w", err)
	}
	if m.Topology, err = topology.Read(topology.Config{}); err != nil {
		return m, err
	}
	m.Config, err = config.Default()
	return m, err
}

// env returns the value of an environment variable.
func (m *CUDAMachine) env(name string) (string, bool) {
	for _, kv := range slices.Backward(m.Env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// plannedGPU is a resolved entry of the list of devices.
type plannedGPU struct {
	entry      string // as listed
	uuid, name string
	memory     int64 // 0: unknown
	integrated bool
	board      *topology.GPU // nil if the kernel reports none
}

// String returns a description of the GPU.
func (g plannedGPU) String() string {
	name := cmp.Or(g.name, "GPU "+g.entry)
	if g.board != nil {
		name += " " + g.board.Address
	}
	return name
}

// key identifies a GPU independently of the form of its entry.
func (g plannedGPU) key() string {
	switch {
	case g.uuid != "":
		return g.uuid
	case g.board != nil:
		return g.board.Address
	}
	return g.entry
}

// devices returns the GPUs of the list, or those of the machine.
func (m *CUDAMachine) devices(list []string) ([]plannedGPU, error) {
	if len(list) == 0 {
		if visible, ok := m.env("CUDA_VISIBLE_DEVICES"); ok {
			var err error
			if list, err = topology.ParseVisible(visible); err != nil {
				return nil, fmt.Errorf("cluster: %w", err)
			}
			if len(list) == 0 {
				return nil, fmt.Errorf("cluster: CUDA_VISIBLE_DEVICES is empty, which hides all GPUs; unset it, or " +
					"list devices")
			}
		}
	}
	if len(list) == 0 {
		for i := range m.count() {
			list = append(list, strconv.Itoa(i))
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("cluster: GPU workers: %w: neither kernel nor driver "+
			"report an NVIDIA GPU", cuda.ErrUnavailable)
	}
	gpus := make([]plannedGPU, len(list))
	for i, entry := range list {
		var err error
		if gpus[i], err = m.find(strings.TrimSpace(entry)); err != nil {
			return nil, err
		}
	}
	return gpus, nil
}

// count returns the number of GPUs that can be listed by index. If the kernel reports none, as under WSL, it is the
// number that the driver reports.
func (m *CUDAMachine) count() int {
	if n := len(m.Topology.GPUs); n > 0 {
		return n
	}
	return len(m.Devices)
}

// find resolves an entry of the list.
func (m *CUDAMachine) find(entry string) (plannedGPU, error) {
	g := plannedGPU{entry: entry}
	if n, err := strconv.Atoi(entry); err == nil {
		if order, ok := m.env("CUDA_DEVICE_ORDER"); ok && order != "PCI_BUS_ID" {
			return g, fmt.Errorf("cluster: device %s: with CUDA_DEVICE_ORDER=%s an index does not identify a "+
				"GPU; unset it, or list GPUs by UUID (nvidia-smi -L)", entry, order)
		}
		if n < 0 || n >= m.count() {
			return g, m.unknownDevice(entry)
		}
		if len(m.Topology.GPUs) > 0 {
			g.board = m.Topology.GPUs[n]
			g.uuid, g.name = g.board.UUID, g.board.Model
		} else {
			byBus := slices.Clone(m.Devices)
			slices.SortStableFunc(byBus, func(a, b cuda.Device) int { return cmp.Compare(a.PCIBusID, b.PCIBusID) })
			g.setDevice(byBus[n])
		}
		m.addDriverInfo(&g)
		return g, nil
	}
	if !strings.HasPrefix(entry, "GPU-") && !strings.HasPrefix(entry, "MIG-") {
		return g, fmt.Errorf("cluster: device %q is neither the index of a GPU nor a name that begins with "+
			"GPU- or MIG-", entry)
	}
	var ok bool
	if g.board, ok = m.Topology.GPU(entry); ok {
		g.uuid, g.name = g.board.UUID, g.board.Model
		m.addDriverInfo(&g)
		return g, nil
	}
	var found []cuda.Device
	for _, d := range m.Devices {
		if strings.HasPrefix(d.UUID, entry) {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		return g, m.unknownDevice(entry)
	}
	g.setDevice(found[0])
	// The processors next to an instance are those next to its GPU.
	if g.board, ok = m.Topology.GPU(found[0].GPUUUID); !ok {
		g.board, _ = m.Topology.GPU(found[0].PCIBusID)
	}
	return g, nil
}

// setDevice sets the fields that the driver reports.
func (g *plannedGPU) setDevice(d cuda.Device) {
	g.uuid, g.memory, g.integrated = d.UUID, d.TotalMemory, d.Integrated
	g.name = cmp.Or(g.name, d.Name)
}

// addDriverInfo adds the properties that the driver reports for a GPU that the kernel reported.
func (m *CUDAMachine) addDriverInfo(g *plannedGPU) {
	if g.board == nil {
		return
	}
	for _, d := range m.Devices {
		if !d.MIG && (g.uuid != "" && d.UUID == g.uuid || g.uuid == "" &&
			strings.EqualFold(d.PCIBusID, g.board.Address)) {
			g.setDevice(d)
			return
		}
	}
}

// unknownDevice returns the error for a GPU that does not exist. It lists the existing ones.
func (m *CUDAMachine) unknownDevice(entry string) error {
	var have []string
	for i, g := range m.Topology.GPUs {
		have = append(have, strings.TrimSpace(fmt.Sprintf("%d: %v %s", i, g, g.UUID)))
	}
	if len(have) == 0 {
		for _, d := range m.Devices {
			have = append(have, fmt.Sprintf("%d: %s %s", d.Ordinal, d.Name, d.UUID))
		}
	}
	return fmt.Errorf("cluster: device %q not found; this machine has %s", entry, strings.Join(have, ", "))
}
