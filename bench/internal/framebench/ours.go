package framebench

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
)

// ourSide is a local cluster that has the tables.
type ourSide struct {
	cluster *cluster.Cluster
	client  *client.Client
	frames  []*frame.Frame
	tables  map[string]*frame.Query
	result  *frame.Frame
}

// startOurs starts the cluster.
func startOurs(ctx context.Context, o Options) (s *ourSide, err error) {
	s = &ourSide{tables: map[string]*frame.Query{}}
	if s.cluster, err = cluster.Local(ctx, cluster.Config{Workers: o.Workers, Threads: o.Threads,
		MemoryLimit: cluster.NoMemoryLimit}); err != nil {
		return nil, err
	}
	if s.client, err = s.cluster.Client(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *ourSide) name() string { return "millstream" }

// load reads a table into the memory of the workers.
func (s *ourSide) load(ctx context.Context, t table, dir string) error {
	f, err := frame.ReadIPC(ctx, s.client, dir)
	if err != nil {
		return err
	}
	if t.parquet {
		defer f.Release()
		files := filepath.Join(dir, "parquet")
		if _, err := f.WriteParquet(ctx, files, frame.ParquetWriteOptions{}); err != nil {
			return err
		}
		s.tables[t.name] = frame.ScanParquet(ctx, s.client, files, frame.ParquetOptions{})
		return nil
	}
	s.frames = append(s.frames, f)
	s.tables[t.name] = f.Query()
	return f.Persist(ctx)
}

// run runs a query, waits until all of its result is in the memory of the workers, and keeps it for check.
func (s *ourSide) run(ctx context.Context, c Case) (outcome, error) {
	s.drop()
	begin := time.Now()
	q, err := c.query(ctx, s.client, s.tables)
	if err != nil {
		return outcome{}, err
	}
	if s.result, err = q.Compute(ctx); err != nil {
		return outcome{}, err
	}
	if err := s.result.Persist(ctx); err != nil {
		return outcome{}, err
	}
	seconds := time.Since(begin).Seconds()
	rows, err := s.result.NumRows(ctx)
	return outcome{Seconds: seconds, Rows: rows}, err
}

// digestOf computes the digest of a partition on its worker.
var digestOf = client.Func("millstream.bench.frame.digest", func(_ context.Context, b arrow.RecordBatch) (Digest,
	error) {
	var d Digest
	err := d.add(b)
	return d, err
})

// check returns a description of the last result.
func (s *ourSide) check(ctx context.Context, c Case, rows int64) (checked, error) {
	if rows <= rowByRow {
		batches, err := s.result.Collect(ctx)
		if err != nil {
			return checked{}, err
		}
		out := checked{}
		for _, b := range batches {
			out.rows = append(out.rows, rowsIn(b)...)
			b.Release()
		}
		return out, inOrder(out.rows, s.result.Schema(), c.sorted)
	}
	futures := make([]*client.Future[Digest], 0, s.result.NumPartitions())
	for _, p := range s.result.Partitions() {
		futures = append(futures, digestOf.Submit(ctx, s.client, p))
	}
	defer client.ReleaseAll(futures)
	parts, err := client.Gather(ctx, futures)
	if err != nil {
		return checked{}, err
	}
	out := checked{}
	for _, d := range parts {
		if err := out.digest.merge(d); err != nil {
			return out, err
		}
	}
	return out, nil
}

// inOrder returns an error if rows are not in the order of columns.
func inOrder(rows []row, s *arrow.Schema, columns []string) error {
	for _, name := range columns {
		at := s.FieldIndices(name)
		if len(at) != 1 {
			return fmt.Errorf("no column %q", name)
		}
	}
	if len(columns) == 0 {
		return nil
	}
	at := s.FieldIndices(columns[0])[0]
	for i := 1; i < len(rows); i++ {
		x, y := rows[i-1][at], rows[i][at]
		if before := x.value() > y.value() || x.value() != x.value() && x.text > y.text; before {
			return fmt.Errorf("row %d is not in order: %v before %v", i, x, y)
		}
	}
	return nil
}

// drop releases the last result.
func (s *ourSide) drop() {
	if s.result != nil {
		s.result.Release()
		s.result = nil
	}
}

func (s *ourSide) stop() {
	s.drop()
	for _, f := range s.frames {
		f.Release()
	}
	if s.client != nil {
		_ = s.client.Close() // the cluster is closed below
	}
	if s.cluster != nil {
		_ = s.cluster.Close()
	}
}
