// Package cluster tests workers with GPUs as processes of their own: where their results live, how they move, and what
// clients and Dask's workers see of them. Every test is named TestGPU… and needs a CUDA device; `make gpu-test-bundle`
// packs them for a machine with one.
package cluster

import (
	"context"
	"os"
	"testing"
	"time"

	"go.millstream.dev/cluster"
	"go.millstream.dev/cuda"
	"go.millstream.dev/ucx"
)

// patience bounds every test: processes share the GPU by turns.
const patience = 90 * time.Second

func TestMain(m *testing.M) {
	cluster.Main() // in a worker's process it does not return
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
