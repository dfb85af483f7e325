// Package millstream runs Go functions on a cluster and returns futures of their results. It can also start a cluster
// on this machine. The package only re-exports names of other packages, so that a first program needs one import:
// package client has the remaining functions of a client, package cluster starts schedulers and workers.
//
// A program registers functions in package-level variables and calls [Main] first, because its workers are the same
// program in other processes.
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
//		total := sum.Submit(ctx, c, millstream.ListOf(squares)) // one task that needs their results
//		fmt.Println(total.Result(ctx))                          // 30 <nil>
//	}
//
// Data moves only where it is needed: the squares stay on the workers that computed them, sum runs where most of them
// are, and only its result is sent to the client.
//
// # Several machines
//
// If main also calls cli.Serve() of package go.millstream.dev/cli, the program is its own scheduler and worker: run
// `program scheduler --tls-dir certs` on one machine, `program worker tls://that-machine:8786 --tls-dir certs` on
// others, `program cuda-worker …` on those with GPUs, and call [ConnectWith] with TLSDir instead of [Local]. All of
// them use the protocol of Dask, so that the scheduler may also be Dask's.
package millstream
