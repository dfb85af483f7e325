package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/config"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// Network provides the transports and the pool of GPU memory of clients (Dask-CUDA: dask_cuda.initialize). Connect
// creates one from the configuration for each client; a program that has several clients, or that selects transports in
// Go, creates one with NewNetwork and passes it in ConnectOptions. It is safe for concurrent use.
type Network struct {
	settings *config.Settings
	comms    comm.Network
	log      *slog.Logger

	mu     sync.Mutex // owns all below
	memory *devmem.Memory
}

// NetworkConfig configures NewNetwork. Its zero value uses the environment and the files of the Dask configuration
// (DASK_DISTRIBUTED_UCXX__*, the old DASK_UCX__*, DASK_RMM__POOL_SIZE).
type NetworkConfig struct {
	// Config is the configuration (default config.Default).
	Config *config.Config
	// Overrides take precedence over Config.
	Overrides config.Overrides
	// Logger receives warnings about the configuration (default slog.Default).
	Logger *slog.Logger
}

// NewNetwork returns a network. If the settings name transports or network devices, it loads UCX and returns an error
// if UCX does not have them.
//
// With rmm.pool-size, in any spelling, it creates a pool of GPU memory on device 0, and device results that clients
// gather over UCX are received into it. Otherwise they are received into host memory, and no CUDA context is created
// unless distributed-ucxx.create-cuda-context is true. On a machine without a GPU the pool is ignored with a warning.
func NewNetwork(cfg NetworkConfig) (*Network, error) { return newNetwork(cfg, thisGPUMachine) }

func newNetwork(cfg NetworkConfig, m gpuMachine) (*Network, error) {
	n := &Network{log: cfg.Logger}
	if n.log == nil {
		n.log = slog.Default()
	}
	c := cfg.Config
	if c == nil {
		var err error
		if c, err = config.Default(); err != nil {
			return nil, err
		}
	}
	var err error
	if n.settings, err = c.Settings(cfg.Overrides); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	for _, w := range n.settings.Warnings {
		n.log.Warn("configuration warning", "warning", w.Text, "source", w.Source.String())
	}
	if n.settings.UCX.CreateCUDAContext == config.On {
		if _, err := cuda.PrimaryContext(0); err != nil {
			return nil, fmt.Errorf("cluster: distributed-ucxx.create-cuda-context is true: %w", err)
		}
	}
	s := ucxcomm.FromConfig(n.settings)
	if len(s.Options) > 0 {
		if err := probe(s); err != nil {
			return nil, err
		}
	}
	n.comms = ucxcomm.NewNetwork(s)
	return n, n.openPool(m)
}

// probe returns an error if UCX does not support the settings, or is not installed.
func probe(s ucxcomm.Settings) error {
	c, err := ucx.NewContext(ucx.Config{Options: s.Options, Library: s.Library, Name: "millstream-probe"})
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer c.Close()
	have := c.Info().Transports
	devices := s.Options["NET_DEVICES"]
	if devices == "" || devices == "all" || strings.HasPrefix(devices, "^") {
		return nil
	}
	for name := range strings.SplitSeq(devices, ",") {
		if !slices.ContainsFunc(have, func(r string) bool { _, d, _ := strings.Cut(r, "/"); return d == name }) {
			return fmt.Errorf("cluster: UCX has no network device %q with the transports of %s; available are %s",
				name, s.Options["TLS"], strings.Join(have, ", "))
		}
	}
	return nil
}

// openPool creates the pool of the settings. On a machine without a GPU it logs that the pool is ignored.
func (n *Network) openPool(m gpuMachine) error {
	size := n.settings.RMM.PoolSize
	if size&^255 == 0 {
		return nil
	}
	memory, err := m.open(devmem.Config{PoolSize: size &^ 255})
	switch {
	case errors.Is(err, cuda.ErrUnavailable):
		logIgnoredPool(n.log, size, poolSource(n.settings), err)
		return nil
	case err != nil:
		return fmt.Errorf("cluster: rmm.pool-size (%s): %w", poolSource(n.settings), err)
	}
	n.log.Info("GPU memory configured", "device", memory.Device().String(), "pool", size&^255)
	n.memory = memory
	return nil
}

// Settings returns the effective settings with their sources. The caller must not change them.
func (n *Network) Settings() *config.Settings { return n.settings }

// Collector returns the metrics of the GPU memory of the process (millstream_device_memory_bytes and others):
// prometheus.MustRegister(n.Collector()).
func (n *Network) Collector() prometheus.Collector { return devmem.Collector{} }

// device returns the memory into which device results are received; nil means host memory.
func (n *Network) device() mem.Resource {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.memory == nil {
		return nil
	}
	return n.memory.Resource()
}

// Close frees the pool of GPU memory. It returns an error while results of a client are in the pool: release them
// first, then call Close again. Close may be called more than once.
func (n *Network) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.memory == nil {
		return nil
	}
	if err := n.memory.Close(); err != nil {
		return fmt.Errorf("cluster: pool of GPU memory in use: %w; release the gathered results first", err)
	}
	n.memory = nil
	return nil
}

// release closes the network of one client after the client has closed. Results that are still in the pool stay valid;
// the memory is then freed when the process ends.
func (n *Network) release() {
	if err := n.Close(); err != nil {
		n.log.Info("GPU memory in use until the process ends", "error", err)
	}
}
