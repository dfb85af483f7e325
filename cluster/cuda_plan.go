package cluster

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/device/topology"
	"go.millstream.dev/mem"
	"go.millstream.dev/worker"
)

// CUDAPlan is which worker processes will be started, with what. It is a plain value: nothing
// has happened yet.
type CUDAPlan struct {
	// Workers are the processes, in the order of the list of devices.
	Workers []CUDAWorker `json:"workers"`
	// Warnings are what is allowed and probably not meant.
	Warnings []string `json:"warnings,omitempty"`
}

// CUDAWorker is one worker process of a plan.
type CUDAWorker struct {
	// Name is the worker's.
	Name string `json:"name"`
	// Device is the entry of the list, GPU what it is: model and PCI address.
	Device string `json:"device"`
	GPU    string `json:"gpu"`
	// Env are the variables that the process gets beside its parent's: CUDA_VISIBLE_DEVICES
	// with its own GPU first, CUDA_DEVICE_ORDER.
	Env []string `json:"env"`
	// CPUs are the processors it runs on, as 0-15,32-47: those next to its GPU that this
	// process may use. "" is all.
	CPUs string `json:"cpus,omitempty"`
	// Threads, and MemoryLimit in bytes; 0 is no limit.
	Threads     int   `json:"threads"`
	MemoryLimit int64 `json:"memory_limit,omitempty"`
	// UCX are the settings of UCX in the process.
	UCX ucxcomm.Settings `json:"ucx"`
	// Setup is what it does with its GPU before it starts; nil is nothing, not even a look.
	Setup *DeviceSpec `json:"setup,omitempty"`
	// WarmUp is what it calls then.
	WarmUp []string `json:"warm_up,omitempty"`
}

// Plan works out which processes the options ask for on a machine. It changes nothing.
func (o CUDAConfig) Plan(m CUDAMachine) (*CUDAPlan, error) {
	settings, err := o.settle(m.Config)
	if err != nil {
		return nil, err
	}
	sizes, err := o.sizes()
	if err != nil {
		return nil, err
	}
	gpus, err := m.devices(o.Devices)
	if err != nil {
		return nil, err
	}
	n := cmp.Or(o.Workers, len(gpus))
	if n > len(gpus) {
		return nil, fmt.Errorf("cluster: %d workers, and %d GPUs are listed: ask for fewer, or list a GPU twice "+
			"to share it", n, len(gpus))
	}
	limit, err := o.hostMemory(m.Memory, n)
	if err != nil {
		return nil, err
	}
	p := &CUDAPlan{Warnings: warningTexts(settings.Warnings)}
	if err := o.checkNetwork(m.Topology); err != nil {
		return nil, err
	}
	entries, err := visible(gpus)
	if err != nil {
		return nil, err
	}
	for i, g := range gpus[:n] {
		w := CUDAWorker{
			Name: o.workerName(i, n), Device: g.entry, GPU: g.String(), Threads: max(1, o.Threads), MemoryLimit: limit,
			WarmUp: o.WarmUp,
			UCX:    ucxcomm.FromConfig(settings),
		}
		rotated, err := topology.Rotate(entries, i)
		if err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		w.Env = []string{"CUDA_VISIBLE_DEVICES=" + rotated}
		if _, ok := m.env("CUDA_DEVICE_ORDER"); !ok {
			w.Env = append(w.Env, "CUDA_DEVICE_ORDER=PCI_BUS_ID") // what numbers mean here
		}
		if g.board != nil && !m.Topology.Affinity(g.board).Equal(m.Topology.Allowed) {
			w.CPUs = m.Topology.Affinity(g.board).String()
		}
		if settings.UCX.NetDevices == "auto" {
			if err := p.nearestNIC(&w, m.Topology, g, o.Interface); err != nil {
				return nil, err
			}
		}
		setup, err := o.setup(sizes, g, sharers(gpus[:n], g))
		if err != nil {
			return nil, err
		}
		w.Setup = &setup
		if o.RMM.LogDirectory != "" {
			w.Setup.Log = filepath.Join(o.RMM.LogDirectory, "rmm_log_"+w.Name+".txt")
		}
		p.Workers = append(p.Workers, w)
	}
	return p, nil
}

