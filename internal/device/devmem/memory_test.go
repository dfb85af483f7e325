package devmem_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/internal/device/devmem/devmemtest"
	"go.millstream.dev/mem"
)

const mib = 1 << 20

func open(t *testing.T, g *devmemtest.GPU, cfg devmem.Config) *devmem.Memory {
	t.Helper()
	m, err := devmem.OpenWith(cfg, g)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if used, _ := g.Used(); used != 0 {
			t.Errorf("%d bytes are left on the GPU", used)
		}
	})
	return m
}

func alloc(t *testing.T, r mem.Resource, n int) *mem.Buffer {
	t.Helper()
	b, err := r.Alloc(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Each option has its effect, seen from the driver's side.
func TestOptions(t *testing.T) {
	log := filepath.Join(t.TempDir(), "rmm_log_0.txt")
	for _, c := range []struct {
		name      string
		cfg       devmem.Config
		kind      mem.Kind
		atStart   int64 // on the GPU before anything is allocated
		more      int64 // of an allocation of 1 MiB
		threshold int64
		most      int // that can be allocated in all, in MiB; 0: not asked
	}{
		{"plain", devmem.Config{}, mem.Device, 0, mib, 0, 100},
		{"pool", devmem.Config{PoolSize: 10 * mib}, mem.Device, 10 * mib, 0, 0, 0},
		{"bounded pool", devmem.Config{PoolSize: 10 * mib, MaximumPoolSize: 20 * mib}, mem.Device, 10 * mib, 0, 0, 20},
		{"managed", devmem.Config{Managed: true}, mem.Managed, 0, mib, 0, 0},
		{"managed pool", devmem.Config{Managed: true, PoolSize: 10 * mib}, mem.Managed, 10 * mib, 0, 0, 0},
		{"driver's pool", devmem.Config{Async: true, ReleaseThreshold: 7 * mib}, mem.Device, 0, mib, 7 * mib, 0},
		{"first size of the driver's pool", devmem.Config{Async: true, PoolSize: 30 * mib, ReleaseThreshold: 7 * mib},
			mem.Device, 0, mib, 30 * mib, 0},
		{"bounded pool of the driver", devmem.Config{Async: true, MaximumPoolSize: 5 * mib}, mem.Device, 0, mib, 0, 5},
		{"log and track", devmem.Config{Log: log, Track: true}, mem.Device, 0, mib, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := devmemtest.New(100 * mib)
			m := open(t, g, c.cfg)
			if contexts, _, kept := g.Contexts(); contexts != 1 || kept != c.threshold {
				t.Errorf("%d contexts, %d bytes are kept", contexts, kept)
			}
			r := m.Resource()
			if r.Kind() != c.kind {
				t.Errorf("kind %v", r.Kind())
			}
			if used, _ := g.Used(); used != c.atStart {
				t.Errorf("%d bytes at the start", used)
			}
			b := alloc(t, r, mib)
			if used, _ := g.Used(); used != c.atStart+c.more {
				t.Errorf("%d bytes with 1 MiB", used)
			}
			if s := m.Stats(); s.InUse != mib || s.Peak != mib || s.Allocations != 1 || s.Device != "GPU-fake" ||
				s.Maximum != c.cfg.MaximumPoolSize {
				t.Errorf("%+v", s)
			}
			b.Release()
			var all []*mem.Buffer
			for c.most > 0 {
				b, err := r.Alloc(t.Context(), mib)
				if err != nil {
					if !errors.Is(err, mem.ErrOutOfMemory) {
						t.Error(err)
					}
					break
				}
				all = append(all, b)
			}
			if len(all) != c.most {
				t.Errorf("%d MiB can be allocated, want %d", len(all), c.most)
			}
			for _, b := range all {
				b.Release()
			}
		})
	}
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), ",allocate,0x") || strings.Count(string(text), "\n") != 3 {
		t.Errorf("the log is %q, %v", text, err)
	}
}

