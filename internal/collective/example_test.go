package collective_test

import (
	"context"
	"fmt"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/internal/collective/transport"
	_ "go.millstream.dev/internal/comm/inproc"
)

// Two ranks of one process add up what they have.
func Example() {
	ctx := context.Background()
	l, err := comm.Listen(ctx, "inproc://", comm.ListenConfig{})
	if err != nil {
		panic(err)
	}
	defer l.Close()
	dialed, err := comm.Dial(ctx, l.ContactAddr(), comm.DialConfig{})
	if err != nil {
		panic(err)
	}
	accepted, err := l.Accept(ctx)
	if err != nil {
		panic(err)
	}
	rank := func(r int, peers []comm.Comm) {
		t, err := transport.NewComm(r, peers)
		if err != nil {
			panic(err)
		}
		g, err := collective.New(ctx, t, collective.Config{})
		if err != nil {
			panic(err)
		}
		defer g.Close()
		x := []float32{1, float32(10 * r)}
		m := collective.Memory{Bytes: elem.View(x)}
		err = g.Do(ctx, collective.Call{Code: collective.AllReduce, Kind: collective.Float32, Op: collective.Sum,
			Send: m, Recv: m})
		if err != nil {
			panic(err)
		}
		if r == 0 {
			fmt.Println(x)
		}
	}
	var both sync.WaitGroup
	both.Go(func() { rank(0, []comm.Comm{nil, dialed}) })
	both.Go(func() { rank(1, []comm.Comm{accepted, nil}) })
	both.Wait()
	// Output: [2 10]
}
