package clique

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cuda"
)

// ncclUse is what a worker has: free memory of the GPU, descriptors and threads.
var ncclUse = client.Func("gpu.nccl.use", func(context.Context, int) ([]int64, error) {
	free, _, err := cuda.MemoryInfo(device)
	if err != nil {
		return nil, err
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	threads, err := os.ReadDir("/proc/self/task")
	return []int64{free, int64(len(fds)), int64(len(threads))}, err
})

// use is the least free memory, and the most descriptors and threads, of the workers.
func use(t *testing.T, c *client.Client) (free, fds, threads int64) {
	t.Helper()
	out, err := ncclUse.Run(testContext(t), c, 0)
	must(t, err)
	free = 1 << 62
	for _, u := range out {
		free, fds, threads = min(free, u[0]), max(fds, u[1]), max(threads, u[2])
	}
	return free, fds, threads
}

// Cliques that are formed and dissolved, or fail, leave no device memory, descriptors or threads
// behind. Other processes may use the GPU at the same time, so that its memory is asked for more
// than once: a leak is there each time.
func TestGPUNCCLLeaks(t *testing.T) {
	_, c := ncclCluster(t, 2)
	round := func(fail bool) {
		q := ncclForm(t, c, clique.Options{})
		_, err := ncclSum.RunAll(testContext(t), q, 1<<20)
		must(t, err)
		if fail {
			if _, err := ncclFails.RunAll(testContext(t), q, 0); err == nil ||
				!strings.Contains(err.Error(), "out of luck") {
				t.Errorf("a function that fails: %v", err)
			}
		}
		must(t, q.Dissolve(testContext(t)))
	}
	for i := range 4 {
		round(i%2 == 1)
	}
	const attempts = 4
	for i := range attempts {
		free, fds, threads := use(t, c)
		for i := range 6 {
			round(i%2 == 1)
		}
		freeNow, fdsNow, threadsNow := use(t, c)
		t.Logf("free %d MiB, then %d MiB; %d descriptors, then %d; %d threads, then %d", free>>20, freeNow>>20, fds,
			fdsNow, threads, threadsNow)
		if free-freeNow <= 32<<20 && fdsNow <= fds+4 && threadsNow <= threads+4 {
			return
		}
		if i == attempts-1 {
			t.Error("something is left behind each time")
		}
	}
}

// ncclFails fails on rank 1 while rank 0 waits for it on the device.
var ncclFails = clique.Func("gpu.nccl.fails", func(ctx context.Context, r *clique.Rank, _ int) (int, error) {
	if err := sumOn(ctx, r, 10); err != nil {
		return 0, err
	}
	if r.Rank() == 1 {
		return 0, fmt.Errorf("out of luck")
	}
	return 0, sumOn(ctx, r, 10)
})
