package frame

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/dask/python"
	"go.millstream.dev/wire"
)

// Publish stores the frame at the scheduler under a name, where it outlives this client. Go programs open it with Open,
// Python programs with millstream.frame.to_dask, which returns a Dask DataFrame, or millstream.device.to_dask for a
// frame on devices. override replaces an existing dataset of that name.
func (f *Frame) Publish(ctx context.Context, name string, override bool) error {
	if err := f.Persist(ctx); err != nil {
		return err
	}
	if f.loc == Device {
		return client.Publish(ctx, f.c, name, f.device, override)
	}
	return client.Publish(ctx, f.c, name, f.parts, override)
}

// Open returns the frame that is published under a name, with partitions in a location: by Publish, or by
// millstream.frame.from_dask (Host) or millstream.device.from_dask (Device) in Python.
func Open(ctx context.Context, c *client.Client, name string, at Location) (*Frame, error) {
	if at == Device {
		parts, err := openPublished[wire.Dict](ctx, c, name)
		if err != nil {
			return nil, err
		}
		return newDeviceFrameOf(ctx, c, parts)
	}
	parts, err := openPublished[arrow.RecordBatch](ctx, c, name)
	if err != nil {
		return nil, err
	}
	return Of(ctx, c, parts)
}

func openPublished[B any](ctx context.Context, c *client.Client, name string) ([]*client.Future[B], error) {
	parts, err := client.Published[B](ctx, c, name)
	if err == nil && len(parts) == 0 {
		err = fmt.Errorf("frame: published dataset %s has no partitions", name)
	}
	return parts, err
}

// toArrow converts a pandas partition to a record batch. It is sent as source text: Dask workers need pyarrow, but no
// Millstream package.
const toArrow = `
def to_arrow(part):
    import pyarrow
    if isinstance(part, pyarrow.RecordBatch):
        return part
    if isinstance(part, pyarrow.Table):
        batches = part.combine_chunks().to_batches()
        return batches[0] if batches else pyarrow.RecordBatch.from_pylist([], schema=part.schema)
    return pyarrow.RecordBatch.from_pandas(part, preserve_index=False).replace_schema_metadata(None)
`

var pandasToArrow = client.PythonSource[arrow.RecordBatch](toArrow)

// FromDask returns a Dask DataFrame as a frame in a location. A Python program has persisted and published it under a
// name, using only Dask,
//
//	client.publish_dataset(people=df.persist())
//
// For Host, Python workers, or Millstream workers with Python, convert its partitions to Arrow. The index is left out:
// reset_index() makes it a column.
//
// For Device the dataset is a cuDF DataFrame, or a list of futures of dicts of CuPy arrays. Python workers convert the
// partitions to the Arrow layout, on the device; they need CuPy and pyarrow, but no Millstream package. The result is
// moved to Millstream workers, from device to device over ucxx://.
//
// opts specify where the Python functions run, such as client.WithWorkers.
func FromDask(ctx context.Context, c *client.Client, name string, at Location, opts ...client.Option) (*Frame, error) {
	parts, err := client.Published[*client.Opaque](ctx, c, name)
	if err != nil {
		return nil, err
	}
	defer client.ReleaseAll(parts)
	if len(parts) == 0 {
		return nil, fmt.Errorf("frame: dataset %s has no partitions; publish the result of persist()", name)
	}
	order, err := partitionOrder(name, parts)
	if err != nil {
		return nil, err
	}
	if at == Host {
		return Of(ctx, c, convertParts(ctx, c, pandasToArrow.With(opts...), parts, order))
	}
	source, err := python.Text("device")
	if err != nil {
		return nil, err
	}
	convert := client.PythonSource[wire.Dict](source + "\n\ndef convert(part):\n    return " +
		"to_device(part)\n").With(opts...)
	return newDeviceFrameOf(ctx, c, convertParts(ctx, c, convert, parts, order))
}

// convertParts submits a Python function for each partition.
func convertParts[B any](ctx context.Context, c *client.Client, f *client.PyFn[B],
	parts []*client.Future[*client.Opaque], order []int) []*client.Future[B] {
	out := make([]*client.Future[B], len(parts))
	for i, at := range order {
		out[i] = f.Submit(ctx, c, parts[at])
	}
	return out
}

// partitionOrder returns the order of the partitions of a collection, whose keys are tuples of a name and a number. A
// list of futures keeps its order.
func partitionOrder(name string, parts []*client.Future[*client.Opaque]) ([]int, error) {
	order := make([]int, len(parts))
	number := make([]int64, len(parts))
	collection := ""
	numbered := 0
	for i, p := range parts {
		order[i] = i
		key, _ := p.Key().Value().([]any)
		if len(key) != 2 {
			continue
		}
		text, isText := key[0].(string)
		n, isNumber := key[1].(int64)
		if u, ok := key[1].(uint64); ok {
			n, isNumber = int64(u), true
		}
		if !isText || !isNumber {
			continue
		}
		if numbered++; numbered > 1 && text != collection {
			return nil, fmt.Errorf("frame: dataset %s has partitions of several collections, %s and %s; "+
				"publish one DataFrame",
				name, collection, text)
		}
		collection, number[i] = text, n
	}
	switch numbered {
	case 0:
		return order, nil
	case len(parts):
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(number[a], number[b]) })
		return order, nil
	}
	return nil, fmt.Errorf("frame: dataset %s is not a DataFrame: only %d of its %d keys are numbered partitions", name,
		numbered, len(parts))
}
