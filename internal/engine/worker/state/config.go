package state

import "time"

// Resource is an amount of something abstract that the worker has or a task needs.
type Resource struct {
	// Name is the users' own, such as "GPU".
	Name string
	// Amount is at least 0.
	Amount float64
}

// Config is what a worker's state needs to know. The zero value of each field is useful.
type Config struct {
	// Address is the worker's own: peers on the same host are preferred, and the address is
	// left out of the holders of a key.
	Address string
	// Threads is how many tasks run at once: 1 if not set. (--nthreads)
	Threads int
	// Resources that the worker has. (--resources)
	Resources []Resource
	// IncomingCount is from how many peers data is fetched at once, once IncomingThrottle
	// bytes are under way: 50 if not set. (distributed.worker.connections.outgoing)
	IncomingCount int
	// IncomingBytes is how many bytes may be under way; 0 means no limit. One key always may.
	// (distributed.worker.memory.transfer, a fraction of the memory limit)
	IncomingBytes int64
	// IncomingThrottle is below which sum of bytes under way IncomingCount does not count:
	// 10 MB if not set.
	IncomingThrottle int64
	// MessageBytes is up to which size keys of one peer are fetched together: 50 MB if not
	// set. (distributed.worker.transfer.message-bytes-limit)
	MessageBytes int64
	// DeviceMessageBytes is MessageBytes for a peer whose last data went from GPU to GPU: 4 GiB
	// if not set. A GPU takes that in milliseconds, and only within one transfer are many results
	// under way at once.
	DeviceMessageBytes int64
	// DefaultSize is taken for a key of unknown size: 1 KiB if not set.
	// (distributed.scheduler.default-data-size)
	DefaultSize int64
	// BusyRetry is after which time a peer that was busy is asked again: 150 ms if not set.
	BusyRetry time.Duration
	// AnnounceReleases sends release-worker-data for each key that was freed, as Dask's
	// workers do. Schedulers do not need it.
	AnnounceReleases bool
	// LogLength is how many transitions are kept for Story and Log: 10,000 if not set; less
	// than 0 keeps none. (distributed.admin.low-level-log-length)
	LogLength int
	// Validate checks every invariant after each event and panics with a report that tells
	// the story of the key. (distributed.worker.validate)
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
