package clique_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
)

// norm is a function of ranks: each has a part of a vector, and all get its length.
var norm = clique.Func("example.norm", func(ctx context.Context, r *clique.Rank, part []float64) (float64, error) {
	sum := []float64{0}
	for _, x := range part {
		sum[0] += x * x
	}
	err := r.Do(ctx, clique.AllReduce(clique.Of(sum), clique.Of(sum), clique.Sum))
	return math.Sqrt(sum[0]), err
})

func Example() {
	ctx := context.Background()
	k, err := cluster.Local(ctx, cluster.Config{Workers: 2, Threads: 1, Mode: cluster.Goroutines})
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
	norms, err := norm.Run(ctx, q, [][]float64{{3, 0}, {0, 4}})
	fmt.Println(norms, err)
	// Output: [5 5] <nil>
}
