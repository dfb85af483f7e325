package state

import "time"

// Resource is an amount of a resource that the worker has or a task needs.
type Resource struct {
	// Name is chosen by users, such as "GPU".
	Name string
	// Amount is at least 0.
	Amount float64
}

// Config configures the state of a worker. The zero value of each field is useful.
type Config struct {
	// Address is the address of the worker: peers on the same host are preferred, and the address is removed from the
	// holders of a key.
	Address string
	// Threads is the maximum number of tasks that run at once (default 1; --nthreads).
	Threads int
	// Resources are the resources of the worker. (--resources)
	Resources []Resource
	// IncomingCount is the maximum number of peers from which data is fetched concurrently, once IncomingThrottle bytes
	// are being fetched (default 50; distributed.worker.connections.outgoing).
	IncomingCount int
	// IncomingBytes bounds the bytes that are being fetched; 0 means no limit. A single key is always allowed.
	// (distributed.worker.memory.transfer, a fraction of the memory limit)
	IncomingBytes int64
	// IncomingThrottle is the number of bytes being fetched below which IncomingCount does not apply (default 10 MB).
	IncomingThrottle int64
	// MessageBytes bounds the size of the keys that are fetched together from one peer (default 50 MB;
	// distributed.worker.transfer.message-bytes-limit).
	MessageBytes int64
	// DeviceMessageBytes is MessageBytes for a peer whose last data was moved from GPU to GPU (default 4 GiB). A GPU
	// receives that in milliseconds, and many results are moved concurrently only within one transfer.
	DeviceMessageBytes int64
	// DefaultSize is assumed for a key of unknown size (default 1 KiB; distributed.scheduler.default-data-size).
	DefaultSize int64
	// BusyRetry is the delay before a busy peer is tried again (default 150 ms).
	BusyRetry time.Duration
	// AnnounceReleases sends release-worker-data for each freed key, as Dask workers do. Schedulers do not need it.
	AnnounceReleases bool
	// LogLength is the number of transitions kept for Story and Log (default 10,000; negative: none;
	// distributed.admin.low-level-log-length).
	LogLength int
	// Validate checks every invariant after each event and panics with a report that contains the story of the key.
	// (distributed.worker.validate)
	Validate bool
}

func (c Config) withDefaults() Config {
	set := func(v *int64, def int64) {
		if *v <= 0 {
			*v = def
		}
	}
	c.Threads = max(c.Threads, 1)
	if c.IncomingCount <= 0 {
		c.IncomingCount = 50
	}
	if c.IncomingBytes <= 0 {
		c.IncomingBytes = 1<<63 - 1
	}
	set(&c.IncomingThrottle, 10_000_000)
	set(&c.MessageBytes, 50_000_000)
	set(&c.DeviceMessageBytes, 4<<30)
	set(&c.DefaultSize, 1<<10)
	if c.BusyRetry <= 0 {
		c.BusyRetry = 150 * time.Millisecond
	}
	if c.LogLength == 0 {
		c.LogLength = 10_000
	}
	return c
}
