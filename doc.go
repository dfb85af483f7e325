// Package millstream is the short start: functions that run on a cluster, futures of their
// results, and a cluster on this machine. All it has are names of other packages, so that a
// first program needs one import; package client has the rest of the verbs, package cluster
// what starts schedulers and workers.
//
// A program registers functions in package-level variables and calls [Main] first: workers
// are the same program, in other processes.
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"log"
//
//		"go.millstream.dev"
//	)
//
//	var square = millstream.Func("square", func(ctx context.Context, x int) (int, error) {
//		return x * x, nil
//	})
//
//	var sum = millstream.Func("sum", func(ctx context.Context, xs []int) (int, error) {
//		total := 0
//		for _, x := range xs {
//			total += x
//		}
//		return total, nil
//	})
//
//	func main() {
//		millstream.Main()
//		ctx := context.Background()
//		cluster, err := millstream.Local(ctx, millstream.LocalConfig{})
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer cluster.Close()
//		c, err := cluster.Client(ctx)
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer c.Close()
//
//		squares := square.Map(ctx, c, []int{1, 2, 3, 4})      // four tasks
//		total := sum.Submit(ctx, c, millstream.ListOf(squares)) // one that needs their results
//		fmt.Println(total.Result(ctx))                          // 30 <nil>
//	}
//
// Nothing moves but what has to: squares stay where they were computed, sum runs where most
// of them are, and only its result comes here.
//
// # More than one machine
//
// With a second line in main, cli.Serve() of package go.millstream.dev/cli, the same program is its own scheduler and
// worker: `program scheduler --tls-dir certs` on one machine, `program worker tls://that-machine:8786 --tls-dir certs`
// on others, `program cuda-worker …` on those with GPUs, and [ConnectWith] and its TLSDir in place of [Local]. They
// speak Dask's protocol; Dask's scheduler does as well.
package millstream
