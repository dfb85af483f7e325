package cluster

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/config"
	"go.millstream.dev/cuda"
	"go.millstream.dev/ucx"
)

// initialized tells that the transports of this process have been chosen.
var initialized atomic.Bool

// Initialize sets up the transports of a process that is neither scheduler nor worker, before
// it connects (Dask-CUDA: dask_cuda.initialize). What o leaves open comes from the
// configuration, so without options it is what the environment says: DASK_DISTRIBUTED_UCXX__*,
// the old DASK_UCX__* and DASK_RMM__POOL_SIZE, files. ucx:// and ucxx:// addresses, and data
// lanes, use the result from then on. Connect does it by itself, without options, in a process
// where nobody has.
//
// Where options name transports or network devices, UCX is loaded and asked for them now: an
// error says what it does not have.
//
// With rmm.pool-size, in any spelling, a pool of GPU memory is made on device 0 now, and device
// results that this process gathers over UCX arrive there; without it they arrive in host
// memory, and no CUDA context is made unless distributed-ucxx.create-cuda-context is true. The
// pool's figures are in Prometheus's default registry (millstream_device_memory_bytes). On a
// machine without a GPU the pool is ignored, with a line in the log (default slog.Default) that
// says so. Calling it again with another size makes another pool, if the first is not in use.
func Initialize(o config.Overrides, log *slog.Logger) (*config.Settings, error) {
	if log == nil {
		log = slog.Default()
	}
	c, err := config.Default()
	if err != nil {
		return nil, err
	}
	return initialize(c, o, log)
}

func initialize(c *config.Config, o config.Overrides, log *slog.Logger) (*config.Settings, error) {
	s, err := c.Settings(o)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	for _, w := range s.Warnings {
		log.Warn(w.Text, "source", w.Source.String())
	}
	if s.UCX.CreateCUDAContext == config.On {
		if _, err := cuda.PrimaryContext(0); err != nil {
			return nil, fmt.Errorf("cluster: distributed-ucxx.create-cuda-context is true: %w", err)
		}
	}
	if err := makeClientPool(s, thisGPUMachine, log); err != nil {
		return nil, err
	}
	settings := ucxcomm.FromConfig(s)
	if len(s.Options) > 0 {
		if err := probe(settings); err != nil {
			return nil, err
		}
	}
	ucxcomm.Configure(settings)
	initialized.Store(true)
	return s, nil
}

// probe asks UCX whether it can do what the settings want. A machine without UCX can do
// nothing of it.
func probe(s ucxcomm.Settings) error {
	c, err := ucx.NewContext(ucx.Config{Options: s.Options, Library: s.Library, Name: "millstream-probe"})
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer c.Close()
	have := c.Transports()
	devices := s.Options["NET_DEVICES"]
	if devices == "" || devices == "all" || strings.HasPrefix(devices, "^") {
		return nil
	}
	for name := range strings.SplitSeq(devices, ",") {
		if !slices.ContainsFunc(have, func(r string) bool { _, d, _ := strings.Cut(r, "/"); return d == name }) {
			return fmt.Errorf("cluster: UCX finds no network device %q with the transports of %s; it has %s", name, s.Options["TLS"], strings.Join(have, ", "))
		}
	}
	return nil
}

// initializeOnce is what Connect does in a process without an earlier call of Initialize.
func initializeOnce(c *config.Config) error {
	if initialized.Load() {
		return nil
	}
	s, err := c.Settings(config.Overrides{})
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	// Without a word about UCX in the configuration, what the program has configured stays.
	if len(s.Options) == 0 && s.UCX.Library == "" && s.UCX.PlainLanes == config.Unset && s.UCX.Polling == config.Unset && s.RMM.PoolSize == 0 {
		return nil
	}
	_, err = initialize(c, config.Overrides{}, slog.Default())
	return err
}
