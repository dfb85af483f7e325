package cluster

import (
	"fmt"
	"strings"

	"go.millstream.dev/cuda"
)

// DeviceSpec is the GPU of a worker process, its device 0, and what is to be set up on it
// before the worker starts.
type DeviceSpec struct {
	// UUID is the GPU's, "" if the driver has not told: GPU-… or MIG-….
	UUID string `json:"uuid,omitempty"`
	// MemoryLimit is how many bytes of it results may take; 0 is no limit.
	MemoryLimit int64 `json:"memory_limit,omitempty"`
	// PoolSize and MaximumPoolSize are in bytes; 0 is no pool, and no bound.
	PoolSize        int64 `json:"pool_size,omitempty"`
	MaximumPoolSize int64 `json:"maximum_pool_size,omitempty"`
	// ReleaseThreshold is in bytes, of the driver's pool.
	ReleaseThreshold int64 `json:"release_threshold,omitempty"`
	// Managed, Async and Track choose what memory there is; Log is a file for it.
	Managed bool   `json:"managed,omitempty"`
	Async   bool   `json:"async,omitempty"`
	Track   bool   `json:"track,omitempty"`
	Log     string `json:"log,omitempty"`
}

// memory names what is asked of the GPU's memory, "" for nothing.
func (d *DeviceSpec) memory() string {
	var asked []string
	for _, a := range []struct {
		set  bool
		name string
	}{
		{d.PoolSize > 0, "rmm-pool-size"}, {d.Managed, "rmm-managed-memory"}, {d.Async, "rmm-async"},
		{d.Log != "", "rmm-log-directory"}, {d.Track, "rmm-track-allocations"},
	} {
		if a.set {
			asked = append(asked, a.name)
		}
	}
	return strings.Join(asked, ", ")
}

// setUp makes sure that the process has the GPU that was planned for it. devices are those
// that the process sees. It runs before UCX does, in the worker's process.
func (d *DeviceSpec) setUp(devices func() ([]cuda.Device, error)) error {
	all, err := devices()
	if err != nil {
		return fmt.Errorf("cluster: the worker's GPU: %w", err)
	}
	switch {
	case len(all) == 0:
		return fmt.Errorf("cluster: the worker's GPU: %w: CUDA_VISIBLE_DEVICES hides all", cuda.ErrUnavailable)
	case d.UUID != "" && all[0].UUID != d.UUID && all[0].GPUUUID != d.UUID:
		return fmt.Errorf("cluster: device 0 of the worker is %s (%s), and %s was planned: name GPUs by UUID in the list of devices, and leave CUDA_DEVICE_ORDER unset", all[0].UUID, all[0].Name, d.UUID)
	}
	if asked := d.memory(); asked != "" {
		return fmt.Errorf("cluster: %s: workers of this release do not allocate GPU memory by themselves yet; leave it out", asked)
	}
	return nil
}
