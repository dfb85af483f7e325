package taskbench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"go.millstream.dev/client"
)

// compute submits a graph and gathers the wanted results.
func (l *local) compute(ctx context.Context, g *client.Graph, wanted []client.Node[int64]) ([]int64, error) {
	futures, err := client.Compute(ctx, l.client, g, wanted...)
	if err != nil {
		return nil, err
	}
	defer client.ReleaseAll(futures)
	return client.Gather(ctx, futures)
}

// tree adds numbers in pairs, then their sums, and so on.
func (l *local) tree(ctx context.Context, leaves int) (answer, error) {
	begin := time.Now()
	g := client.NewGraph()
	level := make([]client.Node[int64], leaves)
	for i := range level {
		level[i] = leafFunc.Node(g, "leaf-"+strconv.Itoa(i), client.Val(int64(i)))
	}
	for depth := 1; len(level) > 1; depth++ {
		prefix := "add" + strconv.Itoa(depth) + "-"
		for i := range len(level) / 2 {
			level[i] = addFunc.Node(g, prefix+strconv.Itoa(i), level[2*i], level[2*i+1])
		}
		level = level[:len(level)/2]
	}
	results, err := l.compute(ctx, g, level)
	took := time.Since(begin)
	if err != nil {
		return answer{}, err
	}
	if want := int64(leaves) * int64(leaves-1) / 2; results[0] != want {
		return answer{}, fmt.Errorf("sum of the tree is %d, want %d", results[0], want)
	}
	counts, err := l.counted(ctx, g.Len())
	return answer{Seconds: took.Seconds(), Tasks: int64(g.Len()), Check: fmt.Sprint(results[0]), Ran: counts}, err
}

// chain adds one n times, each time to the previous sum, and returns the time of one addition.
func (l *local) chain(ctx context.Context, n int) (answer, error) {
	begin := time.Now()
	g := client.NewGraph()
	last := leafFunc.Node(g, "chain-0", client.Val(int64(0)))
	for i := 1; i < n; i++ {
		last = addFunc.Node(g, "chain-"+strconv.Itoa(i), last, client.Val(int64(1)))
	}
	results, err := l.compute(ctx, g, []client.Node[int64]{last})
	took := time.Since(begin)
	if err != nil {
		return answer{}, err
	}
	if results[0] != int64(n-1) {
		return answer{}, fmt.Errorf("sum of the chain is %d, want %d", results[0], n-1)
	}
	counts, err := l.counted(ctx, n)
	return answer{Seconds: took.Seconds() / float64(n), Tasks: int64(n), Check: fmt.Sprint(results[0]),
		Ran: counts}, err
}

// randomDAG computes the random graph and gathers its sinks.
func (l *local) randomDAG(ctx context.Context, n int, seed uint64) (answer, error) {
	dag := randomGraph(n, seed)
	ends := sinks(dag)
	begin := time.Now()
	g := client.NewGraph()
	nodes := make([]client.Node[int64], n)
	var args []client.Arg[int64]
	for i, deps := range dag {
		args = args[:0]
		for _, d := range deps {
			args = append(args, nodes[d])
		}
		nodes[i] = mixFunc.Node(g, "mix-"+strconv.Itoa(i), client.Val(int64(i)), client.List(args...))
	}
	wanted := make([]client.Node[int64], len(ends))
	for i, e := range ends {
		wanted[i] = nodes[e]
	}
	results, err := l.compute(ctx, g, wanted)
	took := time.Since(begin)
	if err != nil {
		return answer{}, err
	}
	counts, err := l.counted(ctx, n)
	return answer{Seconds: took.Seconds(), Tasks: int64(n), Check: fmt.Sprintf("%d sinks %d", len(ends), fold(results)),
		Ran: counts}, err
}
