package clique

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/internal/collective"
)

// ncclSum sums up n float32 on the device and checks the sum. It returns what carried it.
var ncclSum = clique.Func("gpu.nccl.sum", func(ctx context.Context, r *clique.Rank, n int) (string, error) {
	return string(r.DeviceBackend()), sumOn(ctx, r, n)
})

func sumOn(ctx context.Context, r *clique.Rank, n int) error {
	b, err := ncclBuffer(ctx, encode(collective.Float32, values(r.Rank(), 0, n)))
	if err != nil {
		return err
	}
	defer b.Release()
	if err := r.Do(ctx, clique.AllReduce(clique.Buffer[float32](b), clique.Buffer[float32](b),
		clique.Sum)); err != nil {
		return err
	}
	got, err := ncclBytes(ctx, b)
	if err != nil {
		return err
	}
	return differs("sum", collective.Float32, got, expected(collective.Float32, "sum", r.Size(), 0, n))
}

// ncclChain enqueues collectives behind each other without waiting for any on the host, as each
// waits for the one before by its buffer's event, and looks at the end of the chain.
var ncclChain = clique.Func("gpu.nccl.chain", func(ctx context.Context, r *clique.Rank, n int) (int, error) {
	b, err := ncclBuffer(ctx, encode(collective.Int64, []int64{1, 2, 3, 4}))
	if err != nil {
		return 0, err
	}
	defer b.Release()
	want := int64(1)
	for range n {
		if err := r.Do(ctx, clique.AllReduce(clique.Buffer[int64](b), clique.Buffer[int64](b),
			clique.Sum)); err != nil {
			return 0, err
		}
		want *= int64(r.Size())
	}
	got, err := ncclBytes(ctx, b)
	if err != nil {
		return 0, err
	}
	return n, differs("chain", collective.Int64, got, encode(collective.Int64,
		[]int64{want, 2 * want, 3 * want, 4 * want}))
})

// ncclSplit sums up in a sub-clique of one rank each, in one of all ranks in the reverse order,
// and in the clique again.
var ncclSplit = clique.Func("gpu.nccl.split", func(ctx context.Context, r *clique.Rank, _ int) (string, error) {
	alone, err := r.Split(ctx, r.Rank(), 0)
	if err != nil {
		return "", err
	}
	defer alone.Close()
	if err := sumOn(ctx, alone, 100); err != nil {
		return "", fmt.Errorf("alone: %w", err)
	}
	turned, err := r.Split(ctx, 1, -r.Rank())
	if err != nil {
		return "", err
	}
	defer turned.Close()
	if turned.Rank() != r.Size()-1-r.Rank() {
		return "", fmt.Errorf("rank %d is %d", r.Rank(), turned.Rank())
	}
	if err := sumOn(ctx, turned, 100); err != nil {
		return "", fmt.Errorf("turned: %w", err)
	}
	return "ok", sumOn(ctx, r, 100)
})

// ncclP2P sends device memory to the next rank.
var ncclP2P = clique.Func("gpu.nccl.p2p", func(ctx context.Context, r *clique.Rank, n int) (string, error) {
	next, before := (r.Rank()+1)%r.Size(), (r.Rank()+r.Size()-1)%r.Size()
	out, err := ncclBuffer(ctx, encode(collective.Int32, values(r.Rank(), 0, n)))
	if err != nil {
		return "", err
	}
	defer out.Release()
	in, err := ncclBuffer(ctx, make([]byte, 4*n))
	if err != nil {
		return "", err
	}
	defer in.Release()
	const tag = 1<<63 | 5
	got := 0
	call := clique.SendRecv(next, tag, clique.Buffer[int32](out), before, tag, clique.Buffer[int32](in)).WithLen(&got)
	if err := r.Do(ctx, call); err != nil || got != n {
		return "", fmt.Errorf("%d elements came of %d: %w", got, n, err)
	}
	data, err := ncclBytes(ctx, in)
	if err != nil {
		return "", err
	}
	return "ok", differs("message", collective.Int32, data, encode(collective.Int32, values(before, 0, n)))
})

// Rounds beside each other, cliques beside each other, sub-cliques, chains and messages.
func TestGPUNCCLRounds(t *testing.T) {
	_, c := ncclCluster(t, 2)
	q := ncclForm(t, c, clique.Options{Name: "first"})
	ctx := testContext(t)
	for range 2 {
		var rounds [][]*client.Future[string]
		for i := range 3 {
			f, err := ncclSum.Submit(ctx, q, []client.Arg[int]{client.Val(1000 * (i + 1)), client.Val(1000 * (i + 1))})
			must(t, err)
			rounds = append(rounds, f)
		}
		for _, f := range rounds {
			must(t, q.Wait(ctx, "sum", client.Futures(f)))
			client.ReleaseAll(f)
		}
	}
	other := ncclForm(t, c, clique.Options{Name: "second"})
	if _, err := ncclChain.RunAll(ctx, other, 40); err != nil {
		t.Error(err)
	}
	if _, err := ncclSplit.RunAll(ctx, q, 0); err != nil {
		t.Error(err)
	}
	for _, n := range []int{0, 1, 300_000} {
		if _, err := ncclP2P.RunAll(ctx, q, n); err != nil {
			t.Errorf("messages of %d: %v", n, err)
		}
	}
	sub, err := q.Sub(ctx, 1)
	must(t, err)
	if _, err := ncclSum.RunAll(ctx, sub, 10); err != nil {
		t.Error(err)
	}
	must(t, sub.Dissolve(ctx))
}

// Without host ids of their own NCCL would refuse ranks that share a GPU: it is said when the
// clique is formed, with the workers' names, and Auto takes another way.
func TestGPUNCCLSharedGPU(t *testing.T) {
	_, c := ncclCluster(t, 2)
	_, err := ncclTogether.Run(testContext(t), c, 0)
	must(t, err)
	_, err = clique.Form(testContext(t), c, clique.Options{Backend: clique.NCCL})
	if err == nil || !strings.Contains(err.Error(), "share a GPU (GPU-") || strings.Count(err.Error(), "tls://") != 2 {
		t.Errorf("two ranks on one GPU: %v", err)
	}
	q, err := clique.Form(testContext(t), c, clique.Options{})
	must(t, err)
	by, why := q.Devices()
	t.Logf("auto: %s, %s; host memory by %s", by, why, q.Backend())
	if by == clique.NCCL || why == "" {
		t.Errorf("auto takes %q (%s)", by, why)
	}
	got, err := ncclSum.RunAll(testContext(t), q, 100_000)
	must(t, err)
	if got[0] != string(by) {
		t.Errorf("the ranks use %q", got[0])
	}
	must(t, q.Dissolve(testContext(t)))
}
