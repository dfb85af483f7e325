// Package frame implements distributed frames: Arrow tables in partitions on the workers of a Millstream or Dask
// cluster.
//
// A [Frame] is an ordered set of futures of Arrow record batches with one schema. Operations run on the workers,
// partition by partition, and return another frame:
//
//	f, err := frame.ReadCSV(ctx, c, "/data/people", frame.CSVOptions{})
//	adults, err := f.Filter(ctx, frame.Col("age").Ge(18).And(frame.Col("name").NotNull()))
//	few, err := adults.Project(ctx, "name", "age")
//	paths, err := few.WriteIPC(ctx, "/data/adults", frame.WriteOptions{})
//
// User functions are registered at package level, like all functions that workers run, and mapped over partitions
// ([NewMap], [NewMapWith]) or reduced ([NewPart], [Reduce]):
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
// [NewNative] registers an algorithm that works on all partitions at once: every worker gets its own partitions, and a
// rank of a clique for the communication with the others. Package kmeans is an example.
//
// # GPUs
//
// The partitions of a frame are in host memory or in that of GPUs, its [Location]: [Frame.ToDevice] and [Frame.ToHost]
// copy a frame. Functions and algorithms on devices are registered like others, with [*DeviceBatch] in place of
// arrow.RecordBatch. [Frame.Filter] and [Frame.Repartition] of a frame on devices work on copies in the memory of its
// workers. Operations that do not support the location of a frame return [ErrLocation]; no other operation copies
// implicitly.
//
// # Memory
//
// Batches are on the Go heap. A function borrows its argument, because tasks of other frames use the same batch, and
// gives up its result. The result of [Frame.Collect] is owned by the caller.
//
// # Dask
//
// [FromDask] opens a Dask DataFrame that a Python program has published; [Frame.Publish] and millstream.frame.to_dask
// in Python are the reverse. With [Device] the partitions are on GPUs, as CuPy arrays or cuDF.
//
// # Errors
//
// Errors match [ErrSchema] and [ErrCorrupt] with errors.Is, also errors of tasks; the text names partition, file, line
// and column. Files and messages are not trusted: the memory that reading them allocates is bounded by their length.
package frame
