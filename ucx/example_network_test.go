package ucx_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"go.millstream.dev/ucx"
)

// A client sends and leaves. Client and server are two programs as a rule; here they share the default worker.
func ExampleDial() {
	defer ucx.Default.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l, err := ucx.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ep, err := ucx.Dial(ctx, l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	if err := ep.Send(ctx, ucx.Bytes([]byte("hello")), 1); err != nil {
		log.Fatal(err)
	}
	fmt.Println("sent")
	// Output: sent
}

// A server receives from every client that connects.
func ExampleListen() {
	defer ucx.Default.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l, err := ucx.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		ep, err := ucx.Dial(ctx, l.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		if err := ep.Send(ctx, ucx.Bytes([]byte("hello")), 1); err != nil {
			log.Fatal(err)
		}
	}()
	ep, err := l.Accept(ctx)
	if err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 5)
	if _, err := ep.Recv(ctx, ucx.Bytes(buf), 1, ucx.FullMask); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", buf)
	// Output: hello
}

// A Network has settings of its own, such as another choice of transports.
func ExampleNetwork() {
	n := &ucx.Network{Config: ucx.Config{Options: map[string]string{"TLS": "tcp,self"}}}
	defer n.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l, err := n.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Addr().Network())
	// Output: tcp
}
