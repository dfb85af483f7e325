package sim_test

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/testkit/sim"
	"go.millstream.dev/wire"
)

// Two hosts, a partition between them, and what arrives after it.
func Example() {
	ctx := context.Background()
	net := sim.New(sim.Config{Seed: 1, Link: sim.Link{Latency: time.Millisecond}})
	l, err := net.Host("scheduler").Listen(ctx, "sim://scheduler:8786", comm.ListenConfig{})
	if err != nil {
		panic(err)
	}
	defer l.Close()
	c, err := net.Host("worker").Dial(ctx, l.ContactAddr(), comm.DialConfig{})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	s, err := l.Accept(ctx)
	if err != nil {
		panic(err)
	}
	defer s.Close()

	net.Partition("worker", "scheduler")
	_ = c.Write(ctx, &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("hello"))}})
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = s.Read(short)
	fmt.Println("cut:", err != nil)

	net.Heal("worker", "scheduler")
	m, err := s.Read(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("whole:", string(m.Body()))
	m.Release()
	// Output:
	// cut: true
	// whole: hello
}
