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
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/device/kernels/lloyd"
)

// outcome is the result of a fit.
type outcome struct {
	Seconds float64 `json:"seconds"`
	// Inertia is computed in double precision for all types.
	Inertia float64 `json:"inertia"`
	// Counts are the numbers of rows of each group.
	Counts []int64 `json:"counts"`
}

// command is a request to the peer.
type command struct {
	Op         string `json:"op"` // load, fit
	Path       string `json:"path,omitempty"`
	Type       string `json:"type,omitempty"`
	Rows       int    `json:"rows,omitempty"`
	Features   int    `json:"features,omitempty"`
	K          int    `json:"k,omitempty"`
	Iterations int    `json:"iterations,omitempty"`
}

// Run measures according to the options and passes each figure to the sink immediately. peer starts scikit-learn; it
// may be nil.
func Run(ctx context.Context, peer benchpeer.Starter, o Options, sink benchfmt.Sink,
	progress *benchfmt.Progress) error {
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
			figures, err := b.measure(ctx, k, func(round int) {
				progress.Step(done+round, total, "%s, k=%d, round %d", dtype, k, round+1)
			})
			for _, f := range figures {
				if err == nil {
					err = sink.Add(f)
				}
			}
			if err != nil {
				b.stop()
				return fmt.Errorf("%s, k=%d: %w", dtype, k, err)
			}
			done += o.Rounds
		}
		b.stop()
		_ = os.Remove(path) // the folder is removed anyway
	}
	return nil
}

// bench has both sides with the data of one type.
type bench struct {
	o       Options
	dtype   string
	cluster *cluster.Cluster
	client  *client.Client
	clique  *clique.Clique
	frame   *frame.Frame
	gpu     *gpuSide // nil without a GPU
	peer    *benchpeer.Lines
	first   [][]float64 // first rows, the initial centers
}

func start(ctx context.Context, peer benchpeer.Starter, o Options, path, dtype string) (b *bench, err error) {
	b = &bench{o: o, dtype: dtype}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	if b.cluster, err = cluster.Local(ctx, cluster.Config{Workers: o.Workers, Threads: o.Threads,
		MemoryLimit: cluster.NoMemoryLimit}); err != nil {
		return b, err
	}
	if b.client, err = b.cluster.Client(ctx); err != nil {
		return b, err
	}
	if b.frame, err = loaded(ctx, b.client, b.cluster.Workers(), o, path, dtype); err != nil {
		return b, err
	}
	if b.clique, err = clique.Form(ctx, b.client, clique.Options{Name: "bench"}); err != nil {
		return b, err
	}
	if err = b.begin(path); err != nil {
		return b, err
	}
	gpu, err := o.gpu()
	if err != nil {
		return b, err
	}
	if gpu {
		if b.gpu, err = startGPU(ctx, o, path, dtype); err != nil {
			return b, err
		}
	}
	if peer == nil {
		return b, nil
	}
	threads := fmt.Sprint(o.Workers * o.Threads)
	if b.peer, err = benchpeer.StartLines(ctx, peer, []string{"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" +
		threads}); err != nil {
		return b, err
	}
	var loaded struct{ Rows int }
	err = b.peer.Ask(ctx, command{Op: "load", Path: path, Type: dtype, Rows: o.Rows, Features: o.Features}, &loaded)
	return b, err
}

// begin reads the first rows, which are the initial centers.
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
	if b.gpu != nil {
		b.gpu.stop()
	}
	if b.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if b.clique != nil {
			_ = b.clique.Dissolve(ctx) // the cluster is closed below
		}
		_ = b.client.Close()
	}
	if b.cluster != nil {
		_ = b.cluster.Close()
	}
}

// side is one side of the comparison.
type side struct {
	name  string // name of the peer in figures
	fit   func(ctx context.Context, k int) (outcome, error)
	agree func(ours, theirs outcome, dtype string,
		rows int) error // nil for the first side, with which all others must agree
	rounds benchfmt.Rounds
}

// sides returns the sides, Millstream on the CPU first.
func (b *bench) sides() []*side {
	all := []*side{{name: HostName, fit: b.ours}}
	if b.peer != nil {
		all = append(all, &side{name: PeerName, fit: b.theirs, agree: agree})
	}
	if b.gpu != nil {
		all = append(all, &side{name: GPUMode, agree: agreeGPU, fit: func(ctx context.Context, k int) (outcome, error) {
			return b.gpu.fit(ctx, b.first[:k], b.o.Iterations)
		}})
	}
	for _, s := range all {
		s.rounds.Better = benchfmt.Lower
	}
	return all
}

