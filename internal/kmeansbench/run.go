package kmeansbench

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/kmeans"
	"go.millstream.dev/internal/benchfmt"
	"go.millstream.dev/internal/benchpeer"
	"go.millstream.dev/internal/lloyd"
)

// outcome is what a fit of either side came to.
type outcome struct {
	Seconds float64 `json:"seconds"`
	// Inertia is computed in double precision, whatever the type of the numbers.
	Inertia float64 `json:"inertia"`
	// Counts are the rows of each group.
	Counts []int64 `json:"counts"`
}

// command is what the peer is asked.
type command struct {
	Op         string `json:"op"` // load, fit
	Path       string `json:"path,omitempty"`
	Type       string `json:"type,omitempty"`
	Rows       int    `json:"rows,omitempty"`
	Features   int    `json:"features,omitempty"`
	K          int    `json:"k,omitempty"`
	Iterations int    `json:"iterations,omitempty"`
}

// Run measures what the options say and adds each figure to the sink as soon as it is there.
// peer starts scikit-learn's side; nil is without.
func Run(ctx context.Context, peer benchpeer.Starter, o Options, sink benchfmt.Sink, progress *benchfmt.Progress) error {
	dir, err := os.MkdirTemp("", "millstream-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	total := len(o.Types) * len(o.K) * o.Rounds
	done := 0
	for _, dtype := range o.Types {
		path := filepath.Join(dir, dtype)
		progress.Step(done, total, "%s: %d rows of data", dtype, o.Rows)
		if err := generate(path, dtype, o.Rows, o.Features); err != nil {
			return err
		}
		b, err := start(ctx, peer, o, path, dtype)
		if err != nil {
			return err
		}
		for _, k := range o.K {
			f, err := b.measure(ctx, k, func(round int) { progress.Step(done+round, total, "%s, k=%d, round %d", dtype, k, round+1) })
			if err == nil {
				err = sink.Add(f)
			}
			if err != nil {
				b.stop()
				return fmt.Errorf("%s, k=%d: %w", dtype, k, err)
			}
			done += o.Rounds
		}
		b.stop()
		_ = os.Remove(path) // the folder goes anyway
	}
	return nil
}

// bench is both sides with the numbers of one type.
type bench struct {
	o       Options
	dtype   string
	cluster *cluster.Cluster
	client  *client.Client
	clique  *clique.Clique
	frame   *frame.Frame
	peer    *benchpeer.Lines
	first   [][]float64 // rows, from which the centres begin
}

func start(ctx context.Context, peer benchpeer.Starter, o Options, path, dtype string) (b *bench, err error) {
	b = &bench{o: o, dtype: dtype}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	if b.cluster, err = cluster.Local(ctx, cluster.Options{Workers: o.Workers, Threads: o.Threads, MemoryLimit: cluster.NoMemoryLimit}); err != nil {
		return b, err
	}
	if b.client, err = b.cluster.Client(ctx); err != nil {
		return b, err
	}
	pieces := make([]piece, o.Workers)
	parts := make([]*client.Future[arrow.RecordBatch], o.Workers)
	for i, w := range b.cluster.Workers() {
		pieces[i] = piece{Path: path, Type: dtype, Rows: o.Rows, Features: o.Features, From: o.Rows * i / o.Workers, To: o.Rows * (i + 1) / o.Workers}
		parts[i] = load.Submit(ctx, b.client, client.Val(pieces[i]), client.Workers(w.Address))
	}
	if b.frame, err = frame.New(ctx, b.client, pieces[0].schema(), parts); err != nil {
		return b, err
	}
	if err = b.frame.Persist(ctx); err != nil {
		return b, err
	}
	if b.clique, err = clique.Form(ctx, b.client, clique.Options{Name: "bench"}); err != nil {
		return b, err
	}
	if err = b.begin(path); err != nil || peer == nil {
		return b, err
	}
	threads := fmt.Sprint(o.Workers * o.Threads)
	if b.peer, err = benchpeer.StartLines(ctx, peer, []string{"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads}); err != nil {
		return b, err
	}
	var loaded struct{ Rows int }
	err = b.peer.Ask(ctx, command{Op: "load", Path: path, Type: dtype, Rows: o.Rows, Features: o.Features}, &loaded)
	return b, err
}

// begin reads the first rows: the initial centres.
func (b *bench) begin(path string) error {
	n := slices.Max(b.o.K)
	p := piece{Path: path, Type: b.dtype, Rows: b.o.Rows, Features: b.o.Features, To: n}
	f, err := os.Open(p.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	b.first = make([][]float64, n)
	for i := range b.first {
		b.first[i] = make([]float64, p.Features)
	}
	for j := range p.Features {
		raw := make([]byte, n*size(p.Type))
		if _, err := f.ReadAt(raw, int64(j*p.Rows*size(p.Type))); err != nil {
			return err
		}
		for i := range n {
			if p.Type == "float32" {
				b.first[i][j] = float64(arrow.Float32Traits.CastFromBytes(raw)[i])
			} else {
				b.first[i][j] = arrow.Float64Traits.CastFromBytes(raw)[i]
			}
		}
	}
	return nil
}

func (b *bench) stop() {
	if b.peer != nil {
		b.peer.Stop()
	}
	if b.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if b.clique != nil {
			_ = b.clique.Dissolve(ctx) // the cluster ends below
		}
		_ = b.client.Close(ctx)
	}
	if b.cluster != nil {
		_ = b.cluster.Close()
	}
}

// measure runs the rounds of one number of groups; the other side begins in every second one.
func (b *bench) measure(ctx context.Context, k int, step func(round int)) (benchfmt.Figure, error) {
	sides := []func(context.Context, int) (outcome, error){b.ours}
	if b.peer != nil {
		sides = append(sides, b.theirs)
	}
	rounds := make([]benchfmt.Rounds, len(sides))
	results := make([]outcome, len(sides))
	for i := range rounds {
		rounds[i].Better = benchfmt.Lower
	}
	for round := range b.o.Rounds {
		step(round)
		for i := range sides {
			at := (i + round) % len(sides)
			out, err := sides[at](ctx, k)
			if err != nil {
				return benchfmt.Figure{}, err
			}
			rounds[at].Add(out.Seconds)
			results[at] = out
		}
		if len(sides) > 1 {
			if err := agree(results[0], results[1], b.dtype, b.o.Rows); err != nil {
				return benchfmt.Figure{}, err
			}
		}
	}
	f := benchfmt.Figure{Bench: "kmeans", Case: fmt.Sprintf("k=%d", k), Setting: b.dtype, Lane: b.clique.Backend(), Mode: lloyd.Kernel(),
		Size: int64(b.o.Rows) * int64(b.o.Features) * int64(size(b.dtype)), Unit: benchfmt.UnitSeconds, Better: benchfmt.Lower,
		Ours: rounds[0].Best(), OursMedian: rounds[0].Median()}
	if len(sides) > 1 {
		f.Peer, f.Theirs, f.TheirsMedian = PeerName, rounds[1].Best(), rounds[1].Median()
		f.Bar = &benchfmt.Bar{Value: 0.5, Ratio: true}
	}
	return f, nil
}

// agree tells whether the sides found the same: the inertia to 1e-6 and groups of the same
// sizes. Where numbers have seven digits only, a few rows at the borders may differ, and the
// inertia in its sixth digit: scikit-learn adds such numbers as they are.
func agree(ours, theirs outcome, dtype string, rows int) error {
	tolerance := 1e-6
	if dtype == "float32" {
		tolerance = 1e-5
	}
	if math.Abs(ours.Inertia-theirs.Inertia) > tolerance*theirs.Inertia {
		return fmt.Errorf("the sides found different things: inertia %v here and %v there", ours.Inertia, theirs.Inertia)
	}
	var apart int64
	for i := range ours.Counts {
		if i < len(theirs.Counts) {
			apart += max(ours.Counts[i]-theirs.Counts[i], theirs.Counts[i]-ours.Counts[i])
		}
	}
	allowed := int64(0)
	if dtype == "float32" {
		allowed = int64(rows / 1000)
	}
	if len(ours.Counts) != len(theirs.Counts) || apart > allowed {
		return fmt.Errorf("the sides found different things: groups of %v here and %v there", ours.Counts, theirs.Counts)
	}
	return nil
}

func (b *bench) ours(ctx context.Context, k int) (outcome, error) {
	begin := time.Now()
	m, labels, err := kmeans.FitPredict(ctx, b.frame, kmeans.Options{Init: b.first[:k], MaxIter: b.o.Iterations, Tol: -1, Clique: b.clique})
	if err != nil {
		return outcome{}, err
	}
	out := outcome{Seconds: time.Since(begin).Seconds(), Inertia: m.Inertia, Counts: make([]int64, k)}
	defer labels.Release()
	batches, err := labels.Collect(ctx)
	if err != nil {
		return outcome{}, err
	}
	for _, x := range batches {
		for _, l := range x.Column(0).(*array.Int32).Int32Values() {
			out.Counts[l]++
		}
		x.Release()
	}
	return out, nil
}

func (b *bench) theirs(ctx context.Context, k int) (outcome, error) {
	var out outcome
	err := b.peer.Ask(ctx, command{Op: "fit", K: k, Iterations: b.o.Iterations}, &out)
	return out, err
}
