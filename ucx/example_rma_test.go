package ucx_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// oneSided stands for two processes: an owner of memory, and a user that connected to it.
type oneSided struct {
	owner *ucx.Context
	ep    *ucx.Endpoint // from the user to the owner
	close func()
}

func connectOneSided(ctx context.Context) oneSided {
	owner, user := newExampleWorker(), newExampleWorker()
	addr, err := owner.Address() // travels to the user by any means
	if err != nil {
		log.Fatal(err)
	}
	// Atomics need an endpoint without error handling with newer UCX; put and get do not.
	ep, err := user.Connect(addr, &ucx.EndpointConfig{NoErrorHandling: true})
	if err != nil {
		log.Fatal(err)
	}
	return oneSided{owner.Context(), ep, func() {
		ep.Shutdown(ctx)
		for _, w := range []*ucx.Worker{user, owner} {
			w.Close()
			w.Context().Close()
		}
	}}
}

func newExampleWorker() *ucx.Worker {
	c, err := ucx.NewContext(ucx.Config{})
	if err != nil {
		log.Fatal(err)
	}
	w, err := c.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	return w
}

// The owner registers memory and sends its key; the user writes and reads the memory
// while the owner's program does something else.
func ExampleEndpoint_Put() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s := connectOneSided(ctx)
	defer s.close()

	// The owner's side.
	buf, err := s.owner.Alloc(64, mem.Host)
	if err != nil {
		log.Fatal(err)
	}
	defer buf.Release()
	m, err := s.owner.Register(ucx.Buffer(buf))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Release()
	wire, err := m.Key().MarshalBinary()
	if err != nil {
		log.Fatal(err)
	}

	// The user's side.
	var key ucx.MemoryKey
	if err := key.UnmarshalBinary(wire); err != nil {
		log.Fatal(err)
	}
	rk, err := s.ep.Unpack(key)
	if err != nil {
		log.Fatal(err)
	}
	defer rk.Release()
	if err := s.ep.Put(ctx, ucx.Bytes([]byte("hello")), rk, 10); err != nil {
		log.Fatal(err)
	}
	if err := s.ep.Flush(ctx); err != nil { // from here on the owner sees it
		log.Fatal(err)
	}
	fmt.Printf("%s\n", buf.Bytes()[10:15])

	got := make([]byte, 4)
	if err := s.ep.Get(ctx, ucx.Bytes(got), rk, 11); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", got)
	// Output:
	// hello
	// ello
}

// A counter in the owner's memory gives out numbers to whoever asks.
func ExampleAtomicAt() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s := connectOneSided(ctx)
	defer s.close()
	buf, err := s.owner.Alloc(8, mem.Host)
	if err != nil {
		log.Fatal(err)
	}
	defer buf.Release()
	clear(buf.Bytes())
	m, err := s.owner.Register(ucx.Buffer(buf))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Release()
	rk, err := s.ep.Unpack(m.Key())
	if err != nil {
		log.Fatal(err)
	}
	counter := ucx.AtomicAt[uint64](rk, 0)
	for range 3 {
		n, err := counter.FetchAdd(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(n)
	}
	// Output:
	// 0
	// 1
	// 2
}

// A peer's memory as a file, for everything that works on package io.
func ExampleNewRemoteFile() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s := connectOneSided(ctx)
	defer s.close()
	buf, err := s.owner.Alloc(26, mem.Host)
	if err != nil {
		log.Fatal(err)
	}
	defer buf.Release()
	for i := range buf.Bytes() {
		buf.Bytes()[i] = 'a' + byte(i)
	}
	m, err := s.owner.Register(ucx.Buffer(buf))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Release()
	rk, err := s.ep.Unpack(m.Key())
	if err != nil {
		log.Fatal(err)
	}
	f := ucx.NewRemoteFile(ctx, s.ep, rk)
	if _, err := f.Seek(-3, io.SeekEnd); err != nil {
		log.Fatal(err)
	}
	rest, err := io.ReadAll(f)
	fmt.Printf("%s %v\n", rest, err)
	// Output:
	// xyz <nil>
}
