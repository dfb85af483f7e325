//go:build cgo

package native_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/clique/native"
	"go.millstream.dev/cluster"
)

// sumsInput is what a rank is given.
type sumsInput struct {
	Library string
	Part    []float64
}

// sumsOf runs an algorithm of a shared library on a rank's own partition.
var sumsOf = clique.Func("example.sums", func(ctx context.Context, r *clique.Rank, in sumsInput) ([]float64, error) {
	l, err := native.Open(in.Library)
	if err != nil {
		return nil, err
	}
	sums, err := l.Algorithm("sums")
	if err != nil {
		return nil, err
	}
	out, err := sums.Run(ctx, r, native.Call{Partitions: []native.Partition{{native.ColumnOf(in.Part)}}})
	if err != nil || len(out) == 0 { // the result is rank 0's
		return nil, err
	}
	return native.Values[float64](out[0])
})

// An algorithm in C++, compiled here, sums up what the ranks of a clique have: local sums, a reduce across the ranks,
// a column on rank 0.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	source, library := filepath.Join(dir, "sums.cpp"), filepath.Join(dir, "libsums.so")
	for path, text := range map[string]string{source: native.MockSource,
		filepath.Join(dir, "millstream_native.h"): native.Header} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	if out, err := exec.Command("c++", "-shared", "-fPIC", "-O2", "-o", library, source).CombinedOutput(); err != nil {
		log.Fatalf("%v: %s", err, out)
	}

	k, err := cluster.Local(ctx, cluster.Config{Workers: 2, Mode: cluster.Goroutines})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()
	c, err := k.Client(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q, err := clique.Form(ctx, c, clique.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Dissolve(ctx)

	results, err := sumsOf.Run(ctx, q, []sumsInput{{library, []float64{1, 2, 3}}, {library, []float64{10, 20}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("rank 0:", results[0])
	fmt.Println("rank 1:", len(results[1]), "columns")

	// The same without a registered function, from the folders that the environment of the workers names.
	if err := os.Setenv(native.PathVariable, dir); err != nil {
		log.Fatal(err)
	}
	defer os.Unsetenv(native.PathVariable)
	parts := []client.Arg[[][]float64]{client.Val([][]float64{{4}}), client.Val([][]float64{{5, 6}})}
	futures, err := native.Submit(ctx, q, "libsums.so:sums", "", parts)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Gather(ctx, futures))
	// Output:
	// rank 0: [36]
	// rank 1: 0 columns
	// [[[15]] []] <nil>
}

func ExampleColumnOf() {
	c := native.ColumnOf([]float32{1, 2, 3})
	fmt.Println(c.Len(), c.Kind, c.Data.Len(), "bytes")
	// Output: 3 float32 12 bytes
}
