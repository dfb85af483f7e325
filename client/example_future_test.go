package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.millstream.dev/client"
)

func ExampleFuture_Wait() {
	ctx, c, stop := demo()
	defer stop()
	f := picky.Submit(ctx, c, client.Val(3))
	err := f.Wait(ctx) // the error of the task; a result stays on its worker
	var te *client.TaskError
	if errors.As(err, &te) {
		fmt.Println(te.Text)
	}
	fmt.Println(f.Status(), f.IsDone(), f.Err() == err)
	// Output:
	// 3 is too many
	// error true true
}

func ExampleFuture_Release() {
	ctx, c, stop := demo()
	defer stop()
	f := square.Submit(ctx, c, client.Val(3))
	fmt.Println(f.Result(ctx))
	f.Release() // its worker frees the result
	err := square.Submit(ctx, c, f).Wait(ctx)
	fmt.Println(errors.Is(err, client.ErrReleased))
	// Output:
	// 9 <nil>
	// true
}

// The result of a task that another client or task has submitted, by its key.
func ExampleFutureOf() {
	ctx, c, stop := demo()
	defer stop()
	f := square.Submit(ctx, c, client.Val(8), client.WithKey("eight"))
	fmt.Println(f.Key())
	fmt.Println(client.FutureOf[int](c, f.Key()).Result(ctx))
	// Output:
	// eight
	// 64 <nil>
}

func ExampleAs() {
	ctx, c, stop := demo()
	defer stop()
	var f client.AnyFuture = square.Submit(ctx, c, client.Val(9))
	fmt.Println(client.As[int](f).Result(ctx))
	// Output: 81 <nil>
}

func ExampleWait() {
	ctx, c, stop := demo()
	defer stop()
	futures := square.Map(ctx, c, []int{1, 2, 3})
	fmt.Println(client.Wait(ctx, futures))
	fmt.Println(futures[2].Status())
	// Output:
	// <nil>
	// finished
}

func ExampleResults() {
	ctx, c, stop := demo()
	defer stop()
	var all []int
	for n, err := range client.Results(ctx, square.Map(ctx, c, []int{1, 2, 3})) {
		if err != nil {
			fmt.Println(err)
			return
		}
		all = append(all, n)
	}
	slices.Sort(all)
	fmt.Println(all)
	// Output: [1 4 9]
}

func ExampleReleaseAll() {
	ctx, c, stop := demo()
	defer stop()
	futures := square.Map(ctx, c, []int{1, 2, 3})
	fmt.Println(client.Gather(ctx, futures))
	client.ReleaseAll(futures)
	err := square.Submit(ctx, c, futures[0]).Wait(ctx)
	fmt.Println(errors.Is(err, client.ErrReleased))
	// Output:
	// [1 4 9] <nil>
	// true
}

// A tree of tasks that combine two results each.
func ExampleTreeReduce() {
	ctx, c, stop := demo()
	defer stop()
	squares := square.Map(ctx, c, []int{1, 2, 3, 4, 5})
	fmt.Println(client.TreeReduce(ctx, c, plus, squares).Result(ctx))
	// Output: 55 <nil>
}

func ExampleProgressEvent() {
	ctx, c, stop := demo()
	defer stop()
	futures := picky.Map(ctx, c, []int{1, 2, 3})
	for e := range client.Progress(ctx, client.Futures(futures)...) {
		if e.IsDone() {
			fmt.Println(e.Ended(), "ended,", e.Failed, "failed")
		}
	}
	// Output: 3 ended, 1 failed
}

func ExampleProgressBar() {
	ctx, c, stop := demo()
	defer stop()
	var out strings.Builder // os.Stderr in most programs
	err := client.ProgressBar(ctx, &out, client.Futures(square.Map(ctx, c, []int{1, 2}))...)
	bar, _, _ := strings.Cut(out.String(), " | 2 of 2 | ")
	fmt.Println(bar, err)
	// Output: [########################################] 100.0 % <nil>
}