// What cannot be is refused, with what to do, and leaves nothing.
func TestRefusals(t *testing.T) {
	old := devmemtest.New(100 * mib)
	old.Info.MemoryPools, old.Info.ManagedMemory = false, false
	none := devmemtest.New(0)
	none.NoDriver = cuda.ErrUnavailable
	for _, c := range []struct {
		name string
		gpu  *devmemtest.GPU
		cfg  devmem.Config
		want string
	}{
		{"no driver", none, devmem.Config{}, cuda.ErrUnavailable.Error()},
		{"async and managed", nil, devmem.Config{Async: true, Managed: true}, "exclude each other"},
		{"larger than the GPU", nil, devmem.Config{PoolSize: 101 * mib}, "104857600 of its 104857600 bytes are free: " +
			"use less, or end other users of the GPU"},
		{"larger than its maximum", nil, devmem.Config{PoolSize: 2 * mib, MaximumPoolSize: mib},
			"is more than rmm-maximum-pool-size"},
		{"negative", nil, devmem.Config{PoolSize: -1}, "negative size"},
		{"no pools of the driver's", old, devmem.Config{Async: true}, "has no memory pools of the driver: " +
			"leave it out"},
		{"no managed memory", old, devmem.Config{Managed: true}, "has no managed memory"},
		{"no folder for the log", nil, devmem.Config{Log: "/nowhere/at/all"}, "rmm-log-directory"},
	} {
		g := c.gpu
		if g == nil {
			g = devmemtest.New(100 * mib)
		}
		m, err := devmem.OpenWith(c.cfg, g)
		if err == nil || m != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", c.name, m, err)
		}
		if used, _ := g.Used(); used != 0 || len(devmem.All()) > 0 {
			t.Errorf("%s: %d bytes are left", c.name, used)
		}
	}
}

// What goes down and up again is the same, whatever its length.
func TestMoves(t *testing.T) {
	g := devmemtest.New(100 * mib)
	m := open(t, g, devmem.Config{})
	for _, n := range []int{0, 1, 4096, 4<<20 - 1, 4 << 20, 4<<20 + 1, 13 << 20} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		up, err := m.Up(t.Context(), m.Resource(), mem.FromBytes(data))
		if err != nil {
			t.Fatal(err)
		}
		if up.Kind() != mem.Device || n > 0 && !bytes.Equal(g.Bytes(up), data) {
			t.Errorf("%d bytes: other data on the GPU", n)
		}
		down, err := m.Down(t.Context(), up)
		if err != nil {
			t.Fatal(err)
		}
		if down.Kind() != mem.Host || !bytes.Equal(down.Bytes(), data) {
			t.Errorf("%d bytes: other data in host memory", n)
		}
		up.Release()
		down.Release()
	}
	// Chunks of 2 MiB from Go's heap and parts of 4 MiB to pinned memory.
	if _, copies, _ := g.Contexts(); copies != (0+1+1+2+2+3+7)+(0+1+1+1+1+2+4) {
		t.Errorf("got %d copies, want 26", copies)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := alloc(t, m.Resource(), mib)
	defer b.Release()
	if _, err := m.Down(ctx, b); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := m.Up(ctx, m.Resource(), mem.FromBytes(make([]byte, mib))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if s := m.Stats(); s.InUse != mib {
		t.Errorf("%+v", s)
	}
	if _, err := m.Up(t.Context(), m.Resource(), mem.FromBytes(make([]byte, 200*mib))); !errors.Is(err,
		mem.ErrOutOfMemory) {
		t.Error(err)
	}
}

// The figures of a process are those of all its memories, and gone with them.
func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(devmem.Collector{})
	figures := func() map[string]float64 {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, f := range families {
			for _, v := range f.Metric {
				name := f.GetName()
				for _, l := range v.Label {
					name += " " + l.GetValue()
				}
				out[name] = v.GetGauge().GetValue() + v.GetCounter().GetValue()
			}
		}
		return out
	}
	if got := figures(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	g := devmemtest.New(100 * mib)
	m, err := devmem.OpenWith(devmem.Config{PoolSize: 10 * mib, MaximumPoolSize: 20 * mib, Track: true}, g)
	if err != nil {
		t.Fatal(err)
	}
	second, err := devmem.OpenWith(devmem.Config{Async: true}, g)
	if err != nil {
		t.Fatal(err)
	}
	b := alloc(t, m.Resource(), mib)
	got := figures()
	for name, want := range map[string]float64{
		"millstream_device_memory_bytes GPU-fake in_use": mib, "millstream_device_memory_bytes GPU-fake pool": 20 * mib,
		"millstream_device_memory_bytes GPU-fake maximum": 20 * mib, "millstream_device_allocations_total GPU-fake": 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if text := m.Leaks(); !strings.Contains(text, "memory_test.go") {
		t.Errorf("leaks %q", text)
	}
	b.Release()
	if text := m.Leaks() + second.Leaks(); text != "" {
		t.Errorf("leaks %q", text)
	}
	if err := errors.Join(second.Close(), m.Close(), m.Close()); err != nil {
		t.Error(err)
	}
	if got := figures(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// A pool whose buffers are out stays as it is, and can be closed later.
func TestCloseBusy(t *testing.T) {
	m := open(t, devmemtest.New(100*mib), devmem.Config{PoolSize: 10 * mib})
	b := alloc(t, m.Resource(), mib)
	if err := m.Close(); !errors.Is(err, mem.ErrBusy) {
		t.Error(err)
	}
	alloc(t, m.Resource(), mib).Release()
	if len(devmem.All()) != 1 {
		t.Error("it is gone")
	}
	b.Release()
}
