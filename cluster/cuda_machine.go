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

// CUDAMachine is what a plan of workers with GPUs is made for. Plan only reads it.
type CUDAMachine struct {
	// Topology is the machine as the kernel sees it.
	Topology *topology.Machine
	// Devices are the GPUs that the driver shows to this process; their memory and UUIDs are
	// taken from it.
	Devices []cuda.Device
	// Memory is the machine's, or the container's, in bytes.
	Memory int64
	// Env is the environment that workers inherit, as NAME=value.
	Env []string
	// Config is the configuration that fills what options leave open; nil is none.
	Config *config.Config
}

// ThisCUDAMachine is the machine that this process runs on. Without a CUDA driver, or without
// a GPU, it is an error that says what is missing; it wraps cuda.ErrUnavailable.
func ThisCUDAMachine() (CUDAMachine, error) {
	m := CUDAMachine{Memory: worker.SystemMemory(), Env: os.Environ()}
	var err error
	if m.Devices, err = cuda.Devices(); err != nil {
		return m, fmt.Errorf("cluster: workers with GPUs: %w", err)
	}
	if m.Topology, err = topology.Read(topology.Config{}); err != nil {
		return m, err
	}
	m.Config, err = config.Default()
	return m, err
}

// env is the value of a variable.
func (m *CUDAMachine) env(name string) (string, bool) {
	for _, kv := range slices.Backward(m.Env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// plannedGPU is an entry of the list of devices, found.
type plannedGPU struct {
	entry      string // as listed
	uuid, name string
	memory     int64 // 0: not known here
	integrated bool
	board      *topology.GPU // nil if the kernel shows none
}

// String names the GPU for people.
func (g plannedGPU) String() string {
	name := cmp.Or(g.name, "GPU "+g.entry)
	if g.board != nil {
		name += " " + g.board.Address
	}
	return name
}

// key tells GPUs apart, however they are named.
func (g plannedGPU) key() string {
	switch {
	case g.uuid != "":
		return g.uuid
	case g.board != nil:
		return g.board.Address
	}
	return g.entry
}

// devices are the GPUs of the list, or of the machine.
func (m *CUDAMachine) devices(list []string) ([]plannedGPU, error) {
	if len(list) == 0 {
		if visible, ok := m.env("CUDA_VISIBLE_DEVICES"); ok {
			var err error
			if list, err = topology.ParseVisible(visible); err != nil {
				return nil, fmt.Errorf("cluster: %w", err)
			}
			if len(list) == 0 {
				return nil, fmt.Errorf("cluster: CUDA_VISIBLE_DEVICES is empty, which hides all GPUs: unset it, or " +
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
		return nil, fmt.Errorf("cluster: workers with GPUs: %w: the kernel shows no NVIDIA GPU, and neither "+
			"does the driver", cuda.ErrUnavailable)
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

// count is how many GPUs can be named by number. Where the kernel shows none, as under WSL,
// it is what the driver shows.
func (m *CUDAMachine) count() int {
	if n := len(m.Topology.GPUs); n > 0 {
		return n
	}
	return len(m.Devices)
}

// find looks an entry of the list up.
func (m *CUDAMachine) find(entry string) (plannedGPU, error) {
	g := plannedGPU{entry: entry}
	if n, err := strconv.Atoi(entry); err == nil {
		if order, ok := m.env("CUDA_DEVICE_ORDER"); ok && order != "PCI_BUS_ID" {
			return g, fmt.Errorf("cluster: device %s: with CUDA_DEVICE_ORDER=%s numbers do not say which GPU is "+
				"meant: unset it, or name GPUs by UUID (nvidia-smi -L)", entry, order)
		}
		if n < 0 || n >= m.count() {
			return g, m.unknown(entry)
		}
		if len(m.Topology.GPUs) > 0 {
			g.board = m.Topology.GPUs[n]
			g.uuid, g.name = g.board.UUID, g.board.Model
		} else {
			byBus := slices.Clone(m.Devices)
			slices.SortStableFunc(byBus, func(a, b cuda.Device) int { return cmp.Compare(a.PCIBusID, b.PCIBusID) })
			g.take(byBus[n])
		}
		m.complete(&g)
		return g, nil
	}
	if !strings.HasPrefix(entry, "GPU-") && !strings.HasPrefix(entry, "MIG-") {
		return g, fmt.Errorf("cluster: device %q is neither the number of a GPU nor a name that begins with "+
			"GPU- or MIG-", entry)
	}
	var ok bool
	if g.board, ok = m.Topology.GPU(entry); ok {
		g.uuid, g.name = g.board.UUID, g.board.Model
		m.complete(&g)
		return g, nil
	}
	var found []cuda.Device
	for _, d := range m.Devices {
		if strings.HasPrefix(d.UUID, entry) {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		return g, m.unknown(entry)
	}
	g.take(found[0])
	// The processors next to an instance are those next to its GPU.
	if g.board, ok = m.Topology.GPU(found[0].GPUUUID); !ok {
		g.board, _ = m.Topology.GPU(found[0].PCIBusID)
	}
	return g, nil
}

// take fills in what the driver knows.
func (g *plannedGPU) take(d cuda.Device) {
	g.uuid, g.memory, g.integrated = d.UUID, d.TotalMemory, d.Integrated
	g.name = cmp.Or(g.name, d.Name)
}

// complete asks the driver about a GPU that the kernel showed.
func (m *CUDAMachine) complete(g *plannedGPU) {
	if g.board == nil {
		return
	}
	for _, d := range m.Devices {
		if !d.MIG && (g.uuid != "" && d.UUID == g.uuid || g.uuid == "" &&
			strings.EqualFold(d.PCIBusID, g.board.Address)) {
			g.take(d)
			return
		}
	}
}

// unknown is the error about a GPU that is not there; it lists those that are.
func (m *CUDAMachine) unknown(entry string) error {
	var have []string
	for i, g := range m.Topology.GPUs {
		have = append(have, strings.TrimSpace(fmt.Sprintf("%d: %v %s", i, g, g.UUID)))
	}
	if len(have) == 0 {
		for _, d := range m.Devices {
			have = append(have, fmt.Sprintf("%d: %s %s", d.Ordinal, d.Name, d.UUID))
		}
	}
	return fmt.Errorf("cluster: device %q is not here; this machine has %s", entry, strings.Join(have, ", "))
}
