package cluster

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"go.millstream.dev/config"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/devmem/devmemtest"
)

// settingsOf returns the settings of an environment.
func settingsOf(t *testing.T, env ...string) *config.Settings {
	t.Helper()
	s, err := configured(t, env...).Settings(config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func noGPU() *devmemtest.GPU {
	g := devmemtest.New(0)
	g.NoDriver = cuda.ErrUnavailable
	return g
}

// A scheduler creates the pool, in any spelling; without a GPU it logs one line.
func TestSchedulerPool(t *testing.T) {
	for _, c := range []struct {
		env  string
		gpu  *devmemtest.GPU
		pool int64
		want string
	}{
		{"", devmemtest.New(100 << 20), 0, ""},
		{"DASK_RMM__POOL_SIZE=20MiB", devmemtest.New(100 << 20), 20 << 20, ""},
		{"DASK_DISTRIBUTED__RMM__POOL_SIZE=20MiB", devmemtest.New(100 << 20), 20 << 20, ""},
		{"DASK_DISTRIBUTED_UCXX__RMM__POOL_SIZE=20MiB", devmemtest.New(100 << 20), 20 << 20, ""},
		{"DASK_RMM__POOL_SIZE=20MiB", noGPU(), 0, `"rmm.pool-size ignored" bytes=20971520 ` +
			`source=DASK_RMM__POOL_SIZE error="`},
		{"DASK_RMM__POOL_SIZE=20GiB", devmemtest.New(100 << 20), 0, `error="devmem: pool of 21474836480 bytes`},
	} {
		var env []string
		if c.env != "" {
			env = []string{c.env}
		}
		var log bytes.Buffer
		s := settingsOf(t, env...)
		pool, done := schedulerPool(s.RMM.PoolSize, poolSource(s), fakeMachine(c.gpu),
			slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
		if used, _ := c.gpu.Used(); used != c.pool || (pool != nil) != (c.pool > 0) {
			t.Errorf("%q: pool %v, %d bytes", c.env, pool, used)
		}
		if c.want == "" && log.Len() > 0 || !strings.Contains(log.String(), c.want) ||
			strings.Count(log.String(), "\n") > 1 {
			t.Errorf("%q: log: got %q", c.env, log.String())
		}
		if contexts, _, _ := c.gpu.Contexts(); c.env == "" && contexts > 0 {
			t.Error("a scheduler without a pool has created a CUDA context")
		}
		done()
		if used, _ := c.gpu.Used(); used != 0 {
			t.Errorf("%q: %d bytes are left", c.env, used)
		}
	}
}

// The scheduler of LocalCUDA has a pool as large as those of its workers, if they leave space for it.
func TestPlannedSchedulerPool(t *testing.T) {
	worker := CUDAWorker{Setup: &DeviceSpec{UUID: "GPU-fake", PoolSize: 40 << 20}}
	for _, c := range []struct {
		workers []CUDAWorker
		pool    int64
		want    string
	}{
		{[]CUDAWorker{{Setup: &DeviceSpec{}}}, 0, ""},
		{[]CUDAWorker{{}}, 0, ""},
		{[]CUDAWorker{worker}, 40 << 20, ""},
		{[]CUDAWorker{worker, worker}, 0, "leave no space for that of the scheduler"},
	} {
		g := devmemtest.New(100 << 20)
		var log bytes.Buffer
		p := &CUDAPlan{Workers: c.workers}
		_, done := p.schedulerPool(fakeMachine(g), slog.New(slog.NewTextHandler(&log,
			&slog.HandlerOptions{Level: slog.LevelWarn})))
		if used, _ := g.Used(); used != c.pool || !strings.Contains(log.String(), c.want) {
			t.Errorf("%d bytes, %q", used, log.String())
		}
		done()
	}
}

// A worker without a plan has the pool of the configuration.
func TestConfiguredDevice(t *testing.T) {
	restore := setConfig(t, "distributed-ucxx.rmm.pool-size", "20MiB")
	defer restore()
	d, err := configuredDevice(0, fakeMachine(devmemtest.New(100<<20)), discard)
	if err != nil || d == nil || d.PoolSize != 20<<20 {
		t.Errorf("got %+v, %v, want a pool of 20 MiB", d, err)
	}
	var log bytes.Buffer
	d, err = configuredDevice(0, fakeMachine(noGPU()), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || d != nil || !strings.Contains(log.String(), cuda.ErrUnavailable.Error()) {
		t.Errorf("without a GPU: got %+v, %v, log %q, want no device and a warning", d, err, log.String())
	}
	d, err = configuredDevice(30<<20, fakeMachine(devmemtest.New(100<<20)), discard)
	if err != nil || d == nil || d.PoolSize != 30<<20 {
		t.Errorf("an option wins: %+v, %v", d, err)
	}
	restore()
	if d, err := configuredDevice(0, fakeMachine(devmemtest.New(100<<20)), discard); err != nil || d != nil {
		t.Errorf("without a pool: got %+v, %v, want no device", d, err)
	}
}

func setConfig(t *testing.T, key string, value any) func() {
	t.Helper()
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	restore, err := c.SetFrom(config.Source{Kind: config.KindFlag, Name: "test"}, map[string]any{key: value})
	if err != nil {
		t.Fatal(err)
	}
	return restore
}

// A Network has the pool of its clients, separate from those of other networks.
func TestNetworkPool(t *testing.T) {
	g := devmemtest.New(100 << 20)
	open := func(size string) (*Network, error) {
		t.Helper()
		restore := setConfig(t, "distributed-ucxx.rmm.pool-size", size)
		defer restore()
		return newNetwork(NetworkConfig{Logger: discard}, fakeMachine(g))
	}
	n, err := open("20MiB")
	if err != nil {
		t.Fatal(err)
	}
	want := `millstream_device_memory_bytes{device="GPU-fake",type="pool"} 2.097152e+07`
	if got := gathered(t, n.Collector()); n.device() == nil || !strings.Contains(got, want) {
		t.Errorf("the metrics are\n%s", got)
	}
	if got := n.Settings().RMM.PoolSize; got != 20<<20 {
		t.Errorf("the pool's size: got %d, want 20 MiB", got)
	}
	second, err := open("30MiB")
	if err != nil {
		t.Fatal(err)
	}
	if used, _ := g.Used(); used != 50<<20 {
		t.Errorf("two networks use %d bytes, want 50 MiB", used)
	}
	b, err := n.device().Alloc(t.Context(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err == nil || !strings.Contains(err.Error(), "release the gathered results first") {
		t.Errorf("Close of a pool in use: got %v, want an error", err)
	}
	n.release() // logs it, and the buffer stays valid
	b.Release()
	for range 2 {
		if err := errors.Join(n.Close(), second.Close()); err != nil {
			t.Error(err)
		}
	}
	if n.device() != nil {
		t.Error("a closed network still has a pool")
	}
	if used, _ := g.Used(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
	if _, err := open("200MiB"); err == nil || !strings.Contains(err.Error(), "rmm-pool-size) on") {
		t.Errorf("pool larger than the GPU: got %v, want an error", err)
	}
	g.NoDriver = cuda.ErrUnavailable
	if n, err := open("30MiB"); err != nil || n.device() != nil {
		t.Errorf("without a GPU: got %v, want no pool", err)
	}
	g.NoDriver = nil
	if n, err := open("0"); err != nil || n.device() != nil {
		t.Errorf("without a size: got %v, want no pool", err)
	}
}

// gathered returns the metrics of a collector for devices, as text.
func gathered(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "millstream_device") {
			continue
		}
		for _, m := range f.Metric {
			b.WriteString(f.GetName() + "{")
			for i, l := range m.Label {
				if i > 0 {
					b.WriteString(",")
				}
				b.WriteString(l.GetName() + `="` + l.GetValue() + `"`)
			}
			b.WriteString("} " + strings.TrimSpace(strings.TrimPrefix(m.GetGauge().String(), "value:")) + "\n")
		}
	}
	return b.String()
}
