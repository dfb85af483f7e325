// Package frame has distributed frames: tables of Arrow in partitions on the workers of a
// cluster, Millstream's or Dask's.
//
// A [Frame] is an ordered set of futures of Arrow record batches with one schema. What is done
// to it runs on the workers, partition by partition, and makes another frame:
//
//	f, err := frame.ReadCSV(ctx, c, "/data/people", frame.CSVOptions{})
//	adults, err := f.Filter(ctx, frame.Col("age").Ge(18).And(frame.Col("name").NotNull()))
//	few, err := adults.Project(ctx, "name", "age")
//	paths, err := few.WriteIPC(ctx, "/data/adults", frame.WriteOptions{})
//
// Functions of one's own are registered at package level, as all that workers run, and mapped
// over partitions ([NewMap], [NewMapWith]) or reduced ([NewPart], [Reduce]):
//
//	var count = frame.NewPart("count", func(_ context.Context, b arrow.RecordBatch) (int64, error) {
//		return b.NumRows(), nil
//	})
//	var add = client.Func2("add", func(_ context.Context, x, y int64) (int64, error) { return x + y, nil })
//
//	rows, err := frame.Reduce(ctx, f, count, add).Get(ctx)
//
// # Native algorithms
//
// [NewNative] registers an algorithm that works on all partitions at once: every worker gets
// its own, and a rank of a clique by which the workers talk to each other. Package kmeans is
// one.
//
// # GPUs
//
// The partitions of a frame are in host memory or in that of GPUs, its [Location]: [Frame.ToDevice] and [Frame.ToHost]
// copy it. Functions and algorithms on devices are registered like others, with [*DeviceBatch] in place of
// arrow.RecordBatch. [Frame.Filter] and [Frame.Repartition] of a frame on devices work on copies in the memory of its
// workers. Verbs that do not work where a frame is return [ErrLocation]; no other copies by itself.
//
// # Memory
//
// Batches are in memory of Go's heap. A function borrows the batch that it is given: tasks of
// other frames use the same one. Its result it gives away. What [Frame.Collect] returns is the
// caller's.
//
// # Dask
//
// [FromDask] is a Dask DataFrame that a Python program has published; [Frame.Publish] and
// Python's millstream.frame.to_dask are the way back. With [Device] they do
// so with partitions on GPUs, of CuPy arrays or cuDF.
//
// # Errors
//
// errors.Is finds [ErrSchema] and [ErrCorrupt], also in errors of tasks; the text names
// partition, file, line and column. Files and messages may come from anyone: what they make
// their reader allocate is bounded by their length.
package frame
