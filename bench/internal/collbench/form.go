package collbench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/internal/bench/benchfmt"
)

// formSlack is how much longer than ncclCommInit the forming of a clique may take, in microseconds.
const formSlack = 20_000

// RunForm measures the forming of a clique with NCCL in a running cluster, and ncclCommInit in the same processes,
// alternately. Libraries and contexts are loaded before.
func RunForm(ctx context.Context, o Options, sink benchfmt.Sink, progress *benchfmt.Progress) error {
	c, free, err := localGPU(ctx, o.Ranks)
	if err != nil {
		return err
	}
	defer free()
	ours, theirs := &benchfmt.Rounds{Better: benchfmt.Lower}, &benchfmt.Rounds{Better: benchfmt.Lower}
	for round := range o.Rounds + 1 {
		progress.Step(round, o.Rounds+1, "forming")
		begin := time.Now()
		q, err := clique.Form(ctx, c, clique.Options{Backend: clique.NCCL})
		if err != nil {
			return fmt.Errorf("form: %w", err)
		}
		took := time.Since(begin)
		times, err := initAlone.RunAll(ctx, q, 0)
		if err != nil {
			return fmt.Errorf("initialize NCCL: %w", err)
		}
		if err := q.Dissolve(ctx); err != nil {
			return err
		}
		if round > 0 { // the first round loads libraries
			ours.Add(float64(took.Nanoseconds()) / 1e3)
			theirs.Add(slices.Max(times))
		}
	}
	return sink.Add(benchfmt.Figure{Bench: "allreduce", Case: "form", Setting: SettingNCCL, Transport: "nccl",
		Mem:  "cuda",
		Unit: benchfmt.UnitMicros, Better: benchfmt.Lower,
		Ours: ours.Best(), OursMedian: ours.Median(), Peer: NCCL, Mode: "init", Theirs: theirs.Best(),
		TheirsMedian: theirs.Median(),
		Bar:          &benchfmt.Bar{Value: theirs.Best() + formSlack}})
}
