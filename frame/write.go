package frame

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/files"
)

// WriteOptions specifies how WriteIPC and WriteCSV treat existing files of a folder. The zero value writes only into
// folders without files of the format.
//
// The files of a write are named part-00000-ID.arrow (or .csv) and so on, with an ID of the write, and listed in
// _millstream.arrow.json (.csv.json), the manifest: ReadIPC and ReadCSV read only the files of the manifest. Other
// files in the folder are neither read nor removed. Files of another format do not matter.
//
// If several writes into one folder run concurrently, one succeeds, and the others return an error.
type WriteOptions struct {
	// Overwrite replaces the result in the folder: readers see the old one until the new one is complete, and then the
	// new one. The files of the old one are removed. By default a folder with files of the format is an ErrExists.
	Overwrite bool
}

const (
	// abortTime bounds how long a write that has failed waits for its files to be removed.
	abortTime = 15 * time.Second
	// beginTime bounds how long a write whose context has ended waits for a task that may be creating its folder. One
	// that waits for a worker is canceled.
	beginTime = 2 * time.Second
)

// Tasks of a write. Each may run twice, on two workers, when one is lost.
var (
	prepareSet = client.Func("millstream.frame.write-prepare",
		func(ctx context.Context, s files.Set) (files.Preparation, error) { return s.Prepare(ctx) })
	commitSet = client.Func2("millstream.frame.write-commit",
		func(ctx context.Context, s files.Set, written []files.Written) ([]string, error) {
			return s.Commit(ctx, written)
		})
	abortSet = client.Func2("millstream.frame.write-abort",
		func(_ context.Context, s files.Set, p files.Preparation) (bool, error) { return s.Abort(p) })
)

// writeSet writes each partition to a file of its own as one set.
func (f *Frame) writeSet(ctx context.Context, dir, ext string, opts WriteOptions,
	write func(p client.Arg[arrow.RecordBatch], path string) *client.Future[files.Written]) (_ []string, err error) {
	if err := f.onHost("write"); err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, errors.New("frame: no folder")
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	s := files.Set{Dir: dir, Ext: ext, ID: hex.EncodeToString(id[:]), Overwrite: opts.Overwrite}
	begun := prepareSet.Submit(ctx, f.c, client.Val(s), client.WithImpure())
	defer begun.Release()
	var running []client.AnyFuture
	defer func() {
		if err == nil {
			return
		}
		committed, left := f.abortWrite(ctx, s, begun, running)
		switch {
		case committed && ctx.Err() != nil:
			err = fmt.Errorf("frame: write into %s: %w; the result was complete before", dir, ctx.Err())
		case left != nil:
			err = fmt.Errorf("%w; files of this write may be left in %s: %w", err, s.Staging(), left)
		case ctx.Err() != nil:
			err = fmt.Errorf("frame: write into %s: %w; nothing was written", dir, ctx.Err())
		}
	}()
	if _, err := begun.Result(ctx); err != nil {
		return nil, withKind(err)
	}
	parts := make([]client.Arg[arrow.RecordBatch], len(f.parts))
	for i, p := range f.parts {
		parts[i] = p
	}
	if len(parts) == 0 { // a result without rows still has a schema
		empty := emptyBatch(f.schema)
		defer empty.Release()
		parts = append(parts, client.Val(empty))
	}
	futures := make([]*client.Future[files.Written], len(parts))
	for i, p := range parts {
		futures[i] = write(p, filepath.Join(s.Staging(), files.PartName(i, s.ID, ext)))
		running = append(running, futures[i])
	}
	defer client.ReleaseAll(futures)
	written, err := client.Gather(ctx, futures)
	if err != nil {
		return nil, withKind(err)
	}
	ended := commitSet.Submit(ctx, f.c, client.Val(s), client.Val(written), client.WithImpure())
	running = append(running, ended)
	defer ended.Release()
	paths, err := ended.Result(ctx)
	return paths, withKind(err)
}

// abortWrite stops the tasks of a write and removes their files, even if ctx has ended. It reports whether the write
// had been complete.
func (f *Frame) abortWrite(ctx context.Context, s files.Set, begun *client.Future[files.Preparation],
	running []client.AnyFuture) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	if err := f.c.Cancel(running...); err != nil {
		return false, err
	}
	begin, stop := context.WithTimeout(ctx, beginTime)
	defer stop()
	if _, err := begun.Result(begin); err != nil {
		return false, f.c.Cancel(begun) // it has left nothing, or has not started
	}
	aborted := abortSet.Submit(ctx, f.c, client.Val(s), begun, client.WithImpure())
	defer aborted.Release()
	return aborted.Result(ctx)
}
