package ucx_test

import (
	"errors"
	"fmt"
	"net"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// What UCX says of an endpoint.
func ExampleEndpoint_Info() {
	ctx, cancel := exampleContext()
	defer cancel()
	a, b, done := connected(ctx)
	defer done()
	fmt.Println(value(a.Info()) != "", len(value(a.Transports())) > 0)
	fmt.Println(a.LocalAddr().String() == b.RemoteAddr().String())
	fmt.Println(value(a.EstimateTime(64<<20)) > value(a.EstimateTime(8)))
	// Output:
	// true true
	// true
	// true
}

// A listener refuses a peer, and ends.
func ExampleConnRequest_Reject() {
	ctx, cancel := exampleContext()
	defer cancel()
	server, client := newExampleWorker(), newExampleWorker()
	defer func() {
		for _, w := range []*ucx.Worker{client, server} {
			w.Close()
			w.Context().Close()
		}
	}()
	l := value(server.ListenSocket(ctx, "127.0.0.1:0"))
	refused := make(chan error)
	go func() {
		ep, err := client.DialSocket(ctx, l.Addr().String(), nil)
		if err == nil { // UCX may tell of the refusal with the first exchange only
			_, err = ep.Recv(ctx, ucx.Bytes(make([]byte, 1)), 1, ucx.FullMask)
		}
		refused <- err
	}()
	r := value(l.Next(ctx))
	must(r.Reject())
	fmt.Println("refused:", <-refused != nil)
	must(l.Close())
	<-l.Done()
	_, err := l.Accept(ctx)
	fmt.Println("closed:", errors.Is(err, net.ErrClosed))
	// Output:
	// refused: true
	// closed: true
}

// The address of a worker as bytes, with a checksum.
func ExampleWorkerAddress_MarshalBinary() {
	w := newExampleWorker()
	defer w.Context().Close()
	defer w.Close()
	addr := value(w.Address())
	b := value(addr.MarshalBinary())
	var same ucx.WorkerAddress
	must(same.UnmarshalBinary(b))
	fmt.Println(string(same) == string(addr))
	b[0]++
	fmt.Println("damaged:", same.UnmarshalBinary(b) != nil)
	// Output:
	// true
	// damaged: true
}

// A Network gives its worker, and with it everything that workers do.
func ExampleNetwork_Worker() {
	ctx, cancel := exampleContext()
	defer cancel()
	var n ucx.Network
	defer n.Close()
	l := value(n.Listen(ctx, "127.0.0.1:0"))
	ep := value(n.Dial(ctx, l.Addr().String()))
	w := value(n.Worker())
	fmt.Println(ep.Worker() == w, value(w.Info()).Progress)
	// Output: true adaptive
}

// Registered memory, its key and a file on it.
func ExampleMemory() {
	ctx, cancel := exampleContext()
	defer cancel()
	s := connectOneSided(ctx)
	defer s.close()
	buf := value(s.owner.Alloc(10, mem.Host))
	defer buf.Release()
	m := value(s.owner.Register(ucx.Buffer(buf)))
	defer m.Release()
	key := m.Key()
	fmt.Println(key.Len(), key.Kind())

	f := ucx.NewRemoteFile(ctx, s.ep, value(s.ep.Unpack(key)))
	value(f.Write([]byte("written"))) // at the position of the file
	must(s.ep.Worker().Flush(ctx))
	fmt.Printf("%s\n", m.Buffer().Bytes()[:7])
	// Output:
	// 10 host
	// written
}

// A byte stream on an endpoint that two programs have already.
func ExampleConn_Endpoint() {
	ctx, cancel := exampleContext()
	defer cancel()
	a, b, done := connected(ctx)
	defer done()
	server := make(chan *ucx.Conn)
	go func() { server <- value(ucx.NewConn(ctx, b, nil)) }()
	c := value(ucx.NewConn(ctx, a, nil))
	s := <-server
	value(c.Write([]byte("hi")))
	got := make([]byte, 2)
	value(s.Read(got))
	fmt.Printf("%s %v %v\n", got, c.Endpoint() == a, c.RemoteAddr().String() == b.LocalAddr().String())
	// Output: hi true true
}
