package frame

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
)

// Files are read and written by workers, so paths are those of the workers' machines: all
// workers must see the same files under the same paths, by a shared file system or because
// they are on one machine.

// listing is what a worker finds under a path.
type listing struct {
	Paths []string
}

var listFiles = client.Func2("millstream.frame.list", func(_ context.Context, path string, ext []string) (listing, error) {
	paths, err := list(path, ext)
	return listing{paths}, err
})

// list is the files that a path means: itself, those of a folder with one of the endings, or
// those that match a pattern, in the order of their names.
func list(path string, ext []string) ([]string, error) {
	if path == "" {
		return nil, errors.New("frame: no path is given")
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return []string{path}, nil
	case err == nil:
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("frame: %w", err)
		}
		var out []string
		for _, e := range entries {
			if name := e.Name(); !e.IsDir() && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "_") && slices.ContainsFunc(ext, func(x string) bool { return strings.HasSuffix(name, x) }) {
				out = append(out, filepath.Join(path, name))
			}
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("frame: the folder %s has no file that ends with %s", path, strings.Join(ext, " or "))
		}
		return out, nil
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?["):
		out, err := filepath.Glob(path)
		if err != nil {
			return nil, fmt.Errorf("frame: the pattern %s: %w", path, err)
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("frame: no file matches %s", path)
		}
		return out, nil
	}
	return nil, fmt.Errorf("frame: %w", err)
}

// filesOf asks a worker for the files of a path.
func filesOf(ctx context.Context, c *client.Client, path string, ext ...string) ([]string, error) {
	// The folder may have other files the next time.
	f := listFiles.Submit(ctx, c, client.Val(path), client.Val(ext), client.Impure())
	defer f.Release()
	l, err := f.Result(ctx)
	return l.Paths, typed(err)
}

// Stamp is which content of a file is meant: it is part of the key of the task that reads it,
// so that a file that has changed is read again.
type Stamp struct {
	Size    int64
	ModTime int64 // nanoseconds since 1970
}

func stampOf(info fs.FileInfo) Stamp {
	return Stamp{Size: info.Size(), ModTime: info.ModTime().UnixNano()}
}

// openStamped opens a file that must be the one that was looked at.
func openStamped(path string, want Stamp, partition int) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{Kind: ErrCorrupt, Path: path, Partition: partition, Reason: "it cannot be opened", Err: err}
	}
	info, err := f.Stat()
	if err == nil && stampOf(info) != want {
		err = errors.New("it has changed since the frame was made: make the frame again")
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, &Error{Kind: ErrCorrupt, Path: path, Partition: partition, Err: err}
	}
	return f, nil
}

// written is a file that a worker has written.
type written struct {
	Path  string
	Rows  int64
	Bytes int64
}

// create writes a file under another name and renames it when it is whole, so that nobody sees
// a part of it.
func create(path string, write func(f *os.File) error) (n int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return 0, fmt.Errorf("frame: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err = write(f); err != nil {
		return 0, fmt.Errorf("frame: %s: %w", path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("frame: %w", err)
	}
	if err = f.Chmod(0o644); err != nil {
		return 0, fmt.Errorf("frame: %w", err)
	}
	if err = f.Close(); err != nil {
		return 0, fmt.Errorf("frame: %s: %w", path, err)
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return 0, fmt.Errorf("frame: %w", err)
	}
	return info.Size(), nil
}

// writeParts writes each partition to a file of its own in a folder, which is made.
func (f *Frame) writeParts(ctx context.Context, dir, ext string, write func(p *client.Future[arrow.RecordBatch], path string) *client.Future[written]) ([]string, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, errors.New("frame: no folder is given")
	}
	futures := make([]*client.Future[written], len(f.parts))
	for i, p := range f.parts {
		futures[i] = write(p, filepath.Join(dir, fmt.Sprintf("part-%05d%s", i, ext)))
	}
	defer client.ReleaseAll(futures)
	done, err := client.Gather(ctx, futures)
	if err != nil {
		return nil, typed(err)
	}
	paths := make([]string, len(done))
	for i, d := range done {
		paths[i] = d.Path
	}
	return paths, nil
}
