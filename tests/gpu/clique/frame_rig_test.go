package clique

import (
	"context"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
)

// gpuCluster is n workers on the one GPU, and a client.
func gpuCluster(t *testing.T, n int) (context.Context, *client.Client) {
	t.Helper()
	ctx := testContext(t)
	var devices []string
	for range n {
		devices = append(devices, "0")
	}
	lc, err := cluster.LocalCUDA(ctx, cluster.CUDAConfig{Devices: devices, RMM: cluster.RMMConfig{PoolSize: "1GB"}},
		cluster.Config{})
	must(t, err)
	t.Cleanup(func() {
		if err := lc.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := lc.Client(ctx)
	must(t, err)
	t.Cleanup(func() {
		_ = c.Close()
	})
	return ctx, c
}
