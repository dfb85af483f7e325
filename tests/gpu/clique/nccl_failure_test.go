package clique

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/mem"
)

// ncclBad has the ranks call different things on device memory; the clique survives that.
var ncclBad = clique.Func("gpu.nccl.bad", func(ctx context.Context, r *clique.Rank, how string) (string, error) {
	odd := r.Rank() == r.Size()-1
	b, err := ncclBuffer(ctx, make([]byte, 64))
	if err != nil {
		return "", err
	}
	defer b.Release()
	half := b.Slice(0, 32)
	defer half.Release()
	pick := func(a, b *mem.Buffer) *mem.Buffer {
		if odd {
			return a
		}
		return b
	}
	switch how {
	case "size":
		err = r.Do(ctx, clique.AllReduce(clique.Buffer[float32](pick(half, b)), clique.Buffer[float32](pick(half, b)),
			clique.Sum))
	case "type":
		k := collective.Float32
		if odd {
			k = collective.Int32
		}
		err = r.Do(ctx, kinds[k].AllReduce(b, b, clique.Sum))
	case "operation":
		o := clique.Sum
		if odd {
			o = clique.Max
		}
		err = r.Do(ctx, clique.AllReduce(clique.Buffer[float32](b), clique.Buffer[float32](b), o))
	case "root":
		err = r.Do(ctx, clique.Broadcast(clique.Buffer[float32](b), r.Size()))
	case "other":
		if odd {
			err = r.Do(ctx, clique.Barrier())
		} else {
			err = r.Do(ctx, clique.Broadcast(clique.Buffer[float32](b), 0))
		}
	case "memory":
		host := mem.FromBytes(make([]byte, 64))
		err = r.Do(ctx, clique.AllReduce(clique.Buffer[float32](pick(host, b)), clique.Buffer[float32](pick(host, b)),
			clique.Sum))
	case "both":
		err = r.Do(ctx, clique.AllReduce(clique.Buffer[float32](b),
			clique.Buffer[float32](mem.FromBytes(make([]byte, 64))), clique.Sum))
	case "kind":
		err = r.Do(ctx, clique.AllReduce(clique.Buffer[int16](b), clique.Buffer[int16](b), clique.Sum))
	}
	var mismatch *clique.MismatchError
	if !errors.As(err, &mismatch) {
		return "", fmt.Errorf("%s is %w, want a MismatchError", how, err)
	}
	return err.Error(), r.Do(ctx, clique.AllReduce(clique.Buffer[float32](b), clique.Buffer[float32](b), clique.Sum))
})

// Ranks that do not agree get the same error, none hangs, and the clique can be used further.
func TestGPUNCCLMismatch(t *testing.T) {
	_, c := ncclCluster(t, 2)
	q := ncclForm(t, c, clique.Options{})
	for _, how := range []string{"size", "type", "operation", "root", "other", "memory", "both", "kind"} {
		out, err := ncclBad.RunAll(testContext(t), q, how)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		t.Logf("%s: %s", how, out[0])
		if out[0] == "" || out[0] != out[1] {
			t.Errorf("%s: rank 0 has %q, rank 1 %q", how, out[0], out[1])
		}
	}
}

// ncclEndless sums up on the device for ever. It waits for each result, so that a failure comes
// out of the collective or out of its buffer's event.
var ncclEndless = clique.Func("gpu.nccl.endless", func(ctx context.Context, r *clique.Rank, bytes int) (int, error) {
	b, err := ncclBuffer(ctx, make([]byte, bytes))
	if err != nil {
		return 0, err
	}
	defer b.Release()
	for i := 0; ; i++ {
		if err := r.Do(ctx, clique.AllReduce(clique.Buffer[float32](b), clique.Buffer[float32](b),
			clique.Sum)); err != nil {
			return i, err
		}
		if err := b.WaitReady(ctx); err != nil {
			return i, err
		}
	}
})

// A process that is killed in the middle of a collective is named by the survivor, which then
// goes on alone, and with the replacement that the nanny has started.
func TestGPUNCCLRankDies(t *testing.T) {
	k, c := ncclCluster(t, 2)
	q := ncclForm(t, c, clique.Options{})
	victim := q.Members()[1]
	done := make(chan error, 1)
	go func() {
		_, err := ncclEndless.RunAll(testContext(t), q, 64<<20)
		done <- err
	}()
	got, err := ncclSum.RunAll(testContext(t), q, 1024) // beside it: the other round is under way
	must(t, err)
	t.Log(got)
	var killed time.Time
	for _, w := range k.Workers() {
		if w.Address == victim.Worker {
			killed = time.Now()
			must(t, syscall.Kill(w.PID, syscall.SIGKILL))
		}
	}
	err = <-done
	t.Logf("the survivor's error after %v: %v", time.Since(killed).Round(time.Millisecond), err)
	var failed *clique.RunError
	if !errors.As(err, &failed) || len(failed.Ranks) != 2 {
		t.Fatal(err)
	}
	if text := failed.Ranks[0].Error(); !strings.Contains(text, fmt.Sprintf("rank 1 (%s)", victim.Worker)) {
		t.Errorf("rank 0 does not name rank 1: %s", text)
	}
	one, err := q.Reform(testContext(t), clique.ReformOptions{})
	must(t, err)
	if one.Size() != 1 {
		t.Errorf("%d survivors", one.Size())
	}
	_, err = ncclSum.RunAll(testContext(t), one, 1024)
	must(t, err)
	must(t, c.WaitForWorkers(testContext(t), 2))
	_, err = ncclAlone.Run(testContext(t), c, 0)
	must(t, err)
	two, err := one.Reform(testContext(t), clique.ReformOptions{Size: 2})
	must(t, err)
	_, err = ncclSum.RunAll(testContext(t), two, 1024)
	must(t, err)
	must(t, two.Dissolve(testContext(t)))
}
