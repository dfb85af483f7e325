package clique

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/task"
)

// autoSum sums up in memory of the worker's own pool, and tells the GPU that the rank has.
var autoSum = clique.Func("gpu.nccl.auto", func(ctx context.Context, r *clique.Rank, n int) (string, error) {
	d, err := task.CurrentDevice(ctx)
	if err != nil {
		return "", err
	}
	if r.Device() != d.Ordinal {
		return "", task.ErrNoDevice
	}
	return d.UUID, sumOn(ctx, r, n)
})

// cudaWorkers are two workers of LocalCUDA on one GPU.
func cudaWorkers(t *testing.T) *client.Client {
	t.Helper()
	requireGPU(t)
	k, err := cluster.LocalCUDA(testContext(t), cluster.CUDAConfig{Devices: []string{"0", "0"}},
		cluster.Config{Logger: quiet(), Log: cluster.LogSpec{Level: "error"}})
	must(t, err)
	t.Cleanup(func() { _ = k.Close() })
	c, err := k.Client(testContext(t))
	must(t, err)
	t.Cleanup(func() {
		_ = c.Close()
	})
	must(t, c.WaitForWorkers(testContext(t), 2))
	return c
}

// Workers that share a GPU: Auto says so and takes the kernels.
func TestGPUCliqueOfCUDAWorkers(t *testing.T) {
	c := cudaWorkers(t)
	q, err := clique.Form(testContext(t), c, clique.Options{Timeout: patience})
	must(t, err)
	by, why := q.Devices()
	t.Logf("%s: %s", by, why)
	if by != clique.UCX || !strings.Contains(why, "share a GPU (GPU-") {
		t.Errorf("auto takes %q: %s", by, why)
	}
	for i, m := range q.Members() {
		if m.Rank != i || !strings.HasPrefix(m.UUID, "GPU-") || m.PCI == "" {
			t.Errorf("%+v", m)
		}
	}
	got, err := autoSum.RunAll(testContext(t), q, 100_000)
	must(t, err)
	if got[0] != q.Members()[0].UUID || got[0] != got[1] {
		t.Errorf("the ranks have %v", got)
	}
	must(t, q.Dissolve(testContext(t)))
}

// ncclNowhere makes NCCL look for a network interface that does not exist.
var ncclNowhere = client.Func("gpu.nccl.nowhere", func(context.Context, int) (int, error) {
	return 0, errors.Join(os.Setenv("NCCL_HOSTID", strconv.Itoa(os.Getpid())),
		os.Setenv("NCCL_SOCKET_IFNAME", "nothing0"))
})

// NCCL that is there and fails is an error that names the workers if it was asked for, and no
// obstacle otherwise.
func TestGPUNCCLFails(t *testing.T) {
	c := cudaWorkers(t)
	_, err := ncclNowhere.Run(testContext(t), c, 0)
	must(t, err)
	_, err = clique.Form(testContext(t), c, clique.Options{Backend: clique.NCCL, Timeout: patience})
	t.Log(err)
	var failed *clique.FormError
	if !errors.As(err, &failed) || len(failed.Workers) != 2 || !strings.Contains(err.Error(), "NCCL") {
		t.Errorf("NCCL without a network: %v", err)
	}
	q, err := clique.Form(testContext(t), c, clique.Options{Timeout: patience})
	must(t, err)
	by, why := q.Devices()
	t.Logf("%s: %s", by, why)
	if by != clique.UCX || !strings.Contains(why, "but failed there") {
		t.Errorf("auto takes %q: %s", by, why)
	}
	_, err = autoSum.RunAll(testContext(t), q, 1000)
	must(t, err)
	must(t, q.Dissolve(testContext(t)))
}
