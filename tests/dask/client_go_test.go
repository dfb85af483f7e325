package dask

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/tests/dask/rig"
	"go.millstream.dev/wire"
)

// Functions and actors of Go that the client's tests run.
var (
	goInc  = client.Func("clienttest.inc", func(_ context.Context, x int) (int, error) { return x + 1, nil })
	goMean = client.Func("clienttest.mean", func(_ context.Context, xs []float64) (float64, error) {
		sum := 0.0
		for _, x := range xs {
			sum += x
		}
		return sum / float64(len(xs)), nil
	})
	goFail = client.Func("clienttest.fail", func(_ context.Context, s string) (int, error) { return 0, errors.New(s) })
	goJoin = client.Func2("clienttest.join",
		func(_ context.Context, xs []int, names map[string]string) (string, error) {
			var b strings.Builder
			for _, x := range xs {
				b.WriteString(names["sep"])
				b.WriteByte(byte('0' + x))
			}
			return b.String(), nil
		})
	tally = client.NewActorType("clienttest.tally", func(_ context.Context, start int) (*int, error) {
		return &start, nil
	})
	tallyAdd = client.NewMethod(tally, "add", func(_ context.Context, n *int, x int) (int, error) {
		*n += x
		return *n, nil
	})
	tallyMul = client.NewMethod2(tally, "muladd", func(_ context.Context, n *int, x, y int) (int, error) {
		*n = *n*x + y
		return *n, nil
	})
	tallyGet  = client.NewMethod0(tally, "get", func(_ context.Context, n *int) (int, error) { return *n, nil })
	tallyPoly = client.NewMethod3(tally, "poly", func(_ context.Context, n *int, a, b, c int) (int, error) {
		return a**n**n + b**n + c, nil
	})
	useTally = client.Func("clienttest.use-tally", func(ctx context.Context, h client.ActorHandle[*int]) (int, error) {
		a, err := h.Actor(ctx)
		if err != nil {
			return 0, err
		}
		defer a.Release()
		return tallyAdd.Call(ctx, a, 1000)
	})
)

// Go functions and actors on Dask's scheduler, with Go and Python workers in one cluster.
func TestClientGoFunctions(t *testing.T) {
	r := rig.New(t)
	s := r.DaskScheduler()
	r.DaskWorker(s.Address, "--name", "python")
	r.Worker(s.Address, "--name", "go", "--no-python", "--nthreads", "2")
	c, ctx := r.Client(s.Address), r.Context
	goAndPython(t, ctx, c)
	reconnects(t, r, s, c)
}

// reconnects kills a scheduler of Dask's, which takes all futures with it; the client goes on
// with the next.
func reconnects(t *testing.T, r *rig.Rig, s *rig.Process, c *client.Client) {
	t.Helper()
	ctx := r.Context
	finished := pyAdd.With(client.WithWorkers("python")).Submit(ctx, c, 1, 2)
	want(t, "before", 3)(finished.Result(ctx))
	running := pySlow.With(client.WithWorkers("python")).Submit(ctx, c, 1)
	s.Kill()
	if err := running.Wait(ctx); !errors.Is(err, client.ErrCanceled) ||
		!strings.Contains(err.Error(), "connection to the scheduler lost") {
		t.Errorf("a task whose scheduler ended has %v", err)
	}
	for finished.Status() != client.Canceled {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("a finished future is not cancelled")
		}
	}
	port := s.Address[strings.LastIndexByte(s.Address, ':')+1:]
	s = r.DaskScheduler("--port", port)
	r.DaskWorker(s.Address)
	want(t, "after", 3)(pyAdd.Submit(ctx, c, 1, 2).Result(ctx))
}

// goAndPython runs functions of both kinds that use each other's results.
func goAndPython(t *testing.T, ctx context.Context, c *client.Client) {
	t.Helper()
	a := goInc.Submit(ctx, c, client.Val(41))
	want(t, "a Go function", 42)(a.Result(ctx))
	futures := goInc.Map(ctx, c, []int{1, 2, 3})
	want(t, "a map", []int{2, 3, 4})(client.Gather(ctx, futures))
	onPython := []client.Option{client.WithWorkers("python")}
	p := pyAdd.With(onPython...).Submit(ctx, c, a, futures[0])
	want(t, "Python on results of Go", 44)(p.Result(ctx))
	want(t, "Go on a result of Python", 45)(goInc.Submit(ctx, c, p).Result(ctx))
	arr := client.Python[[]float64]("numpy:arange").With(onPython...).Submit(ctx, c, 5.0)
	want(t, "Go on an array of numpy", 2.0)(goMean.Submit(ctx, c, arr).Result(ctx))
	text := client.Python[string]("builtins:str").With(onPython...).Submit(ctx, c, "-")
	j := goJoin.Submit(ctx, c, client.ListOf(futures), client.Dict(map[string]client.Arg[string]{"sep": text}))
	want(t, "futures in containers", "-2-3-4")(j.Result(ctx))
	_, err := goFail.Submit(ctx, c, client.Val("broken")).Result(ctx)
	var te *client.TaskError
	if !errors.As(err, &te) || !strings.Contains(te.Text, "broken") {
		t.Errorf("an error of a Go function is %v", err)
	}
	g := client.NewGraph()
	one := goInc.Node(g, "go-one", client.Val(0))
	two := pyAdd.With(onPython...).Node(g, "py-two", one, 10)
	three := goInc.Node(g, "go-three", two)
	got, err := client.Compute(ctx, c, g, three)
	ok(t, "a graph of both", err)
	want(t, "a graph of both", 12)(got[0].Result(ctx))

	actor := tally.Start(ctx, c, client.Val(2))
	want(t, "an actor", 5)(tallyAdd.Call(ctx, actor, 3))
	want(t, "a method of two arguments", 51)(tallyMul.Call(ctx, actor, 10, 1))
	want(t, "a method without", 51)(tallyGet.Call(ctx, actor))
	want(t, "a method of three", 51*51+51+1)(tallyPoly.Call(ctx, actor, 1, 1, 1))
	want(t, "an actor in a task", 1051)(useTally.Submit(ctx, c, client.Val(actor.Handle()),
		client.WithImpure()).Result(ctx))
	want(t, "after it", 1051)(tallyGet.Call(ctx, actor))
	actor.Release()
}

// The same calls on our own scheduler, with one of Dask's workers for the Python functions.
func TestSchedulerGoClient(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler("--no-python") // the client's own graphs need none
	r.DaskWorker(s.Address, "--name", "python")
	r.Worker(s.Address, "--name", "go", "--no-python", "--nthreads", "2")
	c, ctx := r.Client(s.Address), r.Context
	goAndPython(t, ctx, c)
	// Without a word about workers each function goes where it can run.
	for range 5 {
		want(t, "Python", 3)(pyAdd.With(client.WithImpure()).Submit(ctx, c, 1, 2).Result(ctx))
		want(t, "Go", 3)(goInc.Submit(ctx, c, client.Val(2), client.WithImpure()).Result(ctx))
	}
	var exc *wire.Exception
	if _, err := client.Python[int]("operator:truediv").Submit(ctx, c, 1, 0).Result(ctx); !errors.As(err, &exc) ||
		exc.Type != "ZeroDivisionError" {
		t.Errorf("an error of Python's is %v", err)
	}
	a := client.Python[any]("collections:Counter").Start(ctx, c, "aab")
	want(t, "an actor of Python's", 3)(client.PythonMethod[int]("total").Call(ctx, a))
	a.Release()
}
