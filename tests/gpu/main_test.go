// Package gpu tests device memory between two processes through the public packages ucx, cuda and
// mem. Every test is named TestGPU… and needs a CUDA device; `make gpu-test-bundle` packs them for a
// machine with one.
package gpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// roleVariable makes the test binary the second process instead of running tests.
const roleVariable = "MILLSTREAM_GPU_TEST_ROLE"

// device is the GPU that both processes use.
const device = 0

// patience bounds every wait. It is generous: two processes share the GPU by turns.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(servePeer(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// requireGPU skips a test where there is nothing to test with.
func requireGPU(t testing.TB) {
	t.Helper()
	if err := cuda.Available(); err != nil {
		t.Skip("no GPU: " + err.Error())
	}
	lib, err := ucx.Library()
	if err != nil {
		t.Skip("no GPU: " + err.Error())
	}
	if !lib.CUDA {
		t.Skipf("no GPU: %s has no CUDA support", lib.Path)
	}
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// settings are what UCX is asked for. With nothing set it chooses by itself.
var settings = []struct {
	name      string
	options   map[string]string
	transport string // that the endpoint must have
}{
	{"cuda_ipc", map[string]string{"TLS": "self,shm,tcp,cuda_copy,cuda_ipc"}, "cuda_ipc"},
	{"nothing set", nil, ""},
}

// ipc asks for cuda_ipc.
var ipc = settings[0].options

// sizes of messages: the smallest, odd ones, both sides of the usual protocol limits, large.
var sizes = []int{1, 7, 1024, 8191, 65537, 1<<20 - 1, 1 << 20, 8<<20 + 13, 64 << 20}

// seed begins a new pattern: no round sees the bytes of an earlier one.
func seed() uint64 { return rand.Uint64() }

// newWorker makes a context and a worker that end with the test.
func newWorker(t testing.TB, options map[string]string, cfg ucx.WorkerConfig) *ucx.Worker {
	t.Helper()
	c, err := ucx.NewContext(ucx.Config{Options: options})
	must(t, err)
	w, err := c.NewWorker(cfg)
	must(t, err)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// checkTransports fails unless a transport of the transport is among the endpoint's.
func checkTransports(t testing.TB, ep *ucx.Endpoint, transport string) {
	t.Helper()
	transports, err := ep.Transports()
	must(t, err)
	t.Logf("transports: %v", transports)
	if transport != "" && !slices.ContainsFunc(transports, func(l ucx.Transport) bool { return l.Name == transport }) {
		t.Errorf("transports %v: no %s among them", transports, transport)
	}
}

// contexts counts the devices on which this process has a CUDA context.
func contexts() (n int, err error) {
	count, err := cuda.DeviceCount()
	if err != nil {
		return 0, err
	}
	for i := range count {
		has, err := cuda.HasContext(i)
		if err != nil {
			return 0, err
		}
		if has {
			n++
		}
	}
	return n, nil
}

// resource returns a source of one kind of memory by its name.
func resource(kind string) (mem.Resource, error) {
	switch kind {
	case "device":
		return cuda.NewDeviceResource(device), nil
	case "pool":
		return devicePool()
	case "managed":
		return cuda.NewManagedResource(device), nil
	case "pinned":
		return cuda.NewPinnedResource(device), nil
	case "foreign":
		return foreign{cuda.NewDeviceResource(device)}, nil
	case "async":
		s, err := orderedStream()
		if err != nil {
			return nil, err
		}
		return cuda.NewAsyncResource(s), nil
	case "heap":
		return mem.Heap, nil
	case "mmap":
		return mem.NewMmap(mem.MmapConfig{}), nil
	}
	return nil, fmt.Errorf("no kind of memory is called %q", kind)
}

// orderedStream is the stream in whose order "async" memory is allocated and freed.
var orderedStream = sync.OnceValues(func() (*cuda.Stream, error) { return cuda.NewStream(device, cuda.StreamConfig{}) })

// devicePool is the pool that "pool" memory comes from. It lasts as long as the process.
var devicePool = sync.OnceValues(func() (*mem.Pool, error) {
	return mem.NewPool(cuda.NewDeviceResource(device), mem.PoolConfig{InitialBytes: 256 << 20})
})

// byteCount writes a size for a test's name.
func byteCount(n int) string { return strings.ReplaceAll(fmt.Sprintf("%d B", n), " ", "") }
