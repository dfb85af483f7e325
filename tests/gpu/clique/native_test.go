package clique

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/clique/native"
	"go.millstream.dev/internal/collective"
)

// nativeSums runs the algorithm of a library on two partitions of this rank in device memory,
// and checks the totals, which it gets in device memory.
var nativeSums = clique.Func("gpu.native.sums", func(ctx context.Context, r *clique.Rank, path string) (string, error) {
	l, err := native.Open(path)
	if err != nil {
		return "", err
	}
	a, err := l.Algorithm("sums_device")
	if err != nil {
		return "", err
	}
	const rows, columns = 10_000, 3
	bufs := &buffers{ctx: ctx}
	defer bufs.free()
	call := native.Call{}
	want := make([]int64, columns)
	for rank := range r.Size() {
		for p := range 2 {
			for c := range columns {
				for _, v := range values(rank, 100*p+c, rows) {
					want[c] += v
				}
			}
		}
	}
	for p := range 2 {
		var part native.Partition
		for c := range columns {
			b, err := bufs.of(encode(collective.Float64, values(r.Rank(), 100*p+c, rows)))
			if err != nil {
				return "", err
			}
			part = append(part, native.Column{Kind: collective.Float64, Data: b})
		}
		call.Partitions = append(call.Partitions, part)
	}
	out, err := a.Run(ctx, r, call)
	if err != nil {
		return "", err
	}
	if len(out) != columns {
		return "", fmt.Errorf("%d columns", len(out))
	}
	for c, o := range out {
		if o.Device == nil {
			return "", fmt.Errorf("column %d is not in device memory", c)
		}
		got, err := ncclBytes(ctx, o.Device)
		o.Device.Release()
		if err == nil {
			err = differs(fmt.Sprintf("total %d", c), collective.Float64, got, encode(collective.Float64, want[c:c+1]))
		}
		if err != nil {
			return "", err
		}
	}
	return string(r.DeviceBackend()), nil
})

// An algorithm of a shared library works on device partitions with a stream and a communicator,
// with NCCL and without.
func TestGPUNativeDevice(t *testing.T) {
	_, c := ncclCluster(t, 2)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "millstream_native.h"), []byte(native.Header), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "sums.cu"), []byte(native.DeviceMockSource), 0o600))
	path := filepath.Join(dir, "libsums_device.so")
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		nvcc = "/usr/local/cuda/bin/nvcc"
	}
	out, err := exec.Command(nvcc, "-shared", "-Xcompiler", "-fPIC", "-O1", "-arch=native", "-cudart", "shared", "-I",
		dir, "-o", path, filepath.Join(dir, "sums.cu")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, q := range []*clique.Clique{ncclForm(t, c, clique.Options{}), deviceForm(t, c)} {
		got, err := nativeSums.RunAll(testContext(t), q, path)
		must(t, err)
		t.Log(got)
	}
}

// deviceForm forms a clique whose device memory goes by Millstream's own kernels.
func deviceForm(t testing.TB, c *client.Client) *clique.Clique {
	t.Helper()
	q, err := clique.Form(testContext(t), c, clique.Options{Backend: clique.UCX, Timeout: patience})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = q.Dissolve(ctx)
	})
	return q
}