// settle fills what the options leave open from the configuration, and checks the whole.
func (o *CUDAConfig) settle(c *config.Config) (*config.Settings, error) {
	if c == nil {
		var err error
		if c, err = config.Load(config.Options{Paths: []string{}, Env: []string{}}); err != nil {
			return nil, err
		}
	}
	settings, err := c.Settings(config.Overrides{UCX: o.UCX, From: "options"})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	o.UCX = settings.UCX
	if o.RMM.PoolSize == "" && settings.RMM.PoolSize > 0 {
		o.RMM.PoolSize = strconv.FormatInt(settings.RMM.PoolSize, 10)
	}
	return settings, o.Check()
}

func warningTexts(warnings []config.Warning) []string {
	var out []string
	for _, w := range warnings {
		out = append(out, w.Text)
	}
	return out
}

// workerName is that of worker i of n. As Dask-CUDA has it, one worker alone has the bare name.
func (o *CUDAConfig) workerName(i, n int) string {
	switch {
	case o.Name == "":
		return strconv.Itoa(i)
	case n == 1:
		return o.Name
	}
	return o.Name + "-" + strconv.Itoa(i)
}

// hostMemory is the limit of each worker's process.
func (o *CUDAConfig) hostMemory(total int64, workers int) (int64, error) {
	switch strings.ToLower(o.MemoryLimit) {
	case "", "auto":
		return total / int64(workers), nil
	}
	limit, err := worker.ParseMemoryLimit(o.MemoryLimit, max(1, o.Threads))
	if err != nil {
		return 0, fmt.Errorf("cluster: memory-limit: %w", err)
	}
	return limit, nil
}

// visible are the entries of CUDA_VISIBLE_DEVICES: as listed, unless the list mixes numbers and
// names, which CUDA does not take; then they are all names.
func visible(gpus []plannedGPU) ([]string, error) {
	numbers, entries, uuids := 0, make([]string, len(gpus)), make([]string, len(gpus))
	for i, g := range gpus {
		entries[i], uuids[i] = g.entry, g.uuid
		if _, err := strconv.Atoi(g.entry); err == nil {
			numbers++
		}
	}
	if numbers == 0 || numbers == len(gpus) {
		return entries, nil
	}
	if i := slices.Index(uuids, ""); i >= 0 {
		return nil, fmt.Errorf("cluster: the list of devices mixes numbers and names, and the name of %v is not "+
			"known: use numbers alone", gpus[i])
	}
	return uuids, nil
}

// sharers is how many workers have the same GPU.
func sharers(gpus []plannedGPU, g plannedGPU) int {
	n := 0
	for _, other := range gpus {
		if other.key() == g.key() {
			n++
		}
	}
	return n
}

// setup is what a worker has to do with its GPU: the sizes in bytes of that GPU.
func (o *CUDAConfig) setup(s cudaSizes, g plannedGPU, sharers int) (DeviceSpec, error) {
	d := DeviceSpec{UUID: g.uuid, Managed: o.RMM.ManagedMemory, Async: o.RMM.Async, Track: o.RMM.TrackAllocations}
	limit := s.deviceLimit
	if s.isDefault && g.integrated {
		limit = mem.Size{}
	}
	if g.memory == 0 {
		if o.RMM.isSet() || limit.IsSet() && !s.isDefault {
			return d, fmt.Errorf("cluster: sizes of GPU memory are of %v, and the driver does not show it to this "+
				"process: add it to CUDA_VISIBLE_DEVICES, or leave the sizes out", g)
		}
		return d, nil
	}
	for _, f := range []struct {
		name  string
		size  mem.Size
		into  *int64
		share bool
	}{
		{"rmm-pool-size", s.pool, &d.PoolSize, false},
		{"rmm-maximum-pool-size", s.maximum, &d.MaximumPoolSize, false},
		{"rmm-release-threshold", s.threshold, &d.ReleaseThreshold, false},
		{"device-memory-limit", limit, &d.MemoryLimit, s.shared},
	} {
		n, err := f.size.Of(g.memory)
		if err != nil {
			return d, fmt.Errorf("cluster: %s on %v: %w", f.name, g, err)
		}
		if f.share {
			n = n / int64(sharers) &^ 255
		}
		*f.into = n
	}
	switch {
	case d.MaximumPoolSize > 0 && d.PoolSize > d.MaximumPoolSize:
		return d, fmt.Errorf("cluster: rmm-pool-size of %d bytes is more than rmm-maximum-pool-size of %d: raise the "+
			"one, or lower the other", d.PoolSize, d.MaximumPoolSize)
	case d.PoolSize > g.memory/int64(sharers):
		return d, fmt.Errorf("cluster: %d workers share %v, and pools of %d bytes each do not fit into its %d: ask "+
			"for at most %.2g of the GPU each", sharers, g, d.PoolSize, g.memory, 1/float64(sharers))
	}
	return d, nil
}

