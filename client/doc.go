// Package client is the side of a cluster that submits work: functions, futures, graphs, and
// the primitives by which tasks and clients coordinate.
//
// Functions are made at package level, in a package that every process of the cluster has:
//
//	var inc = client.Func("inc", func(ctx context.Context, x int) (int, error) { return x + 1, nil })
//	var add = client.Func2("add", func(ctx context.Context, x, y int) (int, error) { return x + y, nil })
//
// A client connects to a scheduler, Millstream's or Dask's, and submits calls.
// Futures are arguments of other calls; data moves between workers, not through the client:
//
//	c, err := client.Connect(ctx, "tcp://scheduler:8786", client.Config{})
//	defer c.Close()
//
//	a := inc.Submit(ctx, c, client.Val(1))
//	b := add.Submit(ctx, c, a, client.Val(40))
//	v, err := b.Result(ctx) // 42
//
//	futures := inc.Map(ctx, c, []int{1, 2, 3})
//	all, err := client.Gather(ctx, futures)
//
// # Python functions
//
// Python and PythonSource name Python functions, which run on Dask's workers and on
// Millstream workers with Python. Futures of both kinds of functions are arguments of both:
//
//	norm := client.Python[float64]("numpy.linalg:norm")
//	n, err := norm.Kw("ord", 1).Submit(ctx, c, []float64{3, -4}).Result(ctx) // 7
//
// # Keys
//
// The key of a task is its function's name and a hash of name and arguments: the same call
// twice is one task. Impure gives each call a key of its own.
//
// # Errors
//
// Submit and Map return futures whatever happens: an argument that cannot be encoded is the
// error of its future. The error of a task is a *TaskError with the remote text and stack;
// errors.As finds the *wire.Exception in it. See also ErrKilledWorker, ErrCanceled and
// ErrLostData.
//
// # A scheduler that comes back
//
// A client that loses its scheduler looks for it for Config.Reconnect and tells it again,
// under the same id, what it waits for. Futures go on. A scheduler of Dask's forgets its
// clients: their futures are cancelled, as those of Dask's own client are.
package client
