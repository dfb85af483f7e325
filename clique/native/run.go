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

// PathVariable names the folders, with colons between, from which workers open libraries.
const PathVariable = "MILLSTREAM_NATIVE_PATH"

// run runs an algorithm on one rank: the function that Python, and programs that have none of
// their own, run on all ranks of a clique. Its arguments are the ticket, the algorithm as
// "library.so:name", its parameters, and the columns of this rank's one partition; its result
// are the columns that the algorithm has emitted on this rank, which must be of float64.
//
// Every `millstream worker` has it. It opens libraries by bare name, from the folders of
// MILLSTREAM_NATIVE_PATH in the worker's environment; without the variable there are none.
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

// opened are the libraries of this process, which stay loaded.
var opened struct {
	sync.Mutex // owns what follows, and is held while a library is loaded
	byPath     map[string]*Library
}

// find opens the library of "library.so:name" and finds the algorithm in it.
func find(algorithm string) (*Algorithm, error) {
	file, name, ok := strings.Cut(algorithm, ":")
	if !ok || file == "" || name == "" || file != filepath.Base(file) || file == "." || file == ".." {
		return nil, fmt.Errorf("native: %.200q is no algorithm: write library.so:name, the library by its bare name",
			algorithm)
	}
	path, err := search(file, os.Getenv(PathVariable))
	if err != nil {
		return nil, err
	}
	opened.Lock()
	defer opened.Unlock()
	l := opened.byPath[path]
	if l == nil {
		if l, err = Open(path); err != nil {
			return nil, err
		}
		if opened.byPath == nil {
			opened.byPath = map[string]*Library{}
		}
		opened.byPath[path] = l
	}
	return l.Algorithm(name)
}

// search looks for a file in folders.
func search(file, folders string) (string, error) {
	if folders == "" {
		return "", fmt.Errorf("native: %s is not opened: the worker has no %s, the folders of libraries that tasks "+
			"may use", file, PathVariable)
	}
	for _, dir := range filepath.SplitList(folders) {
		if !filepath.IsAbs(dir) {
			continue // it would depend on where the worker was started
		}
		path := filepath.Join(dir, file)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("native: %s is in none of the folders of %s (%s)", file, PathVariable, folders)
}

// Submit runs an algorithm on all ranks of a clique, each with the columns of its
// own partition. The futures are in the order of ranks. The workers' programs need nothing but
// this package.
func Submit(ctx context.Context, q *clique.Clique, algorithm, parameters string,
	partitions []client.Arg[[][]float64]) ([]*client.Future[[][]float64], error) {
	if len(partitions) != q.Size() {
		return nil, fmt.Errorf("native: %d partitions for %d ranks: give one for each", len(partitions), q.Size())
	}
	t := q.Ticket()
	out := make([]*client.Future[[][]float64], len(partitions))
	for i, m := range q.Members() {
		out[i] = run.Submit(ctx, q.Client(), client.Val(t), client.Val(algorithm), client.Val(parameters),
			partitions[i], client.WithWorkers(m.Worker), client.WithImpure())
	}
	return out, nil
}
