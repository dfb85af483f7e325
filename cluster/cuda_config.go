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

// CUDAConfig describes workers with GPUs: one process for each GPU of a list. It has the
// options of `dask cuda worker` and of LocalCUDACluster; the flags of `millstream
// cuda-worker` set them. The zero value is one worker with one thread on each GPU that
// CUDA_VISIBLE_DEVICES shows, with everything about UCX left to UCX.
//
// Sizes of GPU memory are texts as Dask writes them: bytes ("24GB", "1.5GiB"), or a fraction
// of the worker's own GPU ("0.8").
type CUDAConfig struct {
	// Devices are the GPUs: numbers in the order of PCI addresses, or names that begin with
	// GPU- or MIG- (default: those of CUDA_VISIBLE_DEVICES, else all). One that stands twice
	// has two workers.
	Devices []string
	// Workers is how many of the list get a worker, from the first on (default: all).
	Workers int
	// Threads is how many tasks a worker runs at once (default 1).
	Threads int
	// Name is that of the workers; with several, -0, -1 and so on are appended (default: the
	// numbers alone).
	Name string
	// Interface is the network interface that workers serve, such as ib0 (default: the one
	// that faces the scheduler).
	Interface string

	// UCX are the transports. A Switch that is unset leaves the choice to UCX; one that is Off
	// keeps the transport out of every lane. NetDevices "auto" is the InfiniBand port next to
	// each worker's GPU, and needs InfiniBand. What is unset comes from the configuration
	// (distributed-ucxx.*, DASK_DISTRIBUTED_UCXX__*, and the old DASK_UCX__*).
	UCX config.UCX
	// NoDataConnections says that data goes over the control connection alone; unless that is UCX, no
	// switch of UCX can then have an effect, and one that is On is an error.
	NoDataConnections bool
	// Protocol is that of the control connection (tcp, tls, ucx, ucxx; "" if not known here).
	Protocol string

	// RMM is how GPU memory is allocated.
	RMM RMMConfig
	// DeviceMemoryLimit is how much of the GPU a worker's results may take before some are
	// moved to host memory: a size, "auto" for all of it, "0" for no limit, "default" or ""
	// for 0.8 of it (no limit where GPU and processor share their memory). Workers that share
	// a GPU share "auto" and "default" too.
	DeviceMemoryLimit string
	// MemoryLimit is that of each worker process in host memory: a size, a fraction of the
	// machine's, "0" for none, "auto" or "" for its share of the machine's.
	MemoryLimit string

	// WarmUp are names of registered functions without parameters that each worker calls
	// before it joins the cluster: to load models, compile kernels, fill caches (Dask:
	// --pre-import). A worker whose warm-up fails does not start.
	WarmUp []string
}

// RMMConfig specifies how GPU memory is allocated, as the options of RAPIDS Memory Manager do.
type RMMConfig struct {
	// PoolSize is the first size of a pool (distributed-ucxx.rmm.pool-size,
	// DASK_RMM__POOL_SIZE; default: no pool), MaximumPoolSize what it may grow to (default:
	// the GPU).
	PoolSize, MaximumPoolSize string
	// ManagedMemory is memory that moves between GPU and host by itself. NVLink cannot send it.
	ManagedMemory bool
	// Async is the driver's own pool (cuMemAllocAsync); ReleaseThreshold is how much of it is
	// kept when it is not used.
	Async            bool
	ReleaseThreshold string
	// LogDirectory is where each worker writes a log of its allocations.
	LogDirectory string
	// TrackAllocations keeps the stack of each allocation, for reports of leaks.
	TrackAllocations bool
}

// isSet tells whether a worker has to do something with its GPU's memory before it starts.
func (r RMMConfig) isSet() bool { return r != RMMConfig{} }

// cudaSizes are the sizes of CUDAConfig as they are read.
type cudaSizes struct {
	pool, maximum, threshold mem.Size
	deviceLimit              mem.Size
	shared                   bool // deviceLimit is a share of the GPU's
	isDefault                bool
}

// sizes reads the sizes.
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

// Check finds what no machine can satisfy: options that exclude or need each other, sizes that
// are none, functions that are not registered. Plan does it too.
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
		return errors.New("cluster: rmm-async and rmm-managed-memory exclude each other: the driver's pool has no " +
			"managed memory; choose one of them")
	case o.RMM.ManagedMemory && o.UCX.NVLink == config.On:
		return errors.New("cluster: rmm-managed-memory and nvlink exclude each other: managed memory cannot be " +
			"mapped into another process; leave one of them out, or disable nvlink")
	case s.threshold.IsSet() && !o.RMM.Async:
		return errors.New("cluster: rmm-release-threshold needs rmm-async: it is a setting of the driver's pool")
	case s.maximum.IsSet() && !s.pool.IsSet() && !o.RMM.Async:
		return errors.New("cluster: rmm-maximum-pool-size needs rmm-pool-size or rmm-async: without them there is no " +
			"pool that could grow")
	}
	if err := o.checkTransports(); err != nil {
		return err
	}
	if dir := o.RMM.LogDirectory; dir != "" {
		if st, err := os.Stat(dir); err != nil {
			return fmt.Errorf("cluster: rmm-log-directory: %w: make it first", err)
		} else if !st.IsDir() {
			return fmt.Errorf("cluster: rmm-log-directory %s is a file: name a folder", dir)
		}
	}
	return checkWarmUp(o.WarmUp)
}

// checkTransports finds switches of UCX that contradict each other or the protocol.
func (o *CUDAConfig) checkTransports() error {
	if _, _, err := o.UCX.Translate(); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	protocol := strings.TrimSuffix(o.Protocol, "://")
	if protocol == "inproc" {
		return errors.New("cluster: workers with GPUs are processes, and inproc:// does not leave one: use tls, tcp, " +
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
			return fmt.Errorf("cluster: %s is enabled, and nothing would use UCX: control is not over ucx or ucxx, "+
				"and there are no lanes for data; use protocol ucx, or lanes", s.name)
		}
	}
	return nil
}

// checkWarmUp wants functions that can be called with nothing.
func checkWarmUp(names []string) error {
	for _, name := range names {
		f, ok := task.Lookup(name)
		switch {
		case !ok:
			return fmt.Errorf("cluster: warm-up %q: no function is registered under that name in this program", name)
		case f.Params() > 0:
			return fmt.Errorf("cluster: warm-up %q takes %d arguments: register one without", name, f.Params())
		}
	}
	return nil
}
