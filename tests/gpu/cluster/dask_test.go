package cluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/wire"
)

// startDask starts one of Dask's processes and returns its address. It ends with the test.
func startDask(t *testing.T, script string, args ...string) string {
	t.Helper()
	python := os.Getenv("MILLSTREAM_PEER_PYTHON")
	if python == "" {
		t.Fatal("MILLSTREAM_PEER_PYTHON names no Python with distributed-ucxx: run the tests by the bundle's run.sh")
	}
	cmd := exec.Command(python, append([]string{"testdata/" + script}, args...)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.Env = append(os.Environ(), "DASK_DISTRIBUTED_UCXX__CREATE_CUDA_CONTEXT=True")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(15 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", script, log.Bytes())
		}
	})
	address := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() { // UCX says things, too
			if strings.Contains(lines.Text(), "://") {
				address <- lines.Text()
			}
		}
		close(address)
	}()
	select {
	case a, ok := <-address:
		if !ok {
			t.Fatalf("%s has ended", script)
		}
		return a
	case <-time.After(patience / 2):
		t.Fatalf("%s does not say where it is", script)
	}
	return ""
}

// The functions of Python's tasks. Arrays are made of the pattern's bytes, which come as an argument.
const (
	pyMake = `
def make(data, kind, dtype, shape, order):
    import cupy
    a = cupy.asarray(bytearray(data), dtype="u1").view(dtype).reshape(shape, order=order)
    cupy.cuda.get_current_stream().synchronize()
    if kind == "numba":
        import numba.cuda
        return numba.cuda.as_cuda_array(a)
    if kind == "rmm":
        import rmm
        return rmm.DeviceBuffer.to_device(bytes(data))
    return a
`
	pyLook = `
def look(a):
    import hashlib, os
    import cupy
    at = a.__cuda_array_interface__["data"][0]
    kind = cupy.cuda.runtime.pointerGetAttributes(at).type
    name = f"{type(a).__module__}.{type(a).__qualname__}".replace("cupy._core.core", "cupy")
    b = cupy.asarray(a)
    return {"Pid": os.getpid(), "SHA256": hashlib.sha256(b.get(order="A").tobytes(order="A")).hexdigest(), "Class": name,
            "DType": b.dtype.str, "Shape": list(b.shape), "Memory": {2: "device"}.get(kind, str(kind))}
`
)

// daskArrays are arrays of every class that crosses.
var daskArrays = []struct {
	kind, class string
	dtype       wire.DType
	shape       []int
	order       string
}{
	{"cupy", wire.CuPyArray, wire.Uint8, []int{1}, "C"},
	{"cupy", wire.CuPyArray, wire.Float64, []int{300, 1001}, "C"},
	{"cupy", wire.CuPyArray, wire.Float32, []int{70, 50}, "F"},
	{"cupy", wire.CuPyArray, wire.Int64, []int{8 << 20}, "C"}, // 64 MiB
	{"numba", wire.NumbaArray, wire.Int32, []int{4096}, "C"},
	{"rmm", wire.RMMBuffer, wire.Uint8, []int{100_003}, "C"},
}

// TestGPUDaskCluster has Go workers with a GPU and one of Dask's own with CuPy in one cluster over ucxx://: Go's tasks
// take arrays that Python has made and Python's take arrays that Go has made, in device memory on both ends.
//
// Over tcp:// Dask has no device memory: what Python sends arrives in Go's host memory, what Go sends is on the device
// again when Python's task gets it.
func TestGPUDaskCluster(t *testing.T) {
	requireGPU(t)
	for _, tc := range []struct{ protocol, memory string }{{"ucxx", "device"}, {"tcp", "heap"}} {
		t.Run(tc.protocol, func(t *testing.T) { daskCluster(t, tc.protocol, tc.memory) })
	}
}

