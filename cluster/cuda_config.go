package cluster

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
)

// CUDAConfig configures GPU workers: one process for each GPU in a list. It has the options of `dask cuda worker` and
// of LocalCUDACluster; the flags of `millstream cuda-worker` set them. The zero value is one worker with one thread on
// each GPU in CUDA_VISIBLE_DEVICES, with the defaults of UCX.
//
// Sizes of GPU memory are strings as in Dask: bytes ("24GB", "1.5GiB"), or a fraction of the GPU of the worker ("0.8").
type CUDAConfig struct {
	// Devices are the GPUs: indices in the order of PCI addresses, or names that begin with GPU- or MIG- (default:
	// those in CUDA_VISIBLE_DEVICES, otherwise all). A GPU that is listed twice has two workers.
	Devices []string
	// Workers is the number of devices that get a worker, from the first on (default: all).
	Workers int
	// Threads is the number of tasks that a worker runs at once (default 1).
	Threads int
	// Name is the name of the workers; with several, -0, -1 and so on are appended (default: the index alone).
	Name string
	// Interface is the network interface on which workers listen, such as ib0 (default: the one with a route to the
	// scheduler).
	Interface string

	// UCX are the transports. UCX decides about a Switch that is unset; one that is Off excludes the transport.
	// NetDevices "auto" is the InfiniBand port next to the GPU of each worker, and requires InfiniBand. Defaults are
	// taken from the configuration (distributed-ucxx.*, DASK_DISTRIBUTED_UCXX__*, and the old DASK_UCX__*).
	UCX config.UCX
	// NoDataConnections specifies that data is sent over the control connection; unless that is UCX, UCX switches then
	// have no effect, and one that is On is an error.
	NoDataConnections bool
	// Protocol is the protocol of the control connection (tcp, tls, ucx, ucxx; "" if unknown).
	Protocol string

	// RMM specifies how GPU memory is allocated.
	RMM RMMConfig
	// DeviceMemoryLimit is the size of the results in GPU memory above which some are moved to host memory: a size,
	// "auto" for all memory of the GPU, "0" for no limit, "default" or "" for 0.8 of it (no limit if GPU and processor
	// share their memory). Workers that share a GPU also divide "auto" and "default".
	DeviceMemoryLimit string
	// MemoryLimit is the limit of host memory of each worker process: a size, a fraction of the memory of the machine,
	// "0" for none, "auto" or "" for its share of the machine.
	MemoryLimit string

	// WarmUp are names of registered functions without parameters that each worker calls before it registers: to load
	// models, compile kernels, fill caches (Dask: --pre-import). A worker whose warm-up fails does not start.
	WarmUp []string
}

// RMMConfig specifies how GPU memory is allocated, like the options of RAPIDS Memory Manager.
type RMMConfig struct {
	// PoolSize is the initial size of a pool (distributed-ucxx.rmm.pool-size, DASK_RMM__POOL_SIZE; default: no pool),
	// MaximumPoolSize its maximum size (default: the memory of the GPU).
	PoolSize, MaximumPoolSize string
	// ManagedMemory selects managed memory, which the driver moves between GPU and host. NVLink cannot send it.
	ManagedMemory bool
	// Async selects the pool of the driver (cuMemAllocAsync); ReleaseThreshold is how much unused memory that keeps.
	Async            bool
	ReleaseThreshold string
	// LogDirectory is the folder to which each worker writes a log of its allocations.
	LogDirectory string
	// TrackAllocations records the stack of each allocation, for leak reports.
	TrackAllocations bool
}

// isSet reports whether a worker has to configure the memory of its GPU before it starts.
func (r RMMConfig) isSet() bool { return r != RMMConfig{} }

// cudaSizes are the parsed sizes of CUDAConfig.
type cudaSizes struct {
	pool, maximum, threshold mem.Size
	deviceLimit              mem.Size
	shared                   bool // workers on one GPU divide deviceLimit
	isDefault                bool
}

