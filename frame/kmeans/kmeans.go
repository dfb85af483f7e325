package kmeans

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/device/kernels/lloyd"
	"go.millstream.dev/internal/device/kernels/lloydfit"
)

// Model is the result of a fit.
type Model struct {
	// Columns are the columns of the fit, Centers the centers of the groups, with coordinates in the order of Columns.
	Columns []string
	Centers [][]float64
	// Inertia is the sum of the squared distances of all rows to their centers.
	Inertia float64
	// Iterations is the number of iterations; Converged reports whether the last one changed no label.
	Iterations int
	Converged  bool
	// Rows is the number of rows of the frame.
	Rows int64
}

// LabelSchema is the schema of frames of labels: one column "label", the number of each row's group.
var LabelSchema = arrow.NewSchema([]arrow.Field{{Name: "label", Type: arrow.PrimitiveTypes.Int32}}, nil)

var algorithm = frame.NewNative("millstream.kmeans", func(ctx context.Context, r *clique.Rank,
	parts frame.Parts[arrow.RecordBatch], p params) ([]arrow.RecordBatch, result, error) {
	narrow := len(parts.Batches) > 0
	var err error
	for i := 0; i < len(parts.Batches) && narrow && err == nil; i++ {
		narrow, err = isFloat32(parts.Batches[i].Schema(), p.Columns)
	}
	if err != nil {
		return nil, result{}, err
	}
	// A rank without partitions may use any type: only sums are exchanged.
	if narrow {
		return run[float32](ctx, ranks{r}, parts, p)
	}
	return run[float64](ctx, ranks{r}, parts, p)
})

func run[T lloyd.Float](ctx context.Context, w lloydfit.World, in frame.Parts[arrow.RecordBatch], p params) (
	[]arrow.RecordBatch, result, error) {
	parts := make([]*lloydfit.Part[T], len(in.Batches))
	for i, b := range in.Batches {
		var err error
		if parts[i], err = newPart[T](b, p.Columns, in.Index[i]); err != nil {
			return nil, result{}, err
		}
	}
	out, err := lloydfit.Fit(ctx, w, lloydfit.NewHost(parts, in.Threads, p.K, len(p.Columns)), in.Total, p.fit())
	if err != nil {
		return nil, result{}, withNames(err, p.Columns)
	}
	if !p.Labels {
		return nil, *out, nil
	}
	labels := make([]arrow.RecordBatch, len(parts))
	for i, x := range parts {
		labels[i] = labelBatch(x.Labels)
	}
	return labels, *out, nil
}

// ranks is the World of a clique.
type ranks struct{ r *clique.Rank }

func (w ranks) Sum(ctx context.Context, v []float64) error {
	return w.r.Do(ctx, clique.AllReduce(clique.Of(v), clique.Of(v), clique.Sum))
}

func (w ranks) Min(ctx context.Context, v []float64) error {
	return w.r.Do(ctx, clique.AllReduce(clique.Of(v), clique.Of(v), clique.Min))
}

func (w ranks) Rank() (int, int) { return w.r.Rank(), w.r.Size() }

// result is the result of a rank.
type result = lloydfit.Result

// withNames replaces the number of a column in an error by its name.
func withNames(err error, names []string) error {
	if e, ok := errors.AsType[*lloydfit.NotFiniteError](err); ok && e.Column < len(names) {
		return &frame.Error{Kind: frame.ErrSchema, Partition: e.Partition,
			Reason: fmt.Sprintf("column %q has a value that is not finite (NaN or infinite)", names[e.Column])}
	}
	return err
}

func labelBatch(labels []int32) arrow.RecordBatch {
	d := array.NewData(arrow.PrimitiveTypes.Int32, len(labels),
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(labels))}, nil, 0, 0)
	defer d.Release()
	c := array.NewInt32Data(d)
	defer c.Release()
	return array.NewRecordBatch(LabelSchema, []arrow.Array{c}, int64(len(labels)))
}

// Fit finds groups in a frame. On a frame on devices it runs the same algorithm with kernels on the devices that have
// the partitions: sums are added in another order, and so differ in their last bits.
func Fit(ctx context.Context, f *frame.Frame, opts Options) (*Model, error) {
	m, _, err := fit(ctx, f, opts, false)
	return m, err
}

// FitPredict is Fit that also returns the groups of the rows: a frame of LabelSchema with the same partitions in the
// same location.
func FitPredict(ctx context.Context, f *frame.Frame, opts Options) (*Model, *frame.Frame, error) {
	return fit(ctx, f, opts, true)
}

