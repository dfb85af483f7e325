package kmeans

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/device/kernels/lloyd"
)

// Model is what a fit has found.
type Model struct {
	// Columns are those that count, Centres the middles of the groups in their order.
	Columns []string
	Centres [][]float64
	// Inertia is the sum of the squared distances of all rows to their centres.
	Inertia float64
	// Iterations is how many it took; Converged tells that the last one changed no label.
	Iterations int
	Converged  bool
	// Rows is how many rows the frame had.
	Rows int64
}

// LabelSchema is that of frames of labels: one column "label", the number of each row's group.
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
	// A rank without partitions follows the others with any type: only sums travel.
	if narrow {
		return run[float32](ctx, ranks{r}, parts, p)
	}
	return run[float64](ctx, ranks{r}, parts, p)
})

func run[T lloyd.Float](ctx context.Context, w world, in frame.Parts[arrow.RecordBatch], p params) ([]arrow.RecordBatch,
	result, error) {
	parts := make([]*part[T], len(in.Batches))
	for i, b := range in.Batches {
		var err error
		if parts[i], err = newPart[T](b, p.Columns, in.Index[i]); err != nil {
			return nil, result{}, err
		}
	}
	out, err := newFitter(w, newHost(parts, in.Threads, p.K, len(p.Columns)), in.Total, p).fit(ctx)
	if err != nil {
		return nil, result{}, err
	}
	if !p.Labels {
		return nil, *out, nil
	}
	labels := make([]arrow.RecordBatch, len(parts))
	for i, x := range parts {
		labels[i] = labelBatch(x.labels)
	}
	return labels, *out, nil
}

func labelBatch(labels []int32) arrow.RecordBatch {
	d := array.NewData(arrow.PrimitiveTypes.Int32, len(labels),
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(labels))}, nil, 0, 0)
	defer d.Release()
	c := array.NewInt32Data(d)
	defer c.Release()
	return array.NewRecordBatch(LabelSchema, []arrow.Array{c}, int64(len(labels)))
}

// Fit finds groups in a frame. On a frame on devices it is the same algorithm, by kernels on the devices that have
// the partitions: sums are added in another order, and so differ in their last bits.
func Fit(ctx context.Context, f *frame.Frame, opts Options) (*Model, error) {
	m, _, err := fit(ctx, f, opts, false)
	return m, err
}

// FitPredict is Fit, and the groups of the frame's rows: a frame of LabelSchema with the same
// partitions in the same location.
func FitPredict(ctx context.Context, f *frame.Frame, opts Options) (*Model, *frame.Frame, error) {
	return fit(ctx, f, opts, true)
}

func fit(ctx context.Context, f *frame.Frame, opts Options, labels bool) (*Model, *frame.Frame, error) {
	p, run, err := prepared(f.Schema(), opts, labels)
	if err != nil {
		return nil, nil, err
	}
	by := algorithm
	if f.Location() == frame.Device {
		by = deviceAlgorithm
		// Only sums travel, in host memory: an order of reductions of our own keeps NCCL out, whose
		// start takes longer than a fit.
		run.Form.Deterministic = run.Form.Deterministic || run.Form.Backend == clique.Auto
	}
	out, results, err := by.Run(ctx, f, p, run)
	if err != nil {
		return nil, nil, err
	}
	m, err := modelOf(p, results[0])
	return m, out, err
}

// prepared is what ranks are told, and how they run.
func prepared(schema *arrow.Schema, opts Options, labels bool) (params, frame.NativeOptions, error) {
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

// modelOf is what a rank has found, for the user.
func modelOf(p params, r result) (*Model, error) {
	m := &Model{Columns: p.Columns, Inertia: r.Inertia, Iterations: r.Iterations, Converged: r.Converged, Rows: r.Rows}
	d := len(p.Columns)
	if len(r.Centres) != p.K*d {
		return nil, fmt.Errorf("kmeans: %d coordinates came back for %d centres", len(r.Centres), p.K)
	}
	for c := range p.K {
		m.Centres = append(m.Centres, r.Centres[c*d:(c+1)*d])
	}
	return m, nil
}

// Predict gives every row of a frame the number of the nearest centre: a frame of LabelSchema
// with the same partitions in the same location. The frame needs the model's columns, and may have others.
func (m *Model) Predict(ctx context.Context, f *frame.Frame) (*frame.Frame, error) {
	a, err := m.assignment(f.Schema())
	if err != nil {
		return nil, err
	}
	by := predicted
	if f.Location() == frame.Device {
		by = devicePredicted
	}
	return f.Map(ctx, by(client.Val(a)), LabelSchema)
}

// assignment is the model as it travels to workers.
func (m *Model) assignment(schema *arrow.Schema) (assignment, error) {
	a := assignment{Columns: m.Columns}
	if _, err := isFloat32(schema, m.Columns); err != nil {
		return a, err
	}
	for i, c := range m.Centres {
		if len(c) != len(m.Columns) {
			return a, fmt.Errorf("kmeans: centre %d has %d coordinates and there are %d columns", i, len(c),
				len(m.Columns))
		}
		a.Centres = append(a.Centres, c...)
	}
	if len(a.Centres) == 0 {
		return a, fmt.Errorf("kmeans: the model has no centres")
	}
	return a, nil
}

type assignment struct {
	Columns []string
	Centres []float64
}

var predicted = frame.NewMapWith("millstream.kmeans.predict",
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
	if n := len(a.Columns); n == 0 || len(a.Centres)%n != 0 {
		return nil, fmt.Errorf("kmeans: %d coordinates of centres with %d columns", len(a.Centres), n)
	}
	x, err := newPart[T](b, a.Columns, -1)
	if err != nil {
		return nil, err
	}
	h := newHost([]*part[T]{x}, 1, len(a.Centres)/len(a.Columns), len(a.Columns))
	if err := h.relabel(ctx, shiftOf(h, a.Centres, h.d), cast(h, a.Centres)); err != nil {
		return nil, err
	}
	return labelBatch(x.labels), nil
}