// needsFile fails until its marker file exists.
var needsFile = client.Func("needs-file", func(_ context.Context, marker string) (string, error) {
	if _, err := os.Stat(marker); err != nil {
		return "", errors.New("not yet")
	}
	return "done", nil
})

func ExampleClient_Retry() {
	ctx, c, stop := demo()
	defer stop()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	f := needsFile.Submit(ctx, c, client.Val(dir+"/marker"))
	fmt.Println(f.Wait(ctx) != nil)
	if err := os.WriteFile(dir+"/marker", nil, 0o600); err != nil {
		fmt.Println(err)
	}
	if err := c.Retry(ctx, f); err != nil {
		fmt.Println(err)
	}
	fmt.Println(f.Result(ctx))
	// Output:
	// true
	// done <nil>
}

func ExampleClient_Cancel() {
	ctx, c, stop := demo()
	defer stop()
	futures := nap.Map(ctx, c, []time.Duration{time.Hour, 2 * time.Hour})
	if err := c.Cancel(client.Futures(futures)...); err != nil {
		fmt.Println(err)
	}
	fmt.Println(client.Wait(ctx, futures), errors.Is(futures[0].Err(), client.ErrCanceled))
	// Output: <nil> true
}

func ExampleClient_ForceCancel() {
	ctx, c, stop := demo()
	defer stop()
	other, err := client.Connect(ctx, c.Address(), client.Config{Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer other.Close()
	mine := nap.Submit(ctx, c, client.Val(time.Hour), client.WithKey("nap"))
	fmt.Println(mine.Status())
	if err := other.ForceCancel(client.FutureOf[bool](other, mine.Key())); err != nil {
		fmt.Println(err)
	}
	fmt.Println(errors.Is(mine.Wait(ctx), client.ErrCanceled)) // although this client needs it
	// Output:
	// pending
	// true
}

var calls atomic.Int64

// count returns how often it was called, so equal calls are not equal.
var count = client.Func0("count", func(context.Context) (int64, error) { return calls.Add(1), nil })

func ExampleWithImpure() {
	ctx, c, stop := demo()
	defer stop()
	a, b := count.Submit(ctx, c, client.WithImpure()), count.Submit(ctx, c, client.WithImpure())
	fmt.Println(client.Wait(ctx, []*client.Future[int64]{a, b}))
	fmt.Println(a.Key() == b.Key())
	// Output:
	// <nil>
	// false
}

func ExampleWithKey() {
	ctx, c, stop := demo()
	defer stop()
	futures := square.Map(ctx, c, []int{1, 2}, client.WithKey("squares"))
	fmt.Println(futures[0].Key(), futures[1].Key())
	fmt.Println(client.Gather(ctx, futures))
	// Output:
	// squares-0 squares-1
	// [1 4] <nil>
}

// A preference: there is no such worker, so another runs the task.
func ExampleWithOtherWorkers() {
	ctx, c, stop := demo()
	defer stop()
	f := square.Submit(ctx, c, client.Val(3), client.WithWorkers("worker-9"), client.WithOtherWorkers())
	fmt.Println(f.Result(ctx))
	// Output: 9 <nil>
}

func ExampleWithPriority() {
	ctx, c, stop := demo()
	defer stop()
	later := square.Submit(ctx, c, client.Val(1), client.WithPriority(-1), client.WithFIFO(time.Second))
	soon := square.Submit(ctx, c, client.Val(2), client.WithPriority(1), client.WithFIFO(time.Second))
	fmt.Println(client.Gather(ctx, []*client.Future[int]{later, soon}))
	// Output: [1 4] <nil>
}

func ExampleWithTimeout() {
	ctx, c, stop := demo()
	defer stop()
	_, err := nap.Submit(ctx, c, client.Val(time.Hour), client.WithTimeout(10*time.Millisecond)).Result(ctx)
	var te *client.TaskError
	if errors.As(err, &te) {
		fmt.Println(te.Exception.Type)
	}
	// Output: TimeoutError
}
