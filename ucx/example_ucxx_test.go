package ucx_test

import (
	"errors"
	"fmt"
	"io"

	"go.millstream.dev/ucx"
)

// ucxxPair makes a connection by UCXX's protocol, within one worker.
func ucxxPair() (client, server *ucx.UCXXEndpoint, done func()) {
	ctx, cancel := exampleContext()
	defer cancel()
	c := value(ucx.NewContext(ucx.Config{PlainTransports: true}))
	w := value(c.NewWorker(ucx.WorkerConfig{}))
	l := value(w.ListenUCXX(ctx, "127.0.0.1:0"))
	defer l.Close()
	accepted := make(chan *ucx.UCXXEndpoint)
	go func() { accepted <- value(l.Accept(ctx)) }()
	client = value(w.DialUCXX(ctx, l.Addr().String()))
	return client, <-accepted, func() { w.Close(); c.Close() }
}

// Active messages as UCXX's am_send and am_recv exchange them.
func ExampleUCXXEndpoint_RecvAM() {
	ctx, cancel := exampleContext()
	defer cancel()
	client, server, done := ucxxPair()
	defer done()
	for _, text := range []string{"one", "two", "three"} {
		must(client.StartSendAM(ucx.Bytes([]byte(text)), ucx.UCXXOptions{User: []byte("user")}).Wait(ctx))
	}

	m := value(server.RecvAM(ctx))
	buf := make([]byte, 8)
	must(m.Recv(ctx, ucx.Bytes(buf)))
	fmt.Printf("%s %s\n", m.User, buf[:m.Len])

	value(server.RecvAM(ctx)).Release() // not wanted

	m = value(server.RecvAM(ctx))
	b := value(m.Buffer(ctx, ucx.Allocators{MaxBytes: 1 << 20}))
	fmt.Printf("%s at the sender: %v\n", b.Bytes(), m.Rendezvous())
	b.Release()
	// Output:
	// user one
	// three at the sender: false
}

// Messages with tags overlap when they are started and then waited for.
func ExampleUCXXEndpoint_StartSend() {
	ctx, cancel := exampleContext()
	defer cancel()
	client, server, done := ucxxPair()
	defer done()
	buf := make([]byte, 5)
	in := server.StartRecv(ucx.Bytes(buf), ucx.DefaultTag)
	out := client.StartSend(ucx.Bytes([]byte("hello")), ucx.DefaultTag)
	must(errors.Join(in.Wait(ctx), out.Wait(ctx)))
	fmt.Printf("%s\n", buf)

	must(client.Shutdown(ctx)) // or Close, which waits for five seconds at most
	must(client.Close())       // does nothing more
	<-server.Done()
	fmt.Println(errors.Is(server.Err(), io.EOF))
	// Output:
	// hello
	// true
}

// An endpoint by worker address speaks UCXX's protocol without a handshake, with forced tags.
func ExampleNewUCXXEndpoint() {
	ctx, cancel := exampleContext()
	defer cancel()
	w := newExampleWorker()
	defer w.Context().Close()
	defer w.Close()
	e := value(ucx.NewUCXXEndpoint(value(w.Connect(value(w.Address()), nil)))) // to itself
	in := e.StartRecv(ucx.Bytes(make([]byte, 4)), ucx.ForceTag(9))
	must(e.Send(ctx, ucx.Bytes([]byte("self")), ucx.ForceTag(9)))
	must(in.Wait(ctx))
	fmt.Println(in.Info().Len)
	// Output: 4
}
