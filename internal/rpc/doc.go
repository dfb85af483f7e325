// Package rpc calls functions in other processes with Dask's protocol: requests with an op and named arguments,
// answers, errors that carry the remote traceback, and streams of messages in batches.
//
// A Server serves requests:
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
// A Pool calls servers in Go and in Python:
//
//	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{})
//	var sum int
//	err := pool.Call(ctx, "tcp://10.0.0.1:8786", "add", pair{1, 2}, &sum)
//
// Writer and Reader are the two ends of a stream; ServeStream reads one with a handler for each op.
//
// # Differences from Dask
//
// A Dask server answers None to an unknown op. This one does so to Python peers, which may rely on it; Millstream peers
// get an error that matches ErrUnknownOp with errors.Is. Requests are bounded (MaxOp, MaxArgs, Config.MaxRunning,
// Config.MaxComms).
package rpc
