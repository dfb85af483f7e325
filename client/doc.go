// Package client submits work to a cluster: functions, futures, graphs, and the primitives with which tasks and clients
// coordinate.
//
// Functions are registered at package level, in a package that every process of the cluster imports:
//
//	var inc = client.Func("inc", func(ctx context.Context, x int) (int, error) { return x + 1, nil })
//	var add = client.Func2("add", func(ctx context.Context, x, y int) (int, error) { return x + y, nil })
//
// A client connects to a Millstream or Dask scheduler and submits calls. Futures can be arguments of other calls; data
// moves between workers, not through the client:
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
// Python and PythonSource return handles to Python functions, which run on Dask workers and on Millstream workers with
// Python. Futures of Go functions can be arguments of Python functions and vice versa:
//
//	norm := client.Python[float64]("numpy.linalg:norm")
//	n, err := norm.Kw("ord", 1).Submit(ctx, c, []float64{3, -4}).Result(ctx) // 7
//
// # Keys
//
// The key of a task consists of the name of its function and a hash of name and arguments, so that equal calls are one
// task. WithImpure gives each call its own key.
//
// # Errors
//
// Submit and Map always return futures: the error of an argument that cannot be encoded is returned by its future. The
// error of a task is a *TaskError with the remote text and stack; errors.As finds the *wire.Exception in it. See also
// ErrKilledWorker, ErrCanceled and ErrLostData.
//
// # Reconnecting
//
// A client that loses its scheduler tries to reach it for Config.Reconnect. It then registers under the same ID and
// sends again which results it needs, so that futures remain valid. Dask's scheduler forgets its clients: their futures
// are canceled, as in Dask's own client.
package client
