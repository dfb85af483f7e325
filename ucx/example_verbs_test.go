package ucx_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

func exampleContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 10*time.Second)
}

// must ends an example whose call failed.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// value is must for a call with a result.
func value[T any](v T, err error) T {
	must(err)
	return v
}

// Words in a peer's memory: counters, flags and locks without the peer's program.
func ExampleAtomic() {
	ctx, cancel := exampleContext()
	defer cancel()
	s := connectOneSided(ctx)
	defer s.close()
	buf := value(s.owner.Alloc(16, mem.Host))
	defer buf.Release()
	clear(buf.Bytes())
	m := value(s.owner.Register(ucx.Buffer(buf)))
	defer m.Release()
	rk := value(s.ep.Unpack(m.Key()))
	fmt.Println(rk.Len(), "bytes of", rk.Kind(), "memory")

	counter, flags := ucx.AtomicAt[uint64](rk, 0), ucx.AtomicAt[uint32](rk, 8)
	must(counter.Add(ctx, 41))
	must(s.ep.Flush(ctx)) // Add returns before it has taken effect
	fmt.Println("before", value(counter.FetchAdd(ctx, 1)), "now", value(counter.Load(ctx)))
	fmt.Println("swapped out", value(counter.Swap(ctx, 7)), "and", value(counter.CompareSwap(ctx, 7, 8)))

	must(flags.Or(ctx, 0b1111))
	must(flags.And(ctx, 0b0110))
	must(flags.Xor(ctx, 0b0011))
	must(s.ep.Worker().Fence()) // what follows takes effect after what was started
	must(s.ep.Flush(ctx))
	fmt.Printf("%04b %04b %04b\n", value(flags.FetchOr(ctx, 0b1000)), value(flags.FetchAnd(ctx, 0b1100)),
		value(flags.FetchXor(ctx, 0b1111)))
	fmt.Printf("%04b\n", value(flags.Load(ctx)))
	// Output:
	// 16 bytes of host memory
	// before 41 now 42
	// swapped out 42 and 7
	// 0101 1101 1100
	// 0011
}

// Started operations go on while the program does something else; a flush waits for all of them.
func ExampleEndpoint_StartPut() {
	ctx, cancel := exampleContext()
	defer cancel()
	s := connectOneSided(ctx)
	defer s.close()
	pool := s.owner.Resource(mem.Host, 0) // UCX's own memory as an allocator
	buf := value(pool.Alloc(ctx, 8))
	defer buf.Release()
	m := value(s.owner.Register(ucx.Buffer(buf)))
	defer m.Release()
	rk := value(s.ep.Unpack(m.Key()))

	text := ucx.Bytes([]byte("one-sided"))
	put := s.ep.StartPut(text.Slice(0, 4), rk, 0)
	must(put.Wait(ctx))
	must(s.ep.StartPut(text.Slice(4, 4), rk, 4).Wait(ctx))
	must(s.ep.StartFlush().Wait(ctx))
	must(s.ep.Worker().StartFlush().Wait(ctx))
	got := make([]byte, 8)
	must(s.ep.StartGet(ucx.Bytes(got), rk, 0).Wait(ctx))
	fmt.Printf("%s\n", got)
	// Output: one-side
}

// A file interface to a peer's memory.
func ExampleRemoteFile() {
	ctx, cancel := exampleContext()
	defer cancel()
	s := connectOneSided(ctx)
	defer s.close()
	buf := value(s.owner.Alloc(11, mem.Host))
	defer buf.Release()
	m := value(s.owner.Register(ucx.Buffer(buf)))
	defer m.Release()

	f := ucx.NewRemoteFile(ctx, s.ep, value(s.ep.Unpack(m.Key())))
	value(f.WriteAt([]byte("hello"), 0))
	value(f.WriteAt([]byte(" world"), 5))
	tail := make([]byte, 5)
	value(f.ReadAt(tail, 6))
	head := make([]byte, 5)
	value(f.Read(head))
	fmt.Printf("%d bytes, %s ends with %s\n", f.Size(), head, tail)
	// Output: 11 bytes, hello ends with world
}

// Many small messages cost least in batches.
func ExampleWorker_NewBatch() {
	ctx, cancel := exampleContext()
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	in, out := b.Worker().NewBatch(3), a.Worker().NewBatch(3)
	got := [3][1]byte{}
	for i := range got {
		in.Recv(b, ucx.Bytes(got[i][:]), uint64(i), ucx.FullMask)
	}
	in.Start()
	for i, text := range []string{"a", "b", "c"} {
		out.Send(a, ucx.Bytes([]byte(text)), uint64(i))
	}
	out.Start()
	must(out.Wait(ctx))
	must(in.Wait(ctx))
	fmt.Printf("%s, the last with tag %d\n", [3]byte{got[0][0], got[1][0], got[2][0]}, in.Request(2).Info().Tag)
	in.Reset() // ready for the next round
	// Output: abc, the last with tag 2
}

