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

// Publish keeps the frame at the scheduler under a name, also after this client is gone. Go
// programs find it with Open, those of Python with millstream.frame.to_dask, which makes a Dask
// DataFrame of it, or millstream.device.to_dask for one on devices. override replaces what is published under the name.
func (f *Frame) Publish(ctx context.Context, name string, override bool) error {
	if err := f.Persist(ctx); err != nil {
		return err
	}
	if f.loc == Device {
		return client.Publish(ctx, f.c, name, f.device, override)
	}
	return client.Publish(ctx, f.c, name, f.parts, override)
}

// Open returns the frame that is published under a name, whose partitions are in a location: by Publish, or by Python's
// millstream.frame.from_dask for Host and millstream.device.from_dask for Device.
func Open(ctx context.Context, c *client.Client, name string, at Location) (*Frame, error) {
	if at == Device {
		parts, err := published[wire.Dict](ctx, c, name)
		if err != nil {
			return nil, err
		}
		return deviceOfParts(ctx, c, parts)
	}
	parts, err := published[arrow.RecordBatch](ctx, c, name)
	if err != nil {
		return nil, err
	}
	return Of(ctx, c, parts)
}

func published[B any](ctx context.Context, c *client.Client, name string) ([]*client.Future[B], error) {
	parts, err := client.Published[B](ctx, c, name)
	if err == nil && len(parts) == 0 {
		err = fmt.Errorf("frame: %s is published, but has no partitions", name)
	}
	return parts, err
}

// toArrow makes a record batch of a partition of pandas. It travels as text: Dask's workers
// need pyarrow, and nothing of Millstream's.
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

// FromDask returns a Dask DataFrame as a frame in a location: one that a Python program has persisted and
// published under a name, with nothing but Dask,
//
//	client.publish_dataset(people=df.persist())
//
// For Host, Python workers, or Millstream workers with Python, turn its partitions into Arrow's. The
// index is left out: reset_index() makes a column of it.
//
// For Device it is a DataFrame of cuDF, or a list of futures of dicts of CuPy arrays. Python workers turn the
// partitions into Arrow's layout, on the device; they need CuPy and pyarrow, and nothing of Millstream's. From there
// they go to Millstream's workers, from device to device over ucxx://.
//
// opts specify where the Python functions run, such as client.WithWorkers.
func FromDask(ctx context.Context, c *client.Client, name string, at Location, opts ...client.Option) (*Frame, error) {
	parts, err := client.Published[*client.Opaque](ctx, c, name)
	if err != nil {
		return nil, err
	}
	defer client.ReleaseAll(parts)
	if len(parts) == 0 {
		return nil, fmt.Errorf("frame: %s has no partitions at the scheduler: publish what persist() returns", name)
	}
	order, err := partitionOrder(name, parts)
	if err != nil {
		return nil, err
	}
	if at == Host {
		return Of(ctx, c, converted(ctx, c, pandasToArrow.With(opts...), parts, order))
	}
	source, err := python.Text("device")
	if err != nil {
		return nil, err
	}
	convert := client.PythonSource[wire.Dict](source + "\n\ndef convert(part):\n    return " +
		"to_device(part)\n").With(opts...)
	return deviceOfParts(ctx, c, converted(ctx, c, convert, parts, order))
}

// converted submits a Python function on each partition.
func converted[B any](ctx context.Context, c *client.Client, f *client.PyFn[B], parts []*client.Future[*client.Opaque],
	order []int) []*client.Future[B] {
	out := make([]*client.Future[B], len(parts))
	for i, at := range order {
		out[i] = f.Submit(ctx, c, parts[at])
	}
	return out
}

// partitionOrder is the order of the partitions of a collection, whose keys are tuples of a
// name and a number. A list of futures keeps its own.
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
			return nil, fmt.Errorf("frame: %s has partitions of several collections, %s and %s: publish one DataFrame",
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
	return nil, fmt.Errorf("frame: %s is no DataFrame: only %d of its %d keys are numbered partitions", name, numbered,
		len(parts))
}