// sizes parses the sizes.
func (o *CUDAConfig) sizes() (s cudaSizes, err error) {
	for _, f := range []struct {
		name, text string
		into       *mem.Size
	}{
		{"rmm-pool-size", o.RMM.PoolSize, &s.pool},
		{"rmm-maximum-pool-size", o.RMM.MaximumPoolSize, &s.maximum},
		{"rmm-release-threshold", o.RMM.ReleaseThreshold, &s.threshold},
		{"device-memory-limit", o.DeviceMemoryLimit, &s.deviceLimit},
	} {
		if f.name == "device-memory-limit" {
			switch strings.ToLower(f.text) {
			case "", "default":
				s.deviceLimit, s.shared, s.isDefault = mem.SizeFraction(0.8), true, true
				continue
			case "auto":
				s.shared = true
			}
		} else if strings.EqualFold(f.text, "auto") {
			return s, fmt.Errorf("cluster: %s %s: want a number of bytes such as 24GB, or a fraction of the GPU "+
				"such as 0.8", f.name, f.text)
		}
		if *f.into, err = mem.ParseSize(f.text); err != nil {
			return s, fmt.Errorf("cluster: %s: %w", f.name, err)
		}
	}
	return s, nil
}

// Check returns an error for options that are invalid on any machine: options that exclude or need each other,
// malformed sizes, functions that are not registered. Plan calls it too.
func (o CUDAConfig) Check() error {
	s, err := o.sizes()
	if err != nil {
		return err
	}
	switch {
	case o.Workers < 0:
		return fmt.Errorf("cluster: %d workers: want at least 1, or 0 for one on each GPU", o.Workers)
	case o.Threads < 0:
		return fmt.Errorf("cluster: %d threads: want at least 1, or 0 for 1", o.Threads)
	case o.RMM.Async && o.RMM.ManagedMemory:
		return errors.New("cluster: rmm-async and rmm-managed-memory exclude each other: the driver pool has no " +
			"managed memory; choose one of them")
	case o.RMM.ManagedMemory && o.UCX.NVLink == config.On:
		return errors.New("cluster: rmm-managed-memory and nvlink exclude each other: managed memory cannot be " +
			"mapped into another process; disable one of them")
	case s.threshold.IsSet() && !o.RMM.Async:
		return errors.New("cluster: rmm-release-threshold requires rmm-async: it applies to the pool of the driver")
	case s.maximum.IsSet() && !s.pool.IsSet() && !o.RMM.Async:
		return errors.New("cluster: rmm-maximum-pool-size requires rmm-pool-size or rmm-async")
	}
	if err := o.checkTransports(); err != nil {
		return err
	}
	if dir := o.RMM.LogDirectory; dir != "" {
		if st, err := os.Stat(dir); err != nil {
			return fmt.Errorf("cluster: rmm-log-directory: %w; create it first", err)
		} else if !st.IsDir() {
			return fmt.Errorf("cluster: rmm-log-directory %s is not a folder", dir)
		}
	}
	return checkWarmUp(o.WarmUp)
}

// checkTransports returns an error for UCX switches that contradict each other or the protocol.
func (o *CUDAConfig) checkTransports() error {
	if _, _, err := o.UCX.Translate(); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	protocol := strings.TrimSuffix(o.Protocol, "://")
	if protocol == "inproc" {
		return errors.New("cluster: GPU workers are processes, which inproc:// cannot connect; use tls, tcp, " +
			"ucx or ucxx")
	}
	if protocol != "" && !slices.Contains(protocols, protocol) {
		return fmt.Errorf("cluster: protocol %q: want tls, tcp, ucx or ucxx", o.Protocol)
	}
	if !o.NoDataConnections || protocol == "ucx" || protocol == "ucxx" {
		return nil
	}
	for _, s := range []struct {
		name  string
		state config.Switch
	}{{"tcp-over-ucx", o.UCX.TCP}, {"nvlink", o.UCX.NVLink}, {"infiniband", o.UCX.InfiniBand},
		{"rdmacm", o.UCX.RDMACM}} {
		if s.state == config.On {
			return fmt.Errorf("cluster: %s is enabled, but neither the control connection nor a data connection uses "+
				"UCX; use protocol ucx, or data connections", s.name)
		}
	}
	return nil
}

// checkWarmUp returns an error unless all names are functions without parameters.
func checkWarmUp(names []string) error {
	for _, name := range names {
		f, ok := task.Lookup(name)
		switch {
		case !ok:
			return fmt.Errorf("cluster: warm-up %q: no function with this name is registered", name)
		case f.Params() > 0:
			return fmt.Errorf("cluster: warm-up %q has %d parameters; use a function without", name, f.Params())
		}
	}
	return nil
}
