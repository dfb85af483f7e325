package frame

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
)

// Publish keeps the frame at the scheduler under a name, also after this client is gone. Go
// programs find it with Open, those of Python with millstream.frame.to_dask, which makes a Dask
// DataFrame of it. override replaces what is published under the name.
func (f *Frame) Publish(ctx context.Context, name string, override bool) error {
	if err := f.Persist(ctx); err != nil {
		return err
	}
	return client.Publish(ctx, f.c, name, f.parts, override)
}

// Open is the frame that is published under a name: by Publish, or by Python's
// millstream.frame.from_dask.
func Open(ctx context.Context, c *client.Client, name string) (*Frame, error) {
	parts, err := client.Published[arrow.RecordBatch](ctx, c, name)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("frame: %s is published, but has no partitions", name)
	}
	return Of(ctx, c, parts)
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

// FromDask is a Dask DataFrame as a frame: one that a Python program has persisted and
// published under a name, with nothing but Dask,
//
//	client.publish_dataset(people=df.persist())
//
// Python workers, or Millstream workers with Python, turn its partitions into Arrow's. The
// index is left out: reset_index() makes a column of it.
func FromDask(ctx context.Context, c *client.Client, name string) (*Frame, error) {
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
	batches := make([]*client.Future[arrow.RecordBatch], len(parts))
	for i, at := range order {
		batches[i] = pandasToArrow.Submit(ctx, c, parts[at])
	}
	return Of(ctx, c, batches)
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
			return nil, fmt.Errorf("frame: %s has partitions of several collections, %s and %s: publish one DataFrame", name, collection, text)
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
	return nil, fmt.Errorf("frame: %s is no DataFrame: only %d of its %d keys are numbered partitions", name, numbered, len(parts))
}
