package frame

import (
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/wire"
)

// placedFrame is a frame on devices for plans that do not run.
func placedFrame(partitions int, names ...string) *Frame {
	types := []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Boolean}
	var fields []arrow.Field
	for i, name := range names {
		t := types[i%len(types)]
		if name == "text" {
			t = arrow.BinaryTypes.String
		}
		fields = append(fields, arrow.Field{Name: name, Type: t, Nullable: true})
	}
	return newDeviceFrame(nil, arrow.NewSchema(fields, nil), make([]*client.Future[wire.Dict], partitions),
		[]string{"tcp://a:1"})
}

// Explain says which operators run on devices, and that the rest is copied.
func TestExplainDevices(t *testing.T) {
	a, b := placedFrame(2, "k", "x", "flag"), placedFrame(1, "k", "y", "other")
	text, host := placedFrame(2, "k", "text"), &Frame{schema: a.schema}
	sum := []Agg{Sum(Col("x")).As("s"), Count().As("n")}
	for _, c := range []struct {
		name string
		q    *Query
		want string
	}{
		{"group", a.Query().GroupBy(Col("k")).Agg(sum...), `
Aggregate sum(x) as s, count(*) as n by k  (on devices)
└─ Project k, x  (on devices)
   └─ Frame of 2 partitions on devices
`},
		{"join", a.Query().Join(b.Query(), JoinOptions{On: []string{"k"}}).GroupBy(Col("flag")).Agg(sum...), `
Aggregate sum(x) as s, count(*) as n by flag  (on devices)
└─ Project flag, x  (on devices)
   └─ Inner join on k = k_right  (on devices)
      ├─ Frame of 2 partitions on devices
      └─ Project k as k_right  (on devices)
         └─ Frame of 1 partition on devices
`},
		{"above", a.Query().GroupBy(Col("k")).Agg(sum...).Filter(Col("n").Gt(1)), `
Filter n > 1
└─ Aggregate sum(x) as s, count(*) as n by k  (on devices)
   └─ Project k, x  (on devices)
      └─ Frame of 2 partitions on devices
`},
		{"median", a.Query().GroupBy(Col("k")).Agg(Median(Col("x"))), `
Aggregate median(x) by k
└─ Project k, x
   └─ Frame of 2 partitions on devices, copied to host memory
`},
		{"filter", a.Query().Filter(Col("x").Gt(1)).GroupBy(Col("k")).Agg(sum...), `
Aggregate sum(x) as s, count(*) as n by k
└─ Filter x > 1
   └─ Project k, x
      └─ Frame of 2 partitions on devices, copied to host memory
`},
		{"text", text.Query().GroupBy(Col("text")).Agg(Count()), `
Aggregate count(*) by text
└─ Project text
   └─ Frame of 2 partitions on devices, copied to host memory
`},
		{"types", a.Query().Join(b.Query(), JoinOptions{LeftOn: []Expr{Col("k")}, RightOn: []Expr{Col("y")}}).
			Agg(Count()), `
Aggregate count(*)
└─ Inner join on _1 = y
   ├─ Project k, cast(k as float64) as _1
   │  └─ Frame of 2 partitions on devices, copied to host memory
   └─ Project y
      └─ Frame of 1 partition on devices, copied to host memory
`},
		{"host", host.Query().GroupBy(Col("k")).Agg(sum...), `
Aggregate sum(x) as s, count(*) as n by k
└─ Project k, x
   └─ Frame of 0 partitions
`},
	} {
		got, err := c.q.Explain()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if want := strings.TrimPrefix(c.want, "\n"); got != want {
			t.Errorf("%s: got\n%swant\n%s", c.name, got, want)
		}
	}
}

// A device without kernels is that of a test, or of a driver that is not there.
func TestNoKernels(t *testing.T) {
	ctx, _ := onFake(t)
	if _, err := currentEngine(ctx); !errors.Is(err, errNoKernels) {
		t.Errorf("currentEngine: %v, want errNoKernels", err)
	}
	if err := withTables(ctx, nil, nil, nil); !errors.Is(err, errNoKernels) {
		t.Errorf("withTables: %v, want errNoKernels", err)
	}
}