// Two programs that have a connection of their own, of any kind, make it the lifeline of an endpoint.
func ExampleWorker_Attach() {
	ctx, cancel := exampleContext()
	defer cancel()
	a, b := newExampleWorker(), newExampleWorker()
	defer func() {
		for _, w := range []*ucx.Worker{a, b} {
			w.Close()
			w.Context().Close()
		}
	}()
	left, right := net.Pipe()
	type result struct {
		ep  *ucx.Endpoint
		err error
	}
	other := make(chan result)
	go func() {
		ep, err := b.Attach(ctx, right, "the left side")
		other <- result{ep, err}
	}()
	ep := value(a.Attach(ctx, left, "the right side"))
	r := <-other
	must(r.err)
	must(ep.Send(ctx, ucx.Bytes([]byte("hi")), 1))
	got := make([]byte, 2)
	value(r.ep.Recv(ctx, ucx.Bytes(got), 1, ucx.FullMask))
	fmt.Printf("%s from %s\n", got, r.ep.Peer())
	// Output: hi from the left side
}

// Any net.Listener is a meeting place, a TLS one for example.
func ExampleWorker_ListenOn() {
	ctx, cancel := exampleContext()
	defer cancel()
	w := newExampleWorker()
	defer w.Context().Close()
	defer w.Close()
	l := value(w.ListenOn(value(net.Listen("tcp", "127.0.0.1:0"))))
	defer l.Close()
	go func() {
		ep := value(l.Accept(ctx))
		must(ep.Send(ctx, ucx.Bytes([]byte("welcome")), 1))
	}()
	ep := value(w.Dial(ctx, l.Addr().String()))
	got := make([]byte, 7)
	value(ep.Recv(ctx, ucx.Bytes(got), 1, ucx.FullMask))
	fmt.Printf("%s, by some transport: %v\n", got, len(value(ep.Transports())) > 0)
	// Output: welcome, by some transport: true
}

// A worker's address travels in a file of a shared folder: no IP address is needed.
func ExampleReadAddressFile() {
	ctx, cancel := exampleContext()
	defer cancel()
	dir := value(os.MkdirTemp("", "ucx"))
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "worker.addr")
	w := newExampleWorker()
	defer w.Context().Close()
	defer w.Close()
	must(value(w.Address()).WriteFile(path))

	ep := value(w.Connect(value(ucx.ReadAddressFile(ctx, path)), nil))
	defer ep.Close()
	must(ep.Flush(ctx))
	fmt.Println("connected")
	// Output: connected
}

// A Contact has all addresses of a worker; Route picks the one that works between two.
func ExampleWorker_Contact() {
	a, b := newExampleWorker(), newExampleWorker()
	defer func() {
		for _, w := range []*ucx.Worker{a, b} {
			w.Close()
			w.Context().Close()
		}
	}()
	contact := value(a.Contact()) // travels to b, as JSON for example
	addr := b.Route(contact)
	text := value(addr.MarshalText())
	fmt.Println(string(text[:5]))
	ep := value(b.Connect(addr, nil))
	defer ep.Close()
	info := value(b.Info())
	fmt.Println(info.Progress, info.MaxHeader > 100)
	// Output:
	// ucx1:
	// adaptive true
}

// Data of messages goes to memory of the receiver's choice, by the kind of memory that the sender has it in. With GPUs
// there would be a second line for mem.Device.
func ExampleWorker_SetAllocator() {
	ctx, cancel := exampleContext()
	defer cancel()
	a, b, done := connected(ctx)
	defer done()
	w := b.Worker()
	w.SetAllocator(mem.Host, mem.NewMmap(mem.MmapConfig{}))
	must(w.OpenAM(3))

	must(a.SendAM(ctx, 3, []byte("table"), ucx.AMOptions{}, ucx.Bytes([]byte("rows"))))
	m := value(w.RecvAM(ctx, 3))
	buf := value(m.Buffer(ctx, nil))
	defer buf.Release()
	fmt.Printf("%s from %s memory: %s\n", m.Header, m.Kind, buf.Bytes())
	// Output: table from host memory: rows
}

// A receive that is not wanted any more.
func ExampleRequest_Cancel() {
	ctx, cancel := exampleContext()
	defer cancel()
	a, b, done := connected(ctx)
	defer done()
	r := b.StartRecv(ucx.Bytes(make([]byte, 8)), 1, ucx.FullMask)
	r.Cancel()
	<-r.Done()
	fmt.Println(errors.Is(r.Err(), context.Canceled))

	must(a.Send(ctx, ucx.Bytes([]byte("late")), 1))
	for {
		if info, found, err := b.Worker().Probe(1, ucx.FullMask); found || err != nil {
			fmt.Println(info.Len, err)
			break
		}
	}
	// Output:
	// true
	// 4 <nil>
}

