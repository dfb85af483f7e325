package frame

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/wire"
)

func TestString(t *testing.T) {
	f := &Frame{schema: people, parts: make([]*client.Future[arrow.RecordBatch], 4)}
	if got, want := fmt.Sprint(f), "Frame of 4 partitions, 4 columns: id int64, name utf8, score float64, ok "+
		"bool"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	one := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float32}}, nil)
	d := &Frame{loc: Device, schema: one, device: make([]*client.Future[wire.Dict], 1)}
	d.released.Store(true)
	if got, want := fmt.Sprint(d), "Frame on devices of 1 partition, 1 column: x float32 (released)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var many []arrow.Field
	for i := range 1000 {
		many = append(many, arrow.Field{Name: fmt.Sprint("c", i), Type: arrow.PrimitiveTypes.Int8})
	}
	got := fmt.Sprint(&Frame{schema: arrow.NewSchema(many, nil)})
	if !strings.HasPrefix(got, "Frame of 0 partitions, 1000 columns: c0 int8, ") ||
		!strings.HasSuffix(got, ", c19 int8, …") {
		t.Errorf("got %q, want the first 20 of 1000 columns", got)
	}
}
