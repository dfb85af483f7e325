// Command join joins two tables on a cluster of this machine and prints the total of the orders of each country.
//
//	join ORDERS.csv CUSTOMERS.csv
//
// ORDERS has the columns customer and price, CUSTOMERS the columns customer and country.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"go.millstream.dev"
	"go.millstream.dev/frame"
)

func main() {
	millstream.Main() // workers go no further
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "join:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: join ORDERS.csv CUSTOMERS.csv")
	}
	cluster, err := millstream.Local(ctx, millstream.LocalConfig{Workers: 2, Threads: 1})
	if err != nil {
		return err
	}
	defer cluster.Close()
	c, err := cluster.Client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	// Nothing runs before Head: the plan is optimized as a whole, and the files are read by the workers.
	orders := frame.ScanCSV(ctx, c, args[0], frame.CSVOptions{})
	customers := frame.ScanCSV(ctx, c, args[1], frame.CSVOptions{})
	totals, err := orders.
		Join(customers, frame.JoinOptions{On: []string{"customer"}}).
		GroupBy(frame.Col("country")).
		Agg(frame.Sum(frame.Col("price")).As("total"), frame.Count().As("orders")).
		Sort(frame.Desc(frame.Col("total"))).
		Head(ctx, 10)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, totals)
	return err
}
