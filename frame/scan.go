package frame

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/scan"
)

// Tasks that read files, of every format.
var (
	readHead = client.Func("millstream.frame.head", scan.ReadHead)
	// oddQuotes reports whether a block has an odd number of quotes, so that the next one begins within quotes.
	oddQuotes = client.Func("millstream.frame.csv-quotes", scan.OddQuotes)
	readSplit = client.Func("millstream.frame.read", func(ctx context.Context, s scan.Split) (arrow.RecordBatch,
		error) {
		return readWhole(ctx, s)
	})
)

// openSource opens a path: workers list the files and read their heads.
func openSource(ctx context.Context, c *client.Client, path string, opts scan.Options) (*scan.Source, error) {
	_, heads, err := readHeads(ctx, c, path, opts.Format.Endings(), func(paths []string) []*client.Future[scan.Head] {
		requests := make([]scan.HeadRequest, len(paths))
		for i, p := range paths {
			requests[i] = scan.HeadRequest{Path: p, First: i == 0, Options: opts}
		}
		return readHead.Map(ctx, c, requests, client.WithImpure())
	})
	if err != nil {
		return nil, err
	}
	src, err := scan.Assemble(heads, opts)
	if err != nil {
		return nil, err
	}
	blocks, _ := src.Uncounted()
	if len(blocks) == 0 {
		return src, nil
	}
	futures := oddQuotes.Map(ctx, c, blocks)
	defer client.ReleaseAll(futures)
	odd, err := client.Gather(ctx, futures)
	if err != nil {
		return nil, withKind(err)
	}
	src.MarkQuotes(odd)
	return src, nil
}

// readSource returns a frame with one partition for each split of a path.
func readSource(ctx context.Context, c *client.Client, path string, opts scan.Options) (*Frame, error) {
	src, err := openSource(ctx, c, path, opts)
	if err != nil {
		return nil, err
	}
	return newFrame(c, src.Schema, readSplit.Map(ctx, c, src.Splits)), nil
}

// readWhole returns all rows of a split in one batch.
func readWhole(ctx context.Context, s scan.Split) (arrow.RecordBatch, error) {
	var batches []arrow.RecordBatch
	defer func() { releaseAll(batches) }()
	for b, err := range scan.Read(ctx, s, scan.ReadOptions{BatchRows: 1 << 30}) {
		if err != nil {
			return nil, err
		}
		batches = append(batches, b)
	}
	schema, err := decodeSchema(s.Schema)
	if err != nil {
		return nil, err
	}
	return concat(schema, batches)
}

// newScan returns a query of files that workers have opened.
func newScan(ctx context.Context, c *client.Client, verb, path string, opts scan.Options) *Query {
	q := &Query{c: c}
	src, err := openSource(ctx, c, path, opts)
	if err != nil {
		q.err = err
		return q
	}
	n, err := plan.NewScan(path, src)
	if err != nil {
		q.err = fmt.Errorf("frame: %s: %w", verb, err)
		return q
	}
	q.node = n
	return q
}