// Streams of bytes for peers that expect them; Conn is a net.Conn with back-pressure.
func ExampleEndpoint_StartRecvStream() {
	ctx, cancel := exampleContext()
	defer cancel()
	a, b, done := connected(ctx)
	defer done()
	got := make([]byte, 6)
	in := b.StartRecvStream(ucx.Bytes(got), true)
	out := a.StartSendStream(ucx.Bytes([]byte("stream")))
	must(out.Wait(ctx))
	must(in.Wait(ctx))
	fmt.Printf("%s\n", got)
	// Output: stream
}

// The deadlines and half-closes of a net.Conn.
func ExampleConn() {
	ctx, cancel := exampleContext()
	defer cancel()
	w := newExampleWorker()
	defer w.Context().Close()
	defer w.Close()
	l := value(w.ListenConn(ctx, "127.0.0.1:0", nil))
	defer l.Close()
	accepted := make(chan net.Conn)
	go func() { accepted <- value(l.Accept()) }()
	client := value(w.DialContext(ctx, "tcp", l.Addr().String()))
	server := (<-accepted).(*ucx.Conn)

	must(server.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err := server.Read(make([]byte, 1))
	fmt.Println(errors.Is(err, os.ErrDeadlineExceeded))
	must(server.SetDeadline(time.Time{}))
	must(server.SetWriteDeadline(time.Now().Add(time.Minute)))
	value(client.Write([]byte("ping")))
	got := make([]byte, 4)
	value(server.Read(got))
	fmt.Printf("%s over %v\n", got, server.LocalAddr().Network())
	must(server.CloseRead()) // the client's writes fail from now on
	must(server.SetLinger(0))
	must(server.Close())
	_ = client.Close() // reports the reset
	// Output:
	// true
	// ping over tcp
}

// What a UCXX program sends with send_obj and to receiver callbacks, and what it asks for with probes.
func ExampleUCXXEndpoint() {
	ctx, cancel := exampleContext()
	defer cancel()
	c := value(ucx.NewContext(ucx.Config{PlainTransports: true}))
	defer c.Close()
	w := value(c.NewWorker(ucx.WorkerConfig{}))
	defer w.Close()
	handled := make(chan string, 1)
	must(w.HandleUCXX(ctx, ucx.UCXXCallback{Owner: "app", ID: 1}, func(ctx context.Context, m *ucx.UCXXMessage) {
		handled <- string(value(m.Bytes(ctx, 1024)))
	}))
	l := value(w.ListenUCXX(ctx, "127.0.0.1:0"))
	defer l.Close()
	accepted := make(chan *ucx.UCXXEndpoint)
	go func() { accepted <- value(l.Accept(ctx)) }()
	client := value(w.DialUCXX(ctx, l.Addr().String()))
	server := <-accepted
	send, _ := client.Tags()
	_, recv := server.Tags()
	fmt.Println("tags agree:", send == recv, "over", client.Endpoint().RemoteAddr() != nil)

	must(client.SendObject(ctx, ucx.Bytes([]byte("object")), ucx.DefaultTag))
	obj := value(server.RecvObject(ctx, ucx.DefaultTag, nil, 1024))
	fmt.Printf("%s\n", obj.Bytes())
	obj.Release()

	to := ucx.UCXXOptions{Callback: &ucx.UCXXCallback{Owner: "app", ID: 1}}
	must(client.SendAM(ctx, ucx.Bytes([]byte("called back")), to))
	fmt.Println(<-handled)

	must(client.Send(ctx, ucx.Bytes([]byte("abc")), ucx.ForceTag(7)))
	for {
		if n, found, err := server.Probe(ucx.ForceTag(7)); found || err != nil {
			fmt.Println(n, err, server.ProbeAM())
			break
		}
	}
	must(server.CloseAfter(1, false)) // closes with the next receive
	value(server.Recv(ctx, ucx.Bytes(make([]byte, 3)), ucx.ForceTag(7)))
	<-server.Done()
	// Output:
	// tags agree: true over true
	// object
	// called back
	// 3 <nil> false
}

// What this machine can do, without any connection.
func ExampleContext_Info() {
	if err := ucx.Available(); err != nil {
		fmt.Println("no UCX:", err)
		return
	}
	c := value(ucx.NewContext(ucx.Config{}))
	defer c.Close()
	info := c.Info()
	fmt.Println(len(info.Transports) > 0, slices.Contains(info.Memory, mem.Host), info.Registrations)
	addr, err := ucx.Address("lo")
	fmt.Println(addr, err)
	// Output:
	// true true 0
	// 127.0.0.1 <nil>
}
