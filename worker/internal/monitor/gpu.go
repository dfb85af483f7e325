package monitor

import (
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/internal/device/nvml"
	"go.millstream.dev/internal/wire/msgpack"
)

const (
	// firstSample is how long NewGPU waits for the driver: the registration carries the GPU's name.
	firstSample = 2 * time.Second
	// sampleAge is the age at which a sample is no longer reported: the driver hangs, or the GPU is lost.
	sampleAge = 10 * time.Second
)

// GPU samples the use of the GPU of a worker. A nil *GPU is a worker without one. Any goroutine may use it.
type GPU struct {
	library *nvml.Library
	device  nvml.Device
	name    string

	mu      sync.Mutex // guards the fields below
	last    nvml.Sample
	at      time.Time // of last; zero without one
	running bool      // a sample is being taken
	closed  bool
}

// OwnGPU returns the UUID or index of the GPU that a process without a configured one uses: the first of
// CUDA_VISIBLE_DEVICES, as in Dask. It is "" without one.
func OwnGPU() string {
	first, _, _ := strings.Cut(os.Getenv("CUDA_VISIBLE_DEVICES"), ",")
	return strings.TrimSpace(first)
}

// NewGPU returns a sampler for the GPU or MIG instance with a UUID or index. It returns nil if id is empty, or if the
// driver does not know the device: workers without NVIDIA's management library report no GPU.
func NewGPU(id string, log *slog.Logger) *GPU {
	if id == "" || strings.HasPrefix(id, "-") {
		return nil
	}
	ready := make(chan *GPU, 1)
	go func() { ready <- openGPU(id, log) }()
	t := time.NewTimer(firstSample)
	defer t.Stop()
	select {
	case g := <-ready:
		return g
	case <-t.C:
		log.Warn("GPU not sampled: driver does not reply", "device", id)
		return nil
	}
}

func openGPU(id string, log *slog.Logger) *GPU {
	l, err := nvml.Open()
	if err != nil {
		log.Debug("GPU not sampled", "device", id, "error", err)
		return nil
	}
	g := &GPU{library: l}
	if i, e := strconv.Atoi(id); e == nil {
		g.device, err = l.ByIndex(i)
	} else {
		g.device, err = l.ByUUID(id)
	}
	if err == nil {
		g.last, err = g.device.Sample()
	}
	if err != nil {
		log.Warn("GPU not sampled", "device", id, "error", err)
		_ = l.Close()
		return nil
	}
	g.name, _ = g.device.Name()
	g.at = time.Now()
	return g
}

// Update starts to take a sample, unless the previous one is still being taken: a GPU that has failed can block a call
// of the driver indefinitely.
func (g *GPU) Update() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running || g.closed {
		return
	}
	g.running = true
	go func() {
		s, err := g.device.Sample()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running = false
		if err == nil {
			g.last, g.at = s, time.Now()
		}
		if g.closed {
			_ = g.library.Close()
		}
	}()
}

// Latest returns the last sample, and false if there is none of the last ten seconds.
func (g *GPU) Latest() (nvml.Sample, bool) {
	if g == nil {
		return nvml.Sample{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last, time.Since(g.at) < sampleAge
}

// Close stops the sampler. It does not wait for the driver.
func (g *GPU) Close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed && !g.running {
		_ = g.library.Close()
	}
	g.closed = true
}

// Extra returns the field gpu of a registration's extra, in Dask's form; nil without a GPU.
func (g *GPU) Extra() msgpack.Map {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return msgpack.MapOf("memory-total", known(g.last.Total), "name", g.name)
}

// metrics returns the fields of a heartbeat's metrics, under the names of Dask's monitor and of its pages.
func (g *GPU) metrics() msgpack.Map {
	s, ok := g.Latest()
	if !ok {
		return nil
	}
	use, used := known(s.Utilization), known(s.Used)
	return msgpack.Map{
		{Key: "gpu", Value: msgpack.MapOf("utilization", use, "memory-used", used)},
		{Key: "gpu-memory-total", Value: known(s.Total)},
		{Key: "gpu_utilization", Value: use},
		{Key: "gpu_memory_used", Value: used},
	}
}

// known returns n, or nil, which is None in Python, for what the device does not report.
func known[T int | int64](n T) any {
	if n < 0 {
		return nil
	}
	return n
}
