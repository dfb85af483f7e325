package clique

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/kmeans"
	"go.millstream.dev/internal/dask/python"
)

// frameWorker is one of Dask's own workers, whose comms receive into memory of RMM, as those of `dask cuda worker` do.
const frameWorker = `
import asyncio, os, sys
import cupy, distributed_ucxx, rmm
from distributed import Worker

async def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    cupy.zeros(1)
    address = sys.argv[1]
    worker = Worker(address, protocol="ucxx", host="127.0.0.1", name="python", nthreads=1, memory_limit=0, dashboard=False)
    await worker
    print(worker.address, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)

asyncio.run(main())
`

// daskFrameWorker starts it and returns its address. It ends with the test.
func daskFrameWorker(t *testing.T, scheduler string) string {
	t.Helper()
	name := os.Getenv("MILLSTREAM_PEER_PYTHON")
	if name == "" {
		t.Fatal("MILLSTREAM_PEER_PYTHON names no Python with distributed-ucxx: run the tests by the bundle's run.sh")
	}
	cmd := exec.Command(name, "-c", frameWorker, scheduler)
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
			t.Logf("log of Dask's worker:\n%s", log.Bytes())
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() { // UCX says things, too
		if a := lines.Text(); strings.Contains(a, "://") {
			return a
		}
	}
	t.Fatal("Dask's worker has ended")
	return ""
}

// pyPart makes a partition of CuPy arrays: numbers, some of them null, booleans and text.
const pyPart = `
def make(first, last):
    import cupy
    i = cupy.arange(first, last)
    text = b"".join(b"r%d" % n for n in range(first, last))
    ends = [0]
    for n in range(first, last):
        ends.append(ends[-1] + len(b"r%d" % n))
    return {"id": i, "x": i.astype("f4") / 2, "y": (i.astype("f8") * 3, i % 3 != 1), "even": i % 2 == 0,
            "name": {"offsets": cupy.asarray(ends, dtype="i4"), "bytes": cupy.asarray(bytearray(text), dtype="u1")}}
`

// pyLook tells what of a frame's partition is on the device, and what is in it.
const pyLook = `

def look(part):
    import cupy
    columns = from_device(part)
    def known(a):
        return isinstance(a, cupy.ndarray) and (a.size == 0 or cupy.cuda.runtime.pointerGetAttributes(a.data.ptr).type == 2)
    twice, label = columns["twice"], columns.get("id")
    return {"Names": list(columns), "Device": all(known(a) for k, a in part.items() if "." in k and k != "millstream.frame"),
            "Sum": float(twice.sum()), "Rows": len(twice), "First": int(label[0])}
`

// looked is what Python has seen.
type looked struct {
	Names  []string
	Device bool
	Sum    float64
	Rows   int
	First  int
}

// Partitions of CuPy arrays on one of Dask's workers become a frame on devices of Go workers, over ucxx://, are worked
// on there, and go back: in device memory on both ends. (A DataFrame of cuDF takes the same way where that is
// installed.)
func TestGPUFrameDask(t *testing.T) {
	requireGPU(t)
	ctx := testContext(t)
	lc, err := cluster.LocalCUDA(ctx, cluster.CUDAConfig{Devices: []string{"0"},
		RMM: cluster.RMMConfig{PoolSize: "1GB"}}, cluster.Config{Protocol: "ucxx"})
	must(t, err)
	t.Cleanup(func() { _ = lc.Close() })
	c, err := lc.Client(ctx)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	there := client.WithWorkers(daskFrameWorker(t, lc.Address()))
	must(t, c.WaitForWorkers(ctx, 2))

	maker := client.PythonSource[*client.Opaque](pyPart).With(there)
	var made []*client.Future[*client.Opaque]
	ends := []int{0, 1000, 1010, 3000}
	for i := range ends[1:] {
		made = append(made, maker.Submit(ctx, c, ends[i], ends[i+1]))
	}
	must(t, client.Publish(ctx, c, "points", made, false))
	df, err := frame.FromDask(ctx, c, "points", frame.Device, there)
	must(t, err)
	t.Logf("from Dask: %v", df.Schema())

	host, err := df.ToHost(ctx)
	must(t, err)
	batches, err := host.Collect(ctx)
	must(t, err)
	n := 0
	for _, b := range batches {
		id, x, y := b.Column(0).(*array.Int64), b.Column(1).(*array.Float32), b.Column(2).(*array.Float64)
		even, name := b.Column(3).(*array.Boolean), b.Column(4).(*array.String)
		for i := range int(b.NumRows()) {
			if id.Value(i) != int64(n) || x.Value(i) != float32(n)/2 || y.IsNull(i) != (n%3 == 1) || y.IsValid(i) &&
				y.Value(i) != float64(3*n) ||
				even.Value(i) != (n%2 == 0) || !strings.HasPrefix(name.Value(i), "r") {
				t.Fatalf("row %d came as %v", n, b.NewSlice(int64(i), int64(i+1)))
			}
			n++
		}
	}
	if n != 3000 {
		t.Errorf("%d rows came", n)
	}

	twice, err := df.Map(ctx, doubled, nil) // it looks whether all is on the device
	must(t, err)
	must(t, twice.Publish(ctx, "twice", false))
	source, err := python.Text("device")
	must(t, err)
	published, err := client.Published[*client.Opaque](ctx, c, "twice")
	must(t, err)
	looker := client.PythonSource[looked](source + pyLook).With(there)
	for i, p := range published {
		got, err := looker.Submit(ctx, c, p).Result(ctx)
		must(t, err)
		first, last := ends[i], ends[i+1]
		want := float64(last*(last-1) - first*(first-1))
		if !got.Device || got.Rows != last-first || got.First != first || math.Abs(got.Sum-want) > 1e-9*want ||
			strings.Join(got.Names, " ") != "id twice" {
			t.Errorf("partition %d in Python: %+v, want the sum %v", i, got, want)
		}
	}
	again, err := frame.Open(ctx, c, "twice", frame.Device)
	must(t, err)
	rows, err := again.Rows(ctx)
	must(t, err)
	if len(rows) != 3 || rows[2] != 1990 {
		t.Errorf("rows of the published frame: %v", rows)
	}

	// An algorithm on what came from Python is that on the host.
	o := kmeans.Options{K: 4, Seed: 5, Columns: []string{"x"}}
	onHost, err := kmeans.Fit(ctx, host, o)
	must(t, err)
	onGPU, err := kmeans.Fit(ctx, df, o)
	must(t, err)
	if math.Abs(onHost.Inertia-onGPU.Inertia) > 1e-6*onHost.Inertia || onHost.Iterations != onGPU.Iterations {
		t.Errorf("inertia %v after %d iterations on the host, %v after %d on the GPU", onHost.Inertia,
			onHost.Iterations, onGPU.Inertia, onGPU.Iterations)
	}
	if _, err := frame.FromDask(ctx, c, "nothing", frame.Device, there); err == nil ||
		!strings.Contains(err.Error(), "nothing") {
		t.Errorf("a name that nothing is published under: %v", err)
	}
}
