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

// Network has the transports and the pool of GPU memory of clients (Dask-CUDA: dask_cuda.initialize). Connect makes
// one from the configuration for each client; a program that has several clients, or that chooses transports in Go,
// makes one by NewNetwork and passes it in ConnectOptions. Its methods may be called by several goroutines.
type Network struct {
	settings *config.Settings
	comms    comm.Network
	log      *slog.Logger

	mu     sync.Mutex // owns what follows
	memory *devmem.Memory
}

// NetworkConfig is the argument of NewNetwork. The zero value is useful: the environment and the files of Dask's
// configuration say everything (DASK_DISTRIBUTED_UCXX__*, the old DASK_UCX__*, DASK_RMM__POOL_SIZE).
type NetworkConfig struct {
	// Config is the configuration (default config.Default).
	Config *config.Config
	// Overrides win over Config.
	Overrides config.Overrides
	// Logger gets warnings about the configuration (default slog.Default).
	Logger *slog.Logger
}

// NewNetwork returns a network. Where the settings name transports or network devices, UCX is loaded and asked for
// them now: an error says what UCX does not have.
//
// With rmm.pool-size, in any spelling, a pool of GPU memory is made on device 0 now, and device results that clients
// gather over UCX arrive there; without it they arrive in host memory, and no CUDA context is made unless
// distributed-ucxx.create-cuda-context is true. On a machine without a GPU the pool is ignored, with a line in the log.
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
		n.log.Warn(w.Text, "source", w.Source.String())
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

// probe asks UCX whether it can do what the settings want. A machine without UCX can do
// nothing of it.
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
			return fmt.Errorf("cluster: UCX finds no network device %q with the transports of %s; it has %s",
				name, s.Options["TLS"], strings.Join(have, ", "))
		}
	}
	return nil
}

// openPool makes the pool that the settings ask for. On a machine without a GPU the log says that it is ignored.
func (n *Network) openPool(m gpuMachine) error {
	size := n.settings.RMM.PoolSize
	if size&^255 == 0 {
		return nil
	}
	memory, err := m.open(devmem.Config{PoolSize: size &^ 255})
	switch {
	case errors.Is(err, cuda.ErrUnavailable):
		n.log.Warn(ignored(size, poolSource(n.settings), err))
		return nil
	case err != nil:
		return fmt.Errorf("cluster: rmm.pool-size (%s): %w", poolSource(n.settings), err)
	}
	n.log.Info("GPU memory", "device", memory.Device().String(), "pool", size&^255)
	n.memory = memory
	return nil
}

// Settings returns the effective settings, with their sources. The caller must not change them.
func (n *Network) Settings() *config.Settings { return n.settings }

// Collector returns the figures of the process's GPU memory for Prometheus (millstream_device_memory_bytes and
// others): prometheus.MustRegister(n.Collector()).
func (n *Network) Collector() prometheus.Collector { return devmem.Collector{} }

// device returns what device results are received into; nil is host memory.
func (n *Network) device() mem.Resource {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.memory == nil {
		return nil
	}
	return n.memory.Resource()
}

// Close frees the pool of GPU memory. It fails while a client's results are in the pool: release them first, then
// call Close again. It is idempotent.
func (n *Network) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.memory == nil {
		return nil
	}
	if err := n.memory.Close(); err != nil {
		return fmt.Errorf("cluster: the pool of GPU memory is in use: release what was gathered: %w", err)
	}
	n.memory = nil
	return nil
}

// release closes a network that belongs to one client, when that has closed. Results that are still in the pool stay
// valid; the memory is then freed when the process ends.
func (n *Network) release() {
	if err := n.Close(); err != nil {
		n.log.Info("GPU memory goes with the process", "error", err)
	}
}
