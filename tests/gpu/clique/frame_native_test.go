package clique

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/clique"
	"go.millstream.dev/clique/native"
	"go.millstream.dev/cuda"
	"go.millstream.dev/frame"
)

// frameSums gives a rank's device partitions to an algorithm of a shared library and returns the totals.
var frameSums = frame.NewNative("gpu.frame.sums", func(ctx context.Context, r *clique.Rank,
	parts frame.Parts[*frame.DeviceBatch], library string) ([]*frame.DeviceBatch, []float64, error) {
	l, err := native.Open(library)
	if err != nil {
		return nil, nil, err
	}
	a, err := l.Algorithm("sums_device")
	if err != nil {
		return nil, nil, err
	}
	var call native.Call
	for _, b := range parts.Batches {
		p, release, err := b.Native()
		if err != nil {
			return nil, nil, err
		}
		defer release()
		call.Partitions = append(call.Partitions, p)
	}
	out, err := a.Run(ctx, r, call)
	if err != nil {
		return nil, nil, err
	}
	totals := make([]float64, len(out))
	for i, o := range out {
		if o.Device == nil {
			return nil, nil, fmt.Errorf("total %d is not on the device", i)
		}
		var b [8]byte
		err = cuda.CopyToHost(ctx, b[:], o.Device)
		o.Device.Release()
		if err != nil {
			return nil, nil, err
		}
		totals[i] = arrow.Float64Traits.CastFromBytes(b[:])[0]
	}
	return nil, totals, nil
})

// An algorithm of a shared library gets the partitions of a frame as device pointers, and ranks reduce what it finds.
func TestGPUFrameNative(t *testing.T) {
	requireGPU(t)
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
	ctx, c := gpuCluster(t, 2)
	batches := clouds(t, []int{700, 1, 0, 1300}, 4, 3, false)
	want := make([]float64, 4)
	for _, b := range batches {
		for j := range want {
			for _, v := range b.Column(j).(*array.Float64).Float64Values() {
				want[j] += v
			}
		}
	}
	f, err := frame.FromBatches(ctx, c, batches)
	must(t, err)
	df, err := f.ToDevice(ctx)
	must(t, err)
	_, totals, err := frameSums.Run(ctx, df, path, frame.NativeOptions{})
	must(t, err)
	for rank, got := range totals {
		if len(got) != 4 {
			t.Fatalf("rank %d: totals %v", rank, got)
		}
		for j := range want {
			if math.Abs(got[j]-want[j]) > 1e-9*(1+math.Abs(want[j])) {
				t.Errorf("rank %d: total %d is %v, want %v", rank, j, got[j], want[j])
			}
		}
	}
}