// measure runs the rounds of one number of groups, starting with a different side in each.
func (b *bench) measure(ctx context.Context, k int, step func(round int)) ([]benchfmt.Figure, error) {
	sides := b.sides()
	results := make([]outcome, len(sides))
	for round := range b.o.Rounds {
		step(round)
		for i := range sides {
			at := (i + round) % len(sides)
			out, err := sides[at].fit(ctx, k)
			if err != nil {
				return nil, err
			}
			sides[at].rounds.Add(out.Seconds)
			results[at] = out
		}
		for i, s := range sides[1:] {
			if err := s.agree(results[0], results[i+1], b.dtype, b.o.Rows); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	host := sides[0].rounds
	f := benchfmt.Figure{Bench: "kmeans", Case: fmt.Sprintf("k=%d", k), Setting: b.dtype, Transport: b.clique.Backend(),
		Mode: lloyd.Kernel(),
		Size: int64(b.o.Rows) * int64(b.o.Features) * int64(size(b.dtype)), Unit: benchfmt.UnitSeconds,
		Better: benchfmt.Lower,
		Ours:   host.Best(), OursMedian: host.Median()}
	var gpu []benchfmt.Figure
	for _, s := range sides[1:] {
		if s.name == PeerName {
			f.Peer, f.Theirs, f.TheirsMedian = PeerName, s.rounds.Best(), s.rounds.Median()
			f.Bar = &benchfmt.Bar{Value: 0.5, Ratio: true}
			continue
		}
		g := f
		g.Mode, g.Mem, g.Transport = GPUMode, "cuda", b.gpu.clique.Backend()
		g.Ours, g.OursMedian = s.rounds.Best(), s.rounds.Median()
		g.Peer, g.Theirs, g.TheirsMedian = HostName, host.Best(), host.Median()
		g.Bar = &benchfmt.Bar{Value: 0.2, Ratio: true}
		gpu = append(gpu, g)
	}
	return append([]benchfmt.Figure{f}, gpu...), nil
}

// agreeGPU is agree for the GPU, which uses the same steps. The inertia must agree to 1e-4.
func agreeGPU(ours, theirs outcome, _ string, rows int) error {
	return agreeWithin(ours, theirs, 1e-6, int64(rows/1000))
}

// agree checks that the sides found the same result: equal inertia to 1e-6 and groups of equal sizes. With float32 a
// few rows at borders may differ, and the inertia in its sixth digit, because scikit-learn sums in single precision.
func agree(ours, theirs outcome, dtype string, rows int) error {
	tolerance := 1e-6
	if dtype == "float32" {
		tolerance = 1e-5
	}
	allowed := int64(0)
	if dtype == "float32" {
		allowed = int64(rows / 1000)
	}
	return agreeWithin(ours, theirs, tolerance, allowed)
}

func agreeWithin(ours, theirs outcome, tolerance float64, allowed int64) error {
	if math.Abs(ours.Inertia-theirs.Inertia) > tolerance*theirs.Inertia {
		return fmt.Errorf("results differ: inertia %v and %v", ours.Inertia,
			theirs.Inertia)
	}
	var apart int64
	for i := range ours.Counts {
		if i < len(theirs.Counts) {
			apart += max(ours.Counts[i]-theirs.Counts[i], theirs.Counts[i]-ours.Counts[i])
		}
	}
	if len(ours.Counts) != len(theirs.Counts) || apart > allowed {
		return fmt.Errorf("results differ: groups of %v and %v rows", ours.Counts,
			theirs.Counts)
	}
	return nil
}

func (b *bench) ours(ctx context.Context, k int) (outcome, error) {
	begin := time.Now()
	m, labels, err := kmeans.FitPredict(ctx, b.frame, kmeans.Options{Init: b.first[:k], MaxIter: b.o.Iterations,
		Tol: -1, Clique: b.clique})
	if err != nil {
		return outcome{}, err
	}
	out := outcome{Seconds: time.Since(begin).Seconds(), Inertia: m.Inertia}
	defer labels.Release()
	out.Counts, err = countLabels(ctx, labels, k)
	return out, err
}

// countLabels returns the number of rows of each group.
func countLabels(ctx context.Context, labels *frame.Frame, k int) ([]int64, error) {
	counts := make([]int64, k)
	batches, err := labels.Collect(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range batches {
		for _, l := range x.Column(0).(*array.Int32).Int32Values() {
			counts[l]++
		}
		x.Release()
	}
	return counts, nil
}

func (b *bench) theirs(ctx context.Context, k int) (outcome, error) {
	var out outcome
	err := b.peer.Ask(ctx, command{Op: "fit", K: k, Iterations: b.o.Iterations}, &out)
	return out, err
}
