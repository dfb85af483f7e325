package native

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
)

// PathVariable names the environment variable with the folders, separated by colons, from which workers open libraries.
const PathVariable = "MILLSTREAM_NATIVE_PATH"

// run runs an algorithm on one rank. Submit and Python run it on all ranks of a clique. Its arguments are the ticket,
// the algorithm as "library.so:name", its parameters, and the columns of the single partition of this rank. Its result
// has the columns that the algorithm has emitted on this rank, which must be float64.
//
// Every `millstream worker` has the function. It opens libraries by bare name, from the folders of
// MILLSTREAM_NATIVE_PATH in the environment of the worker; without the variable there are none.
var run = client.Func4("millstream.clique.native", func(ctx context.Context, t clique.Ticket, algorithm,
	parameters string, columns [][]float64) (out [][]float64, err error) {
	err = clique.Do(ctx, t, func(r *clique.Rank) error {
		a, err := find(algorithm)
		if err != nil {
			return err
		}
		part := make(Partition, len(columns))
		for i, c := range columns {
			part[i] = ColumnOf(c)
		}
		call := Call{Parameters: []byte(parameters)}
		if len(part) > 0 {
			call.Partitions = []Partition{part}
		}
		results, err := a.Run(ctx, r, call)
		if err != nil {
			return err
		}
		out = make([][]float64, len(results))
		for i, c := range results {
			if out[i], err = Values[float64](c); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
})

// libraries are the open libraries of this process, which stay loaded.
var libraries struct {
	sync.Mutex // guards the fields below; held while a library is loaded
	byPath     map[string]*Library
}

// find returns the algorithm "library.so:name" and opens the library if necessary.
func find(algorithm string) (*Algorithm, error) {
	file, name, ok := strings.Cut(algorithm, ":")
	if !ok || file == "" || name == "" || file != filepath.Base(file) || file == "." || file == ".." {
		return nil, fmt.Errorf("native: invalid algorithm %.200q: want library.so:name, without a folder",
			algorithm)
	}
	path, err := search(file, os.Getenv(PathVariable))
	if err != nil {
		return nil, err
	}
	libraries.Lock()
	defer libraries.Unlock()
	l := libraries.byPath[path]
	if l == nil {
		if l, err = Open(path); err != nil {
			return nil, err
		}
		if libraries.byPath == nil {
			libraries.byPath = map[string]*Library{}
		}
		libraries.byPath[path] = l
	}
	return l.Algorithm(name)
}

// search searches folders for a file.
func search(file, folders string) (string, error) {
	if folders == "" {
		return "", fmt.Errorf("native: open %s: %s is not set on the worker; set it to the folders of libraries that "+
			"tasks may use", file, PathVariable)
	}
	for _, dir := range filepath.SplitList(folders) {
		if !filepath.IsAbs(dir) {
			continue // would depend on the working directory of the worker
		}
		path := filepath.Join(dir, file)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("native: %s not found in %s (%s)", file, PathVariable, folders)
}

// Submit runs an algorithm on all ranks of a clique, each with the columns of its own partition. The futures are in the
// order of ranks. The programs of the workers only need to import this package.
func Submit(ctx context.Context, q *clique.Clique, algorithm, parameters string,
	partitions []client.Arg[[][]float64]) ([]*client.Future[[][]float64], error) {
	if len(partitions) != q.Size() {
		return nil, fmt.Errorf("native: %d partitions for %d ranks; pass one for each rank", len(partitions), q.Size())
	}
	t := q.Ticket()
	out := make([]*client.Future[[][]float64], len(partitions))
	for i, m := range q.Members() {
		out[i] = run.Submit(ctx, q.Client(), client.Val(t), client.Val(algorithm), client.Val(parameters),
			partitions[i], client.WithWorkers(m.Worker), client.WithImpure())
	}
	return out, nil
}
