package taskbench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"go.millstream.dev/client"
)

// shuffle divides rows in the memory of workers by the hash of their keys into partitions in the memory of workers:
// split creates a block per partition of each input, pick selects one of them, and join concatenates the blocks of all
// inputs.
func (l *local) shuffle(ctx context.Context, c command) (answer, error) {
	parts := c.Parts
	rows := c.Size / rowBytes / int64(parts)
	var asked []rowsOf
	for p := range parts {
		asked = append(asked, rowsOf{Partition: int64(p), Rows: rows, Seed: c.Seed})
	}
	in := makeFunc.Map(ctx, l.client, asked, client.WithImpure())
	defer client.ReleaseAll(in)
	if err := allDone(ctx, in); err != nil {
		return answer{}, err
	}
	before, err := l.summarize(ctx, in, false)
	if err != nil {
		return answer{}, err
	}
	runtime.GC()
	begin := time.Now()
	out := l.startShuffle(ctx, in, parts)
	err = allDone(ctx, out)
	took := time.Since(begin)
	defer client.ReleaseAll(out)
	if err != nil {
		return answer{}, err
	}
	after, err := l.summarize(ctx, out, true)
	if err != nil {
		return answer{}, err
	}
	if before != after || before.Rows != rows*int64(parts) {
		return answer{}, fmt.Errorf("input %+v differs from output %+v", before, after)
	}
	transport, err := l.transport(ctx)
	if err != nil {
		return answer{}, err
	}
	return answer{Seconds: took.Seconds(), Bytes: rows * int64(parts) * rowBytes,
		Check: fmt.Sprintf("%d rows", after.Rows), Transport: transport}, nil
}

// startShuffle submits the tasks and keeps only the output partitions.
func (l *local) startShuffle(ctx context.Context, in []*client.Future[[]byte], parts int) []*client.Future[[]byte] {
	blocks := make([][]client.Arg[[]byte], parts)
	var between []interface{ Release() }
	for _, f := range in {
		split := splitFunc.Submit(ctx, l.client, f, client.Val(int64(parts)), client.WithImpure())
		between = append(between, split)
		for p := range parts {
			block := pickFunc.Submit(ctx, l.client, split, client.Val(int64(p)), client.WithImpure())
			between = append(between, block)
			blocks[p] = append(blocks[p], block)
		}
	}
	out := make([]*client.Future[[]byte], parts)
	for p := range parts {
		out[p] = joinFunc.Submit(ctx, l.client, client.List(blocks[p]...), client.WithImpure())
	}
	for _, f := range between {
		f.Release()
	}
	return out
}

func allDone[T any](ctx context.Context, futures []*client.Future[T]) error {
	if err := client.Wait(ctx, futures); err != nil {
		return err
	}
	for _, f := range futures {
		if err := f.Err(); err != nil {
			return err
		}
	}
	return nil
}

// summarize reads the rows of partitions on their workers.
func (l *local) summarize(ctx context.Context, parts []*client.Future[[]byte], placed bool) (summary, error) {
	var total summary
	futures := make([]*client.Future[summary], len(parts))
	for i, p := range parts {
		t := target{Partition: -1, Parts: int64(len(parts))}
		if placed {
			t.Partition = int64(i)
		}
		futures[i] = summarizeFunc.Submit(ctx, l.client, p, client.Val(t), client.WithImpure())
	}
	defer client.ReleaseAll(futures)
	got, err := client.Gather(ctx, futures)
	for _, s := range got {
		total = total.plus(s)
	}
	return total, err
}

func middle(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
