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

// CUDAPlan describes the worker processes to start. It is a plain value; no process has been started.
type CUDAPlan struct {
	// Workers are the processes, in the order of the list of devices.
	Workers []CUDAWorker `json:"workers"`
	// Warnings describe options that are valid but probably a mistake.
	Warnings []string `json:"warnings,omitempty"`
}

// CUDAWorker describes one worker process of a plan.
type CUDAWorker struct {
	// Name is the name of the worker.
	Name string `json:"name"`
	// Device is the entry of the list, GPU its model and PCI address.
	Device string `json:"device"`
	GPU    string `json:"gpu"`
	// Env are environment variables of the process in addition to those of its parent: CUDA_VISIBLE_DEVICES with its
	// own GPU first, CUDA_DEVICE_ORDER.
	Env []string `json:"env"`
	// CPUs are the processors on which the process runs, such as 0-15,32-47: those next to its GPU that this process
	// may use. "" means all.
	CPUs string `json:"cpus,omitempty"`
	// Threads is the number of tasks that run at once, MemoryLimit the limit in bytes; 0 means no limit.
	Threads     int   `json:"threads"`
	MemoryLimit int64 `json:"memory_limit,omitempty"`
	// UCX are the UCX settings of the process.
	UCX ucxcomm.Settings `json:"ucx"`
	// Setup describes how the process configures its GPU before it starts; if it is nil the GPU is not used at all.
	Setup *DeviceSpec `json:"setup,omitempty"`
	// WarmUp are the functions that it calls then.
	WarmUp []string `json:"warm_up,omitempty"`
}

// Plan returns the processes that the options require on a machine. It changes nothing.
func (o CUDAConfig) Plan(m CUDAMachine) (*CUDAPlan, error) {
	settings, err := o.applyConfig(m.Config)
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
		return nil, fmt.Errorf("cluster: %d workers for %d listed GPUs; request fewer, or list a GPU twice "+
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
	entries, err := visibleDevices(gpus)
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
			w.Env = append(w.Env, "CUDA_DEVICE_ORDER=PCI_BUS_ID") // defines the indices
		}
		if g.board != nil && !m.Topology.Affinity(g.board).Equal(m.Topology.Allowed) {
			w.CPUs = m.Topology.Affinity(g.board).String()
		}
		if settings.UCX.NetDevices == "auto" {
			if err := p.nearestNIC(&w, m.Topology, g, o.Interface); err != nil {
				return nil, err
			}
		}
		setup, err := o.setup(sizes, g, workersOn(gpus[:n], g))
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

// applyConfig sets defaults from the configuration and checks the result.
func (o *CUDAConfig) applyConfig(c *config.Config) (*config.Settings, error) {
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

// workerName returns the name of worker i of n. As in Dask-CUDA, a single worker has the name without an index.
func (o *CUDAConfig) workerName(i, n int) string {
	switch {
	case o.Name == "":
		return strconv.Itoa(i)
	case n == 1:
		return o.Name
	}
	return o.Name + "-" + strconv.Itoa(i)
}

// hostMemory returns the limit of host memory of each worker process.
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

// visibleDevices returns the entries of CUDA_VISIBLE_DEVICES: as listed, unless the list mixes indices and names, which
// CUDA does not accept; then all are names.
func visibleDevices(gpus []plannedGPU) ([]string, error) {
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
		return nil, fmt.Errorf("cluster: the list of devices mixes indices and names, and the name of %v is not "+
			"known; use only indices", gpus[i])
	}
	return uuids, nil
}

// workersOn returns the number of workers on the GPU g.
func workersOn(gpus []plannedGPU, g plannedGPU) int {
	n := 0
	for _, other := range gpus {
		if other.key() == g.key() {
			n++
		}
	}
	return n
}

// setup returns how a worker configures its GPU, with sizes in bytes.
func (o *CUDAConfig) setup(s cudaSizes, g plannedGPU, sharers int) (DeviceSpec, error) {
	d := DeviceSpec{UUID: g.uuid, Managed: o.RMM.ManagedMemory, Async: o.RMM.Async, Track: o.RMM.TrackAllocations}
	limit := s.deviceLimit
	if s.isDefault && g.integrated {
		limit = mem.Size{}
	}
	if g.memory == 0 {
		if o.RMM.isSet() || limit.IsSet() && !s.isDefault {
			return d, fmt.Errorf("cluster: sizes of GPU memory require %v, which the driver does not report to this "+
				"process; add it to CUDA_VISIBLE_DEVICES, or omit the sizes", g)
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
		return d, fmt.Errorf("cluster: rmm-pool-size of %d bytes exceeds rmm-maximum-pool-size of %d; raise the "+
			"maximum, or lower the size", d.PoolSize, d.MaximumPoolSize)
	case d.PoolSize > g.memory/int64(sharers):
		return d, fmt.Errorf("cluster: %d workers share %v, and pools of %d bytes each do not fit into its %d; "+
			"request at most %.2g of the GPU each", sharers, g, d.PoolSize, g.memory, 1/float64(sharers))
	}
	return d, nil
}

// checkNetwork returns an error unless the listed interface and network devices exist.
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
			return fmt.Errorf("cluster: network interface %q not found; this machine has %s", o.Interface,
				listOr(interfaces, "none"))
		case !n.Up:
			return fmt.Errorf("cluster: network interface %s is down; bring it up (ip link set %s up), or use "+
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
			continue // UCX matches patterns
		}
		n, ok := m.NIC(name)
		if !ok {
			return fmt.Errorf("cluster: network device %q not found; InfiniBand devices of this machine: %s; "+
				"interfaces: %s", name, listOr(devices, "none"), listOr(interfaces, "none"))
		}
		number, err := strconv.Atoi(cmp.Or(port, "1"))
		if n.InfiniBand && (err != nil || !slices.ContainsFunc(n.Ports, func(p topology.Port) bool {
			return p.Number == number && p.Active()
		})) {
			return fmt.Errorf("cluster: port %s of network device %s is not active; check cable and subnet manager "+
				"(ibstat), or use another device", cmp.Or(port, "1"), name)
		}
	}
	return nil
}

func listOr(list []string, none string) string { return cmp.Or(strings.Join(list, ", "), none) }

// nearestNIC sets the network device of a worker to the InfiniBand port next to its GPU.
func (p *CUDAPlan) nearestNIC(w *CUDAWorker, m *topology.Machine, g plannedGPU, iface string) error {
	if g.board == nil {
		return fmt.Errorf("cluster: net-devices auto: PCI address of %v unknown; specify the network device", g)
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

// Spec returns the specification of the worker process, based on the common specification of all workers.
func (w *CUDAWorker) Spec(common WorkerSpec) WorkerSpec {
	common.Name, common.Threads, common.MemoryLimit, common.CPUs = w.Name, w.Threads, w.MemoryLimit, w.CPUs
	common.Device, common.WarmUp, common.UCX = w.Setup, w.WarmUp, &w.UCX
	return common
}
