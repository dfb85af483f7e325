// Package rpc calls functions in other processes as Dask's processes do: requests with an
// op and named arguments, answers, errors that carry the remote traceback, and streams of
// messages in batches.
//
// A Server answers:
//
//	s := rpc.NewServer(rpc.Config{Type: "Adder"})
//	type pair struct {
//		X, Y int
//	}
//	rpc.Handle(s, "add", func(ctx context.Context, r *rpc.Request, in pair) (int, error) {
//		return in.X + in.Y, nil
//	})
//	go s.Serve(ctx, listener)
//
// A Pool calls, Go servers and Python ones alike:
//
//	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{})
//	var sum int
//	err := pool.Call(ctx, "tcp://10.0.0.1:8786", "add", pair{1, 2}, &sum)
//
// Writer and Reader are the two ends of a stream; ServeStream reads one with a handler for each op.
//
// # Unlike Dask
//
// A Dask server answers None to an op that it does not know. Ours does so to Python peers,
// which may count on it; Millstream peers get an error for which errors.Is finds
// ErrUnknownOp. Requests are bounded (MaxOp, MaxArgs, Config.MaxRunning, Config.MaxComms).
package rpc