func fit(ctx context.Context, f *frame.Frame, opts Options, labels bool) (*Model, *frame.Frame, error) {
	p, run, err := prepare(f.Schema(), opts, labels)
	if err != nil {
		return nil, nil, err
	}
	by := algorithm
	if f.Location() == frame.Device {
		by = deviceAlgorithm
		// Only sums are exchanged, in host memory: the deterministic order of reductions excludes NCCL, whose start
		// takes longer than a fit.
		run.Form.Deterministic = run.Form.Deterministic || run.Form.Backend == clique.Auto
	}
	out, results, err := by.Run(ctx, f, p, run)
	if err != nil {
		return nil, nil, err
	}
	m, err := modelOf(p, results[0])
	return m, out, err
}

// prepare returns the parameters of the ranks, and the options of the run.
func prepare(schema *arrow.Schema, opts Options, labels bool) (params, frame.NativeOptions, error) {
	columns := slices.Clone(opts.Columns)
	if len(columns) == 0 {
		for _, x := range schema.Fields() {
			columns = append(columns, x.Name)
		}
	}
	run := frame.NativeOptions{Clique: opts.Clique, Form: opts.Form}
	p, err := opts.params(columns)
	if err != nil {
		return p, run, err
	}
	if _, err := isFloat32(schema, columns); err != nil {
		return p, run, err
	}
	if p.Labels = labels; labels {
		run.Schema = LabelSchema
	}
	return p, run, nil
}

// modelOf converts the result of a rank to a Model.
func modelOf(p params, r result) (*Model, error) {
	m := &Model{Columns: p.Columns, Inertia: r.Inertia, Iterations: r.Iterations, Converged: r.Converged, Rows: r.Rows}
	d := len(p.Columns)
	if len(r.Centers) != p.K*d {
		return nil, fmt.Errorf("kmeans: got %d coordinates for %d centers", len(r.Centers), p.K)
	}
	for c := range p.K {
		m.Centers = append(m.Centers, r.Centers[c*d:(c+1)*d])
	}
	return m, nil
}

// Predict returns the number of the nearest center for every row of a frame: a frame of LabelSchema with the same
// partitions in the same location. The frame must have the columns of the model, and may have others.
func (m *Model) Predict(ctx context.Context, f *frame.Frame) (*frame.Frame, error) {
	a, err := m.assignment(f.Schema())
	if err != nil {
		return nil, err
	}
	by := predict
	if f.Location() == frame.Device {
		by = devicePredict
	}
	return f.Map(ctx, by(client.Val(a)), LabelSchema)
}

// assignment returns the model in the form in which it is sent to workers.
func (m *Model) assignment(schema *arrow.Schema) (assignment, error) {
	a := assignment{Columns: m.Columns}
	if _, err := isFloat32(schema, m.Columns); err != nil {
		return a, err
	}
	for i, c := range m.Centers {
		if len(c) != len(m.Columns) {
			return a, fmt.Errorf("kmeans: center %d has %d coordinates for %d columns", i, len(c),
				len(m.Columns))
		}
		a.Centers = append(a.Centers, c...)
	}
	if len(a.Centers) == 0 {
		return a, errors.New("kmeans: model has no centers")
	}
	return a, nil
}

type assignment struct {
	Columns []string
	Centers []float64
}

var predict = frame.NewMapWith("millstream.kmeans.predict",
	func(ctx context.Context, b arrow.RecordBatch, a assignment) (arrow.RecordBatch, error) {
		narrow, err := isFloat32(b.Schema(), a.Columns)
		switch {
		case err != nil:
			return nil, err
		case narrow:
			return assign[float32](ctx, b, a)
		}
		return assign[float64](ctx, b, a)
	})

func assign[T lloyd.Float](ctx context.Context, b arrow.RecordBatch, a assignment) (arrow.RecordBatch, error) {
	if n := len(a.Columns); n == 0 || len(a.Centers)%n != 0 {
		return nil, fmt.Errorf("kmeans: %d coordinates of centers with %d columns", len(a.Centers), n)
	}
	x, err := newPart[T](b, a.Columns, -1)
	if err != nil {
		return nil, err
	}
	d := len(a.Columns)
	h := lloydfit.NewHost([]*lloydfit.Part[T]{x}, 1, len(a.Centers)/d, d)
	if err := lloydfit.Relabel(ctx, h, a.Centers); err != nil {
		return nil, err
	}
	return labelBatch(x.Labels), nil
}
