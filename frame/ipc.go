package frame

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/wire/arrowipc"
)

// ipcSource is one partition of an IPC file: spans of its bytes.
type ipcSource struct {
	Path      string
	Stamp     stamp
	Spans     []span
	Partition int
}

// ipcHead describes a file to the client.
type ipcHead struct {
	Schema []byte
	Index  ipcIndex
}

var (
	headIPC = client.Func("millstream.frame.ipc-head", func(_ context.Context, path string) (ipcHead,
		error) {
		return readIPCHead(path)
	})
	readIPC = client.Func("millstream.frame.read-ipc", func(_ context.Context, s ipcSource) (arrow.RecordBatch,
		error) {
		return readIPCPart(s)
	})
	saveIPC = client.Func2("millstream.frame.write-ipc", func(_ context.Context, b arrow.RecordBatch,
		path string) (writtenFile, error) {
		return writeIPC(b, path)
	})

	ipcEndings = []string{".arrow", ".feather", ".ipc", ".arrows"}
)

// ReadIPC returns a frame of files in the Arrow IPC format, file or stream (Feather version 2 is the same): one file,
// those of a folder (*.arrow, *.feather, *.ipc, *.arrows), or those that match a pattern. In a folder that WriteIPC
// wrote they are the files of its last result. Every record batch is a partition; Repartition changes them. Workers
// read the files, each its part, when the partitions are needed; the client reads only their schemas, which must be
// equal.
func ReadIPC(ctx context.Context, c *client.Client, path string) (*Frame, error) {
	paths, heads, err := readHeads(ctx, c, path, ipcEndings, func(paths []string) []*client.Future[ipcHead] {
		return headIPC.Map(ctx, c, paths, client.WithImpure())
	})
	if err != nil {
		return nil, err
	}
	var schema *arrow.Schema
	var sources []ipcSource
	for i, h := range heads {
		s, err := decodeSchema(h.Schema)
		if err != nil {
			return nil, err
		}
		if schema == nil {
			schema = s
		} else if d := diffSchemas(schema, s); d != "" {
			return nil, &Error{Kind: ErrSchema, Path: paths[i], Partition: len(sources),
				Reason: fmt.Sprintf("%s, as in %s", d, paths[0])}
		}
		for j := range h.Index.Batches {
			sources = append(sources, ipcSource{Path: paths[i], Stamp: h.Index.Stamp, Spans: h.Index.spans(j),
				Partition: len(sources)})
		}
	}
	if len(sources) == 0 { // files without rows: one empty partition
		sources = append(sources, ipcSource{Path: paths[0], Stamp: heads[0].Index.Stamp,
			Spans: []span{heads[0].Index.Schema}})
	}
	return newFrame(c, schema, readIPC.Map(ctx, c, sources)), nil
}

// readIPCHead reads the schema and the index of a file.
func readIPCHead(path string) (head ipcHead, err error) {
	f, err := openPart(path)
	if err != nil {
		return head, fmt.Errorf("frame: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return head, fmt.Errorf("frame: %w", err)
	}
	ix, err := indexIPC(f, info.Size())
	if err != nil {
		return head, &Error{Kind: ErrCorrupt, Path: path, Partition: -1, Err: err}
	}
	ix.Stamp = stampOf(info)
	b, err := readSpans(f, []span{ix.Schema})
	if err == nil {
		_, err = decodeSchema(b)
	}
	if err != nil {
		return head, &Error{Kind: ErrCorrupt, Path: path, Partition: -1, Err: err}
	}
	return ipcHead{Schema: b, Index: *ix}, nil
}

func readIPCPart(s ipcSource) (arrow.RecordBatch, error) {
	f, err := openStamped(s.Path, s.Stamp, s.Partition)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	corrupt := func(err error) error {
		return &Error{Kind: ErrCorrupt, Path: s.Path, Partition: s.Partition, Err: err}
	}
	b, err := readSpans(f, s.Spans)
	if err != nil {
		return nil, corrupt(err)
	}
	schema, batches, err := arrowipc.Read(b)
	if err != nil {
		return nil, corrupt(err)
	}
	defer releaseAll(batches)
	return concat(schema, batches)
}

// writeIPC writes a batch as a file in the IPC format.
func writeIPC(b arrow.RecordBatch, path string) (writtenFile, error) {
	n, err := create(path, func(f *os.File) (err error) {
		defer recoverError(&err)
		w, err := ipc.NewFileWriter(f, ipc.WithSchema(b.Schema()))
		if err != nil {
			return err
		}
		return errors.Join(w.Write(b), w.Close())
	})
	return writtenFile{Path: path, Rows: b.NumRows(), Bytes: n}, err
}

// WriteIPC writes the frame as files in the Arrow IPC format, one for each partition, into a folder, which is created,
// and returns their paths. Workers write them. The files are one set: readers see all of them or none, and a write that
// fails leaves nothing. If the folder already has files of this format, WriteIPC returns ErrExists unless
// opts.Overwrite is set. See WriteOptions.
func (f *Frame) WriteIPC(ctx context.Context, dir string, opts WriteOptions) ([]string, error) {
	return f.writeSet(ctx, dir, ".arrow", opts, func(p client.Arg[arrow.RecordBatch],
		path string) *client.Future[writtenFile] {
		return saveIPC.Submit(ctx, f.c, p, client.Val(path), client.WithImpure())
	})
}
