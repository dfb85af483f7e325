package cluster

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/internal/device/devmem/devmemtest"
)

// The metrics of the scheduler of a local cluster include the GPU memory of its process.
func TestSchedulerShowsDeviceMemory(t *testing.T) {
	m, err := devmem.OpenWith(devmem.Config{PoolSize: 20 << 20}, devmemtest.New(100<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	opts := Config{Workers: 1, Threads: 1, Mode: Goroutines, Protocol: "inproc", Dashboard: "127.0.0.1:0",
		Logger: discard}
	c, err := Local(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := http.Get("http://" + c.Scheduler().DashboardAddress() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	const want = `millstream_device_memory_bytes{device="GPU-fake",type="pool"} 2.097152e+07`
	if err != nil || !strings.Contains(string(text), want) {
		t.Errorf("/metrics: got %.2000s, %v; want %s", text, err, want)
	}
}
