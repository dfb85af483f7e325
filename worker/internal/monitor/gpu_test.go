//go:build cgo

package monitor

import (
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.millstream.dev/internal/device/nvml/nvmltest"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
)

var discard = slog.New(slog.DiscardHandler)

func fakeGPU(t *testing.T, id string) *GPU {
	t.Helper()
	nvmltest.Use(t)
	g := NewGPU(id, discard)
	if g == nil {
		t.Fatalf("no GPU %s", id)
	}
	t.Cleanup(func() {
		g.Close()
		g.sampled() // before the environment, which the library reads, is restored
	})
	return g
}

// sampled waits for the sample that Update has started.
func (g *GPU) sampled() {
	for {
		g.mu.Lock()
		running := g.running
		g.mu.Unlock()
		if !running {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// The names are those of Dask's monitor, of its pages and of its registration.
func TestMetricsOfGPU(t *testing.T) {
	leak.Check(t)
	g := fakeGPU(t, "GPU-fake-3")
	m := New(nil, g)
	got := m.Recent()
	for name, want := range map[string]any{
		"gpu":             msgpack.MapOf("utilization", 30, "memory-used", int64(4<<30)),
		"gpu_utilization": 30, "gpu_memory_used": int64(4 << 30), "gpu-memory-total": int64(40 << 30),
	} {
		if v, ok := got.Get(name); !ok || !reflect.DeepEqual(v, want) {
			t.Errorf("%s: got %v, want %v", name, v, want)
		}
	}
	if got, want := g.Extra(), msgpack.MapOf("memory-total", int64(40<<30), "name", "Fake GPU"); !reflect.DeepEqual(got,
		want) {
		t.Errorf("extra: got %v, want %v", got, want)
	}
	g.sampled()
	info := m.Info(true, 0)
	if v := column(t, info, "gpu_utilization"); v != 30 {
		t.Errorf("gpu_utilization of get_monitor_info: got %v, want 30", v)
	}
	if v, _ := info.Get("gpu_name"); v != "Fake GPU" {
		t.Errorf("gpu_name: got %v, want Fake GPU", v)
	}
	used, _ := column(t, m.Info(false, 0), "gpu_memory_used").([]any)
	if len(used) != m.samples() || slices.ContainsFunc(used, func(v any) bool { return v != int64(4<<30) }) {
		t.Errorf("gpu_memory_used: got %v, want %d samples of %d", used, m.samples(), int64(4<<30))
	}
}

func TestUpdateOfGPU(t *testing.T) {
	leak.Check(t)
	g := fakeGPU(t, "6") // CUDA_VISIBLE_DEVICES may have indexes
	for _, want := range []string{"17", "99"} {
		t.Setenv("FAKE_NVML_BUSY", want)
		g.Update()
		g.sampled()
		if s, ok := g.Latest(); !ok || s.Utilization != map[string]int{"17": 17, "99": 99}[want] {
			t.Errorf("got %+v, %v, want a utilization of %s", s, ok, want)
		}
	}
	// A GPU that was lost keeps its last sample until that is old.
	t.Setenv("FAKE_NVML", "gone")
	g.Update()
	g.sampled()
	if s, ok := g.Latest(); !ok || s.Utilization != 99 {
		t.Errorf("lost GPU: got %+v, %v, want the last sample", s, ok)
	}
	g.mu.Lock()
	g.at = g.at.Add(-sampleAge)
	g.mu.Unlock()
	if s, ok := g.Latest(); ok || len(g.metrics()) != 0 {
		t.Errorf("old sample: got %+v, want none", s)
	}
}

// A MIG instance has memory, and no utilization: None in Python.
func TestInstance(t *testing.T) {
	leak.Check(t)
	got := fakeGPU(t, "MIG-0").metrics()
	if v, ok := got.Get("gpu_utilization"); !ok || v != nil {
		t.Errorf("gpu_utilization: got %v, %v, want nil", v, ok)
	}
	if v, _ := got.Get("gpu-memory-total"); v != int64(20<<30) {
		t.Errorf("gpu-memory-total: got %v, want %d", v, int64(20<<30))
	}
}

func TestNoGPU(t *testing.T) {
	leak.Check(t)
	nvmltest.Use(t)
	for _, id := range []string{"", "-1", "9", "GPU-none"} {
		if g := NewGPU(id, discard); g != nil {
			t.Errorf("%q: got a GPU, want none", id)
		}
	}
	t.Setenv("FAKE_NVML", "init")
	if g := NewGPU("GPU-fake-0", discard); g != nil {
		t.Error("library that does not start: got a GPU, want none")
	}
	var none *GPU
	none.Update()
	none.Close()
	if _, ok := none.Latest(); ok || none.Extra() != nil || len(none.metrics()) != 0 {
		t.Error("a worker without a GPU reports one")
	}
}

func TestOwnGPU(t *testing.T) {
	for text, want := range map[string]string{"": "", "2,3": "2", " GPU-a ,GPU-b": "GPU-a", "-1": "-1"} {
		t.Setenv("CUDA_VISIBLE_DEVICES", text)
		if got := OwnGPU(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
