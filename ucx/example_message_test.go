package ucx_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/ucx"
)

// A message is received into memory that the receiver has, or is not wanted.
func ExampleAM_Recv() {
	ctx, cancel := exampleContext()
	defer cancel()
	a, b, done := connected(ctx)
	defer done()
	must(b.Worker().OpenAM(1))
	for _, text := range []string{"one", "two", "three"} {
		must(a.SendAM(ctx, 1, nil, ucx.AMOptions{}, ucx.Bytes([]byte(text))))
	}

	buf := make([]byte, 8)
	m := value(b.Worker().RecvAM(ctx, 1))
	must(m.Recv(ctx, ucx.Bytes(buf)))
	fmt.Printf("%s\n", buf[:m.Len])

	value(b.Worker().RecvAM(ctx, 1)).Release()

	m = value(b.Worker().RecvAM(ctx, 1))
	must(m.StartRecv(ucx.Bytes(buf)).Wait(ctx))
	fmt.Printf("%s\n", buf[:m.Len])
	// Output:
	// one
	// three
}

// SendSync returns when the peer has begun to receive the message.
func ExampleEndpoint_SendSync_started() {
	ctx, cancel := exampleContext()
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	short, stop := context.WithTimeout(ctx, 20*time.Millisecond)
	defer stop()
	r := a.StartSendSync(ucx.Bytes([]byte("first")), 1)
	err := r.Wait(short) // only stops waiting: the message is still to be received
	var oe *ucx.OpError
	fmt.Println(errors.As(err, &oe) && oe.Timeout() || errors.Is(err, context.DeadlineExceeded))

	value(b.Recv(ctx, ucx.Bytes(make([]byte, 5)), 1, ucx.FullMask))
	must(r.Wait(ctx))
	in := b.StartRecv(ucx.Bytes(make([]byte, 6)), 2, ucx.FullMask)
	must(a.SendSync(ctx, ucx.Bytes([]byte("second")), 2))
	must(in.Wait(ctx))
	fmt.Println("both received")
	// Output:
	// true
	// both received
}

// A receive from any peer of a worker, and one of a message that was taken out of the queue.
func ExampleWorker_StartRecv() {
	ctx, cancel := exampleContext()
	defer cancel()
	a, b, done := connected(ctx)
	defer done()
	w := b.Worker()

	buf := make([]byte, 8)
	in := w.StartRecv(ucx.Bytes(buf), 0, ucx.AnyTag)
	must(a.Send(ctx, ucx.Bytes([]byte("any")), 77))
	must(in.Wait(ctx))
	fmt.Printf("%s with tag %d\n", buf[:in.Info().Len], in.Info().Tag)

	must(a.Send(ctx, ucx.Bytes([]byte("probed")), 78))
	var m *ucx.Message
	for m == nil {
		m = value(w.ProbeRemove(78, ucx.FullMask))
	}
	must(m.StartRecv(ucx.Bytes(buf)).Wait(ctx))
	fmt.Printf("%s\n", buf[:m.Info().Len])
	// Output:
	// any with tag 77
	// probed
}

// What UCX does with a request that does not end.
func ExampleRequest_Debug() {
	ctx, cancel := exampleContext()
	defer cancel()
	a, b, done := connected(ctx)
	defer done()
	large := make([]byte, 1<<20)
	out := a.StartSend(ucx.Bytes(large), 1) // in flight until it is received
	fmt.Println("in flight:", out.Debug() != "" || out.Err() == nil)
	value(b.Recv(ctx, ucx.Bytes(large), 1, ucx.FullMask))
	must(out.Wait(ctx))
	fmt.Printf("finished: %q\n", out.Debug())
	// Output:
	// in flight: true
	// finished: ""
}