// checkNetwork wants the interface and the network devices that are named to be there.
func (o *CUDAConfig) checkNetwork(m *topology.Machine) error {
	var interfaces, devices []string
	for _, n := range m.NICs {
		if n.InfiniBand {
			devices = append(devices, n.Name)
		} else {
			interfaces = append(interfaces, n.Name)
		}
	}
	if o.Interface != "" {
		n, ok := m.NIC(o.Interface)
		switch {
		case !ok || n.InfiniBand:
			return fmt.Errorf("cluster: network interface %q is not here; this machine has %s", o.Interface,
				listOr(interfaces, "none"))
		case !n.Up:
			return fmt.Errorf("cluster: network interface %s is down: bring it up (ip link set %s up), or name "+
				"another of %s", o.Interface, o.Interface, strings.Join(interfaces, ", "))
		}
	}
	if o.UCX.NetDevices == "" || o.UCX.NetDevices == "auto" || o.UCX.NetDevices == "all" ||
		strings.HasPrefix(o.UCX.NetDevices, "^") {
		return nil
	}
	for entry := range strings.SplitSeq(o.UCX.NetDevices, ",") {
		name, port, _ := strings.Cut(strings.TrimSpace(entry), ":")
		if strings.ContainsAny(name, "*?[") {
			continue // a pattern is UCX's to match
		}
		n, ok := m.NIC(name)
		if !ok {
			return fmt.Errorf("cluster: network device %q is not here; InfiniBand devices of this machine: %s; "+
				"interfaces: %s", name, listOr(devices, "none"), listOr(interfaces, "none"))
		}
		number, err := strconv.Atoi(cmp.Or(port, "1"))
		if n.InfiniBand && (err != nil || !slices.ContainsFunc(n.Ports, func(p topology.Port) bool {
			return p.Number == number && p.Active()
		})) {
			return fmt.Errorf("cluster: port %s of network device %s is not active: check cable and subnet manager "+
				"(ibstat), or name another", cmp.Or(port, "1"), name)
		}
	}
	return nil
}

func listOr(list []string, none string) string { return cmp.Or(strings.Join(list, ", "), none) }

// nearestNIC gives a worker the InfiniBand port next to its GPU.
func (p *CUDAPlan) nearestNIC(w *CUDAWorker, m *topology.Machine, g plannedGPU, iface string) error {
	if g.board == nil {
		return fmt.Errorf("cluster: net-devices auto: the kernel does not say where %v is: name the network device", g)
	}
	nic, device, err := m.ClosestInfiniBand(g.board)
	if err != nil {
		return fmt.Errorf("cluster: net-devices auto: %w", err)
	}
	w.UCX.Options["NET_DEVICES"] = device
	if text := m.CheckInterface(nic, iface); text != "" {
		p.Warnings = append(p.Warnings, "worker "+w.Name+": "+text)
	}
	return nil
}

// Spec is the worker as its process is told, on top of what all workers have in common.
func (w *CUDAWorker) Spec(common WorkerSpec) WorkerSpec {
	common.Name, common.Threads, common.MemoryLimit, common.CPUs = w.Name, w.Threads, w.MemoryLimit, w.CPUs
	common.Device, common.WarmUp, common.UCX = w.Setup, w.WarmUp, &w.UCX
	return common
}
