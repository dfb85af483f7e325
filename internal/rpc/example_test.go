package rpc_test

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/testkit/sim"
	"go.millstream.dev/internal/wire/msgpack"
)

// pair is the arguments of add.
type pair struct {
	X int `rpc:"x"`
	Y int `rpc:"y"`
}

// serve starts a server on a network. Programs use comm.Default and tcp:// addresses.
func serve(ctx context.Context, n *sim.Network, s *rpc.Server) (address string) {
	l, err := n.Host("server").Listen(ctx, "sim://server:8786", comm.ListenConfig{})
	if err != nil {
		panic(err)
	}
	go func() { _ = s.Serve(ctx, l) }()
	return l.ContactAddr()
}

func Example() {
	ctx := context.Background()
	s := rpc.NewServer(rpc.Config{Type: "Adder"})
	rpc.Handle(s, "add", func(_ context.Context, _ *rpc.Request, in pair) (int, error) {
		return in.X + in.Y, nil
	})
	rpc.Handle(s, "divide", func(_ context.Context, _ *rpc.Request, in pair) (int, error) {
		if in.Y == 0 {
			return 0, &rpc.Exception{Type: "ZeroDivisionError", Message: "division by zero"}
		}
		return in.X / in.Y, nil
	})
	defer s.Close()
	n := sim.New(sim.Config{})
	address := serve(ctx, n, s)

	pool := rpc.NewPool(n.Host("client"), rpc.PoolConfig{})
	defer pool.Close()
	var sum int
	if err := pool.Call(ctx, address, "add", pair{40, 2}, &sum); err != nil {
		panic(err)
	}
	fmt.Println(sum)

	err := pool.Call(ctx, address, "divide", pair{1, 0}, nil)
	var remote *rpc.RemoteError
	if errors.As(err, &remote) {
		fmt.Println(remote.Type, "-", remote.Message)
	}
	// Output:
	// 42
	// ZeroDivisionError - division by zero
}

func ExampleWriter() {
	ctx := context.Background()
	got := make(chan int)
	s := rpc.NewServer(rpc.Config{})
	s.HandleStream("note", func(_ context.Context, b *rpc.Body) error {
		var in struct {
			N int `rpc:"n"`
		}
		if err := b.Args(&in); err != nil {
			return err
		}
		got <- in.N
		return nil
	})
	defer s.Close()
	n := sim.New(sim.Config{})
	c, err := n.Host("client").Dial(ctx, serve(ctx, n, s), comm.DialConfig{})
	if err != nil {
		panic(err)
	}
	// One request turns the comm into a stream.
	if err := rpc.Notify(ctx, c, "connection_stream", nil); err != nil {
		panic(err)
	}
	stream := rpc.NewWriter(c, rpc.WriterConfig{})
	stream.Start()
	for i := range 3 {
		if err := stream.SendValue(msgpack.Map{{Key: "op", Value: "note"}, {Key: "n", Value: i}}); err != nil {
			panic(err)
		}
	}
	fmt.Println(<-got, <-got, <-got)
	if err := stream.Shutdown(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: 0 1 2
}
