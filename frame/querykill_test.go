package frame

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
)

// A worker is killed while queries with exchanges run on files: their results are those of an undisturbed run.
func TestQueryWorkerKilled(t *testing.T) {
	leak.Check(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	lc := must[*cluster.Cluster](t)(cluster.Local(ctx, cluster.Config{Workers: 3, Threads: 1,
		Nanny: cluster.NannyConfig{MaxFailures: -1}}))
	defer lc.Close()
	c := must[*client.Client](t)(lc.Client(ctx))
	defer c.Close()
	left, right := sales(3000, 1), sales(700, 2)
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	for name, b := range map[string]arrow.RecordBatch{"l": left, "r": right} {
		f := cutRows(t, ctx, c, b, 9, rng)
		must[[]string](t)(f.WriteIPC(ctx, filepath.Join(dir, name), WriteOptions{}))
		f.Release()
	}
	l := rowsOfBatches(salesSchema, []arrow.RecordBatch{left})
	r := rowsOfBatches(salesSchema, []arrow.RecordBatch{right})
	for i, name := range []string{"group by", "many groups", "sort", "inner join", "right join"} {
		cases := allCases()
		x := cases[slices.IndexFunc(cases, func(c queryCase) bool { return c.name == name })]
		q := x.query(ScanIPC(ctx, c, filepath.Join(dir, "l")), ScanIPC(ctx, c, filepath.Join(dir, "r")))
		q.cfg = queryConfigs[1].cfg
		killed := make(chan error, 1)
		go func() {
			time.Sleep(time.Duration(i*7) * time.Millisecond) // at different points of the run
			killed <- killWorker(ctx, lc, rng)
		}()
		got, f, err := result(ctx, q)
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		f.Release()
		sameRows(t, x.name, got, x.want(l, r), x.ordered)
		if err := <-killed; err != nil {
			t.Fatal(err)
		}
		if err := c.WaitForWorkers(ctx, 3); err != nil {
			t.Fatal(err)
		}
	}
}

// killWorker kills a random worker process. It waits if all of them are being restarted after earlier kills.
func killWorker(ctx context.Context, lc *cluster.Cluster, rng *rand.Rand) error {
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		var running []cluster.WorkerInfo
		for _, w := range lc.Workers() {
			if w.State == cluster.Running {
				running = append(running, w)
			}
		}
		if len(running) == 0 {
			continue
		}
		// The process may have ended without its state having changed yet.
		err := syscall.Kill(running[rng.IntN(len(running))].PID, syscall.SIGKILL)
		if !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return ctx.Err()
}
