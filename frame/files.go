package frame

import (
	"context"
	"slices"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/files"
)

// Workers read and write files, so paths are those of the workers' machines: all workers must see the same files under
// the same paths, on a shared file system or on one machine.

// listing is the list of files under a path.
type listing struct {
	Paths []string
}

var listFiles = client.Func2("millstream.frame.list", func(_ context.Context, path string, ext []string) (listing,
	error) {
	paths, err := files.List(path, ext)
	return listing{paths}, err
})

// filesOf returns the files of a path as a worker sees them.
func filesOf(ctx context.Context, c *client.Client, path string, ext ...string) ([]string, error) {
	// The folder may have other files the next time.
	f := listFiles.Submit(ctx, c, client.Val(path), client.Val(ext), client.WithImpure())
	defer f.Release()
	l, err := f.Result(ctx)
	return l.Paths, withKind(err)
}

// readHeads returns the files of a path and the head of each, which workers read. It retries if files are replaced
// meanwhile.
func readHeads[H any](ctx context.Context, c *client.Client, path string, ext []string,
	heads func(paths []string) []*client.Future[H]) ([]string, []H, error) {
	const most = 10
	paths, err := filesOf(ctx, c, path, ext...)
	for try := 1; err == nil; try++ {
		futures := heads(paths)
		found, failed := client.Gather(ctx, futures)
		client.ReleaseAll(futures)
		if failed == nil {
			return paths, found, nil
		}
		before := paths
		if paths, err = filesOf(ctx, c, path, ext...); err != nil || slices.Equal(before, paths) || try == most {
			return nil, nil, withKind(failed)
		}
	}
	return nil, nil, err
}
