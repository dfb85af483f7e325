// Package clique tests cliques on the memory of GPUs. Every test is named TestGPU… and needs a
// CUDA device; `make gpu-test-bundle` packs them for a machine with one.
package clique

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.millstream.dev/cluster"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/nccl"
)

func TestMain(m *testing.M) {
	cluster.Main()
	if cuda.Available() == nil {
		// What the driver and libnccl open stays open: let it be there before leaks are counted.
		_, _ = cuda.PrimaryContext(device)
		_, _ = nccl.Library()
	}
	// The driver makes an eventfd more when it first needs one; those of UCX are counted by the tests on host memory.
	os.Exit(leak.Main(m, leak.IgnoreFD("/dev/nvidia"), leak.IgnoreFD("anon_inode:[eventfd]")))
}

// device is the GPU that all ranks use.
const device = 0

// patience bounds every wait. It is generous: the ranks share the GPU by turns.
const patience = 60 * time.Second

// requireGPU skips a test where there is nothing to test with.
func requireGPU(t testing.TB) {
	t.Helper()
	if err := cuda.Available(); err != nil {
		t.Skip("no GPU: " + err.Error())
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

// quiet is a logger for clusters whose workers are killed.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
