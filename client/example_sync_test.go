package client_test

import (
	"fmt"

	"go.millstream.dev/client"
)

// At most two holders in the whole cluster.
func ExampleSemaphore() {
	ctx, c, stop := demo()
	defer stop()
	s := client.NewSemaphore(c, "database", 2)
	for range 2 {
		if err := s.Acquire(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(s.Value(ctx))
	fmt.Println(s.TryAcquire(ctx))
	fmt.Println(s.Release(ctx))
	fmt.Println(s.TryAcquire(ctx))
	fmt.Println(s.Release(ctx), s.Release(ctx))
	fmt.Println(s.Delete(ctx))
	// Output:
	// 2 <nil>
	// false <nil>
	// <nil>
	// true <nil>
	// <nil> <nil>
	// <nil>
}

func ExampleLock_TryLock() {
	ctx, c, stop := demo()
	defer stop()
	mine, theirs := client.NewLock(c, "file"), client.NewLock(c, "file")
	fmt.Println(mine.TryLock(ctx))
	fmt.Println(theirs.TryLock(ctx))
	fmt.Println(mine.Unlock(ctx))
	// Output:
	// true <nil>
	// false <nil>
	// <nil>
}

// Both files or none, so that two holders of one lock each cannot wait for each other.
func ExampleMultiLock() {
	ctx, c, stop := demo()
	defer stop()
	l := client.NewMultiLock(c, "source", "target")
	if err := l.Lock(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("copying")
	fmt.Println(l.Unlock(ctx))
	// Output:
	// copying
	// <nil>
}

func ExampleFlag_Clear() {
	ctx, c, stop := demo()
	defer stop()
	f := client.NewFlag(c, "paused")
	fmt.Println(f.Set(ctx))
	fmt.Println(f.IsSet(ctx))
	fmt.Println(f.Clear(ctx))
	fmt.Println(f.IsSet(ctx))
	// Output:
	// <nil>
	// true <nil>
	// <nil>
	// false <nil>
}

// A variable holds the result of a future, also after its client has closed.
func ExampleVariable_SetFuture() {
	ctx, c, stop := demo()
	defer stop()
	v := client.NewVariable[int](c, "model")
	if err := v.SetFuture(ctx, square.Submit(ctx, c, client.Val(4))); err != nil {
		fmt.Println(err)
		return
	}
	f, err := v.GetFuture(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plus.Submit(ctx, c, f, client.Val(1)).Result(ctx))
	fmt.Println(v.Delete())
	// Output:
	// 17 <nil>
	// <nil>
}

func ExampleQueue_GetAll() {
	ctx, c, stop := demo()
	defer stop()
	q, err := client.NewQueue[int](ctx, c, "numbers", 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()
	for i := range 3 {
		if err := q.Put(ctx, i); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(q.Len(ctx))
	fmt.Println(q.GetAll(ctx))
	// Output:
	// 3 <nil>
	// [0 1 2] <nil>
}

// A queue of futures passes results on without fetching them.
func ExampleQueue_PutFuture() {
	ctx, c, stop := demo()
	defer stop()
	q, err := client.NewQueue[int](ctx, c, "results", 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()
	if err := q.PutFuture(ctx, square.Submit(ctx, c, client.Val(5))); err != nil {
		fmt.Println(err)
	}
	f, err := q.GetFuture(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plus.Submit(ctx, c, f, client.Val(5)).Result(ctx))
	// Output: 30 <nil>
}
