// Command mixed runs one computation on Go and Python workers: Go functions of this program and functions of Python
// modules, with the results of each as arguments of the other.
//
//	mixed scheduler --host 127.0.0.1              the scheduler
//	mixed worker tcp://127.0.0.1:8786             workers with the Go functions
//	dask worker tcp://127.0.0.1:8786              workers with Python modules
//	mixed -scheduler tcp://127.0.0.1:8786
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"

	"go.millstream.dev"
	"go.millstream.dev/cli"
	"go.millstream.dev/client"
)

// Functions are package-level variables, so that every process of the program has them.
var (
	// wave returns samples of a sine. Python receives a slice of numbers as a numpy array.
	wave = client.Func2("mixed.wave", func(_ context.Context, part, n int) ([]float64, error) {
		samples := make([]float64, n)
		for i := range samples {
			samples[i] = math.Sin(2 * math.Pi * float64(part) * float64(i) / float64(n))
		}
		return samples, nil
	})
	// norm is a function of a module; the Python worker imports it.
	norm = client.Python[float64]("numpy.linalg:norm")
	// host is Python source: which process runs a task.
	host = client.PythonSource[string]("def f():\n    import distributed\n    return distributed.get_worker().name")
	// total is a Go function of results of Python functions.
	total = client.Func("mixed.total", func(_ context.Context, norms []float64) (float64, error) {
		sum := 0.0
		for _, x := range norms {
			sum += x * x
		}
		return sum, nil
	})
)

func main() {
	millstream.Main() // workers go no further
	cli.Serve()       // mixed scheduler, mixed worker
	scheduler := flag.String("scheduler", "", "address of the scheduler")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *scheduler); err != nil {
		fmt.Fprintln(os.Stderr, "mixed:", err)
		os.Exit(1)
	}
}

const parts, samples = 8, 1000

func run(ctx context.Context, out io.Writer, scheduler string) error {
	if scheduler == "" {
		return errors.New("no scheduler; start one and pass -scheduler ADDRESS, see README.md")
	}
	c, err := millstream.Connect(ctx, scheduler)
	if err != nil {
		return err
	}
	defer c.Close()
	// Go, then Python, then Go. Nothing but the last result comes here.
	norms := make([]*client.Future[float64], parts)
	for i := range norms {
		norms[i] = norm.Submit(ctx, c, wave.Submit(ctx, c, client.Val(i+1), client.Val(samples)))
	}
	energy, err := total.Submit(ctx, c, client.ListOf(norms)).Result(ctx)
	if err != nil {
		return err
	}
	name, err := host.Submit(ctx, c).Result(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "energy %.6f, Python on worker %s\n", energy, name)
	return err
}
