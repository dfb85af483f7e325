package gpu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/join"
	"go.millstream.dev/mem"
)

var kinds = []join.Kind{join.Inner, join.Left, join.Right, join.Full, join.Semi, join.Anti}

// hostJoin returns the rows of a join by package join.
func hostJoin(t testing.TB, left, right arrow.RecordBatch, o JoinOptions) []string {
	t.Helper()
	x, err := join.Build(right.Schema(), []arrow.RecordBatch{right}, o.RightKeys)
	must(t, err)
	defer x.Release()
	p, err := x.Probe(left.Schema(), join.Options{Kind: o.Kind, Keys: o.LeftKeys, Left: o.Left, Right: o.Right})
	must(t, err)
	defer p.Release()
	var out []string
	emit := func(b arrow.RecordBatch) error {
		out = append(out, lines(b)...)
		b.Release()
		return nil
	}
	must(t, p.Add(left, emit))
	must(t, p.Finish(emit))
	return out
}

func TestGPUJoin(t *testing.T) {
	e, ctx := engine(t)
	r := rand.New(rand.NewPCG(6, 1))
	for i, typ := range types {
		for _, rows := range sizes {
			// About one match for a row: the number of values follows that of the rows, as far as the type has them.
			other := sizes[(i+rows)%len(sizes)]
			distinct := max(rows, other, 10)
			if w := 8 * kindWidth(typ); w < 32 || typ.ID() == arrow.BOOL {
				rows, other = min(rows, 300), min(other, 300)
			}
			left := randomBatch(r, rows, column{typ, distinct, 0.1}, column{arrow.PrimitiveTypes.Int64, 4, 0.1})
			right := randomBatch(r, other, column{arrow.PrimitiveTypes.Int64, 4, 0}, column{typ, distinct, 0.1})
			d, f := upload(t, ctx, e, left), upload(t, ctx, e, right)
			for _, kind := range kinds {
				for _, two := range []bool{false, true} {
					o := JoinOptions{Kind: kind, LeftKeys: []int{0}, RightKeys: []int{1}, Left: []int{2, 1},
						Right: []int{2}}
					if two {
						o.LeftKeys, o.RightKeys = []int{0, 1}, []int{1, 0}
					}
					if kind == join.Semi || kind == join.Anti {
						o.Right = nil
					}
					got, err := e.Join(ctx, d, f, o)
					must(t, err)
					compare(t, fmt.Sprintf("%v join by %v, %d and %d rows", kind, typ, rows, other),
						download(t, ctx, e, got), hostJoin(t, left, right, o), true)
				}
			}
		}
	}
	// One key of all rows: more pairs than rows.
	one := randomBatch(r, 700, column{arrow.PrimitiveTypes.Int64, 1, 0})
	o := JoinOptions{LeftKeys: []int{0}, RightKeys: []int{0}, Left: []int{1}, Right: []int{1}}
	got, err := e.Join(ctx, upload(t, ctx, e, one), upload(t, ctx, e, one), o)
	must(t, err)
	compare(t, "one key", download(t, ctx, e, got), hostJoin(t, one, one, o), true)
	big, small := randomBatch(r, 1_000_000, column{arrow.PrimitiveTypes.Int64, 400_000, 0}),
		randomBatch(r, 100_000, column{arrow.PrimitiveTypes.Int64, 400_000, 0})
	got, err = e.Join(ctx, upload(t, ctx, e, big), upload(t, ctx, e, small), o)
	must(t, err)
	compare(t, "a million rows", download(t, ctx, e, got), hostJoin(t, big, small, o), true)
	two := randomBatch(r, 5, column{arrow.PrimitiveTypes.Int64, 1, 0}, column{arrow.PrimitiveTypes.Int32, 1, 0})
	o.RightKeys = []int{1}
	if _, err := e.Join(ctx, upload(t, ctx, e, one), upload(t, ctx, e, two), o); err == nil ||
		!strings.Contains(err.Error(), "int64 on the left and int32 on the right") {
		t.Errorf("keys of different types: %v", err)
	}
}

func kindWidth(t arrow.DataType) int {
	k, _ := kindOf(t)
	return k.width()
}

// parts returns a source of slices of a batch.
func parts(e *Engine, b arrow.RecordBatch, n int) Source {
	i := 0
	return func(ctx context.Context) (*Table, error) {
		if i == n {
			return nil, nil
		}
		rows := int(b.NumRows())
		s := b.NewSlice(int64(rows*i/n), int64(rows*(i+1)/n))
		i++
		return e.Upload(ctx, s)
	}
}

// A join of tables of three times the limit of device memory stays within it, and has the same rows.
func TestGPUJoinLarge(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	const rows = 200_000
	left := randomBatch(r, rows, column{arrow.PrimitiveTypes.Int64, rows, 0.05},
		column{arrow.PrimitiveTypes.Float64, 99, 0.3})
	right := randomBatch(r, rows, column{arrow.PrimitiveTypes.Int64, rows, 0.05})
	const limit = (3*8 + 2*8 + 3) * rows / 3
	var stats *mem.Statistics
	e, ctx := engineOf(t, func(m mem.Resource) mem.Resource {
		var err error
		stats, err = mem.NewStatistics(m)
		must(t, err)
		l, err := mem.NewLimit(stats, limit)
		must(t, err)
		return l
	})
	for _, kind := range kinds {
		o := JoinOptions{Kind: kind, LeftKeys: []int{0}, RightKeys: []int{0}, Left: []int{2, 1}, Right: []int{1}}
		if kind == join.Semi || kind == join.Anti {
			o.Right = nil
		}
		var got []string
		must(t, e.JoinLarge(ctx, parts(e, left, 12), parts(e, right, 12), 12, o, func(d *Table) error {
			got = append(got, download(t, ctx, e, d)...)
			return nil
		}))
		compare(t, kind.String(), got, hostJoin(t, left, right, o), true)
	}
	if peak := stats.Counters().PeakBytes; peak > limit || peak < limit/10 {
		t.Errorf("peak of %d bytes with a limit of %d", peak, limit)
	}
	o := JoinOptions{LeftKeys: []int{0}, RightKeys: []int{0}}
	err := e.JoinLarge(ctx, parts(e, left, 12), parts(e, right, 12), 1, o, func(d *Table) error {
		d.Release()
		return nil
	})
	if !errors.Is(err, mem.ErrOutOfMemory) || !strings.Contains(err.Error(), "partition 0 of 1") {
		t.Errorf("one partition: %v", err)
	}
	failed := errors.New("source")
	bad := func(context.Context) (*Table, error) { return nil, failed }
	if err := e.JoinLarge(ctx, bad, parts(e, right, 1), 2, o, nil); !errors.Is(err, failed) {
		t.Errorf("a failed source: %v", err)
	}
}