// TestGPUDaskScheduler is the same under Dask's own scheduler, which Go's worker, nannied by this process, and Go's
// client have joined.
func TestGPUDaskScheduler(t *testing.T) {
	requireGPU(t)
	ctx := testContext(t)
	scheduler := startDask(t, "dask_scheduler.py", "ucxx")
	python := startDask(t, "dask_worker.py", scheduler, "python")
	machine, err := cluster.ThisCUDAMachine()
	must(t, err)
	plan, err := cluster.CUDAConfig{Devices: []string{"0"}, RMM: cluster.RMMConfig{PoolSize: "2GiB"},
		Protocol: "ucxx"}.Plan(machine)
	must(t, err)
	w := plan.Workers[0]
	n, err := cluster.StartNanny(w.Spec(cluster.WorkerSpec{Scheduler: scheduler, Listen: "ucxx://127.0.0.1:0",
		Dashboard: "127.0.0.1:0"}), cluster.NannyConfig{Env: w.Env})
	must(t, err)
	t.Cleanup(func() { _ = n.Close() })
	c, err := client.Connect(ctx, scheduler, client.Config{})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, n.Ready(ctx))
	must(t, c.WaitForWorkers(ctx, 2))
	daskArraysCross(t, ctx, c, n.Info(), python, "device")
}

func daskCluster(t *testing.T, protocol, memory string) {
	ctx := testContext(t)
	cl, c, workers := twoOnOne(t, ctx, client.Config{}, cluster.Config{Protocol: protocol})
	python := startDask(t, "dask_worker.py", cl.Address(), "python")
	must(t, c.WaitForWorkers(ctx, 3))
	daskArraysCross(t, ctx, c, workers[0], python, memory)
}

// daskArraysCross exchanges arrays between a Go worker and one of Dask's; memory is where Python's are in Go's tasks.
func daskArraysCross(t *testing.T, ctx context.Context, c *client.Client, worker cluster.WorkerInfo, python,
	memory string) {
	t.Helper()
	ours, theirs := client.WithWorkers(worker.Address), client.WithWorkers(python)
	makeThere := client.PythonSource[*wire.DeviceArray](pyMake).With(theirs)
	lookThere := client.PythonSource[seen](pyLook).With(theirs)

	for i, a := range daskArrays {
		n := a.dtype.ItemSize()
		for _, d := range a.shape {
			n *= d
		}
		data := pattern(int64(i), n)
		shape := make([]any, len(a.shape))
		for j, d := range a.shape {
			shape[j] = d
		}
		made := makeThere.Submit(ctx, c, blobOf(ctx, c, data), a.kind, string(a.dtype), shape, a.order)
		s, err := lookFunc.Submit(ctx, c, made, ours).Result(ctx)
		if err != nil || s.SHA256 != shaOf(data) || s.Class != a.class || s.DType != string(a.dtype) ||
			s.Memory != memory || fmt.Sprint(s.Shape) != fmt.Sprint(a.shape) {
			t.Errorf("%s %s %v of Python in Go: %+v, %v", a.kind, a.dtype, a.shape, s, err)
		}
		back := sameFunc.Submit(ctx, c, made, ours) // Go's now, whatever Python had called it
		s, err = lookThere.Submit(ctx, c, back).Result(ctx)
		if err != nil || s.SHA256 != shaOf(data) || s.Class != a.class || s.Memory != "device" ||
			fmt.Sprint(s.Shape) != fmt.Sprint(a.shape) {
			t.Errorf("%s %s %v back in Python: %+v, %v", a.kind, a.dtype, a.shape, s, err)
		}
	}
	for i, n := range sizes {
		made := makeFunc.Submit(ctx, c, client.Val(n), client.Val(int64(i)), ours)
		s, err := lookThere.Submit(ctx, c, made).Result(ctx)
		if err != nil || s.SHA256 != shaOf(pattern(int64(i), int(n))) || s.Class != wire.CuPyArray ||
			s.Memory != "device" {
			t.Errorf("%d bytes of Go in Python: %+v, %v", n, s, err)
		}
	}
	if memory != "device" {
		return
	}
	for _, m := range incoming(t, ctx, worker) {
		t.Logf("from %s: %d bytes, %d on the device, over %s %v in %.1f µs", m.Peer, m.Bytes, m.DeviceBytes, m.Scheme,
			m.Transports, m.Duration*1e6)
		if m.Peer == python && m.DeviceBytes > 0 && !slices.Contains(m.Transports, "cuda_ipc") {
			t.Errorf("device memory came without cuda_ipc: %+v", m)
		}
	}
}

// blobOf is data as an argument: long ones are scattered.
func blobOf(ctx context.Context, c *client.Client, data []byte) any {
	if len(data) < 1<<20 {
		return data
	}
	f, err := client.Scatter(ctx, c, [][]byte{data}, client.ScatterOptions{})
	if err != nil {
		return err.Error()
	}
	return f[0]
}
