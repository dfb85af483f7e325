package tall

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/clique"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/device/kernels/tsqr"
)

// Options specifies on which workers a frame is reduced.
type Options struct {
	// Clique is the clique of the workers (default: formed for the reduction, with Form).
	Clique *clique.Clique
	Form   clique.Options
}

// params are the parameters of the ranks.
type params struct{ Columns []string }

// result is a tsqr.Summary in the form in which ranks return it.
type result struct {
	Rows   int64
	Mean   []float64
	Packed []float64
}

// ranks is the World of a clique.
type ranks struct{ r *clique.Rank }

// tag is the tag of messages of triangles.
const tag = 1

func (w ranks) Sum(ctx context.Context, v []float64) error {
	return w.r.Do(ctx, clique.AllReduce(clique.Of(v), clique.Of(v), clique.Sum))
}

func (w ranks) Min(ctx context.Context, v []float64) error {
	return w.r.Do(ctx, clique.AllReduce(clique.Of(v), clique.Of(v), clique.Min))
}

func (w ranks) Send(ctx context.Context, to int, v []float64) error {
	return w.r.Do(ctx, clique.Send(to, tag, clique.Of(v)))
}

func (w ranks) Recv(ctx context.Context, from int, v []float64) error {
	return w.r.Do(ctx, clique.Recv(from, tag, clique.Of(v)))
}

func (w ranks) Broadcast(ctx context.Context, v []float64) error {
	return w.r.Do(ctx, clique.Broadcast(clique.Of(v), 0))
}

func (w ranks) Rank() (int, int) { return w.r.Rank(), w.r.Size() }

// reduce runs the part of one rank.
func reduce(ctx context.Context, w tsqr.World, e tsqr.Engine, names []string) (result, error) {
	s, err := tsqr.Summarize(ctx, w, e)
	if err != nil {
		return result{}, withNames(err, names)
	}
	return result{s.Rows, s.Mean, s.R.Packed()}, nil
}

var hostReduce = frame.NewNative("millstream.tall",
	func(ctx context.Context, r *clique.Rank, in frame.Parts[arrow.RecordBatch], p params) ([]arrow.RecordBatch, result,
		error) {
		parts := make([]tsqr.Part, len(in.Batches))
		for i, b := range in.Batches {
			var err error
			if parts[i], err = partOf(b, p.Columns, in.Index[i]); err != nil {
				return nil, result{}, err
			}
		}
		out, err := reduce(ctx, ranks{r}, tsqr.NewHost(parts, len(p.Columns), in.Threads), p.Columns)
		return nil, out, err
	})

// Summarize reduces the named columns of a frame, where it is, and waits for the result.
func Summarize(ctx context.Context, f *frame.Frame, names []string, opts Options) (*tsqr.Summary, error) {
	if _, err := Narrow(f.Schema(), names); err != nil {
		return nil, err
	}
	run := frame.NativeOptions{Clique: opts.Clique, Form: opts.Form}
	by := hostReduce
	if f.Location() == frame.Device {
		by = deviceReduce
		// Only sums and triangles are exchanged, in host memory: the deterministic order of reductions excludes NCCL,
		// whose start takes longer than a fit.
		run.Form.Deterministic = run.Form.Deterministic || run.Form.Backend == clique.Auto
	}
	_, results, err := by.Run(ctx, f, params{names}, run)
	if err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("tall: no rank has returned a result")
	}
	r := results[0]
	t, err := tsqr.FromPacked(r.Packed, len(names))
	if err != nil || len(r.Mean) != len(names) {
		return nil, fmt.Errorf("tall: result of %d means for %d columns: %w", len(r.Mean), len(names), err)
	}
	return &tsqr.Summary{Rows: r.Rows, Mean: r.Mean, R: t}, nil
}
