package dask

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/client"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/kmeans"
	"go.millstream.dev/tests/dask/rig"
	"go.millstream.dev/worker"
)

// A Dask DataFrame becomes a frame of Go's by two ways, is worked on by Go workers of Dask's scheduler, with a native
// algorithm among them, and goes back to Python as a Dask DataFrame.
func TestFrameWithDask(t *testing.T) {
	r := rig.New(t)
	s := r.DaskScheduler()
	r.DaskWorker(s.Address, "--name", "python", "--nthreads", "1")
	r.StartWorker(s.Address, worker.Config{Threads: 1, Name: "go-0"})
	r.StartWorker(s.Address, worker.Config{Threads: 1, Name: "go-1"})
	r.Script(s.Address, `
import pandas, numpy, pyarrow.fs
import dask.dataframe as dd
import millstream.frame
millstream.install(client)
df = pandas.DataFrame({"id": range(100), "name": [f"n{i}" for i in range(100)], "x": [float(i % 2) * 50 + i / 100 for i in range(100)]})
parts = dd.from_pandas(df, npartitions=12, sort=True).persist()
client.publish_dataset(plain=parts)
got = client.gather(millstream.frame.from_dask(client, parts, name="helped"))
check("futures", [b.num_rows for b in got], lambda n: sum(n) == 100 and len(n) == 12)
`)
	c, ctx := r.Client(s.Address), r.Context
	if r.Older("2025.7.0") { // their workers need the module, and do not import it
		_, err := client.Python[any]("importlib:import_module").With(client.WithWorkers("python")).Submit(ctx, c,
			"pyarrow.fs").Result(ctx)
		ok(t, "import", err)
	}
	for name, open := range map[string]func() (*frame.Frame, error){
		"plain":  func() (*frame.Frame, error) { return frame.FromDask(ctx, c, "plain", frame.Host) },
		"helped": func() (*frame.Frame, error) { return frame.Open(ctx, c, "helped", frame.Host) },
	} {
		f, err := open()
		ok(t, name, err)
		if f.NumPartitions() != 12 || f.Schema().NumFields() != 3 {
			t.Fatalf("%s: %d partitions, %v", name, f.NumPartitions(), f.Schema())
		}
		even, err := f.Filter(ctx, frame.Col("x").Lt(10).And(frame.Col("name").Ne("n0")))
		ok(t, name, err)
		batches, err := even.Collect(ctx)
		ok(t, name, err)
		var ids []int64
		for _, b := range batches {
			ids = append(ids, b.Column(0).(*array.Int64).Int64Values()...)
		}
		if len(ids) != 49 || ids[0] != 2 || ids[48] != 98 {
			t.Errorf("%s: rows %v", name, ids)
		}
		m, labels, err := kmeans.FitPredict(ctx, f, kmeans.Options{Init: [][]float64{{0}, {40}},
			Columns: []string{"x"}})
		ok(t, name, err)
		if m.Rows != 100 || !m.Converged {
			t.Errorf("%s: model %+v", name, m)
		}
		ok(t, name, labels.Publish(ctx, "labels-"+name, false))
		f.Release()
	}
	r.Script(s.Address, `
import millstream.frame
for name in ["plain", "helped"]:
    labels = millstream.frame.to_dask(client, "labels-" + name)
    check("partitions", labels.npartitions, 12)
    got = labels.compute()
    check("labels", list(got.label), [0, 1] * 50)
raises("no frame", KeyError, lambda: millstream.frame.to_dask(client, "missing"), "missing")
raises("nothing", ValueError, lambda: millstream.frame.to_dask(client, []), "not a frame")
`)
	if _, err := frame.Open(ctx, c, "missing", frame.Host); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a name that nothing is published under: %v", err)
	}
	// What is published and is no Arrow is told.
	numbers := client.Python[any]("builtins:int").Submit(ctx, c, 5)
	ok(t, "publish", client.Publish(ctx, c, "number", []*client.Future[any]{numbers}, false))
	if _, err := frame.Open(ctx, c, "number", frame.Host); err == nil || !strings.Contains(err.Error(), "RecordBatch") {
		t.Errorf("a number as a frame: %v", err)
	}
}
