package stages

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/vec"
)

// Stats are the measurements of a task.
type Stats struct {
	// Rows and Bytes are the size of the result, Buckets that of each bucket.
	Rows, Bytes int64
	Buckets     []Size
	// Ops are those of its operators; the first entry is the input.
	Ops []OpStats
}

// OpStats are the measurements of one operator.
type OpStats struct {
	// Node is the number of the operator of the plan, Phase the part of its work.
	Node  int
	Phase string
	// Rows and Bytes are the size of its result.
	Rows, Bytes int64
	// Nanos is the time in the operator in nanoseconds.
	Nanos int64
}

// meter measures what passes from one operator to the next. total is the time of all operators after it.
type meter struct {
	next        sink
	rows, bytes int64
	total       time.Duration
}

func (m *meter) push(b arrow.RecordBatch) error {
	m.rows += b.NumRows()
	m.bytes += vec.Bytes(b)
	from := time.Now()
	err := m.next.push(b)
	m.total += time.Since(from)
	return err
}

func (m *meter) finish() error {
	from := time.Now()
	err := m.next.finish()
	m.total += time.Since(from)
	return err
}
