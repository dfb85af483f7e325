package ucx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"go.millstream.dev/ucx"
)

// Two workers meet at an address, and are told when the other leaves.
func ExampleWorker_Dial() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	server, closeServer := worker()
	defer closeServer()
	client, closeClient := worker()
	defer closeClient()

	l, err := server.Listen(ctx, "127.0.0.1:0") // or unix:///run/app.sock
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		ep, err := client.Dial(ctx, l.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		if err := ep.Send(ctx, ucx.Bytes([]byte("hello")), 1); err != nil {
			log.Fatal(err)
		}
		if err := ep.Close(); err != nil { // what was sent has arrived
			log.Fatal(err)
		}
	}()
	ep, err := l.Accept(ctx)
	if err != nil {
		log.Fatal(err)
	}
	<-ep.Done()
	fmt.Println(errors.Is(ep.Err(), ucx.ErrPeerClosed), errors.Is(ep.Err(), io.EOF))

	buf := make([]byte, 5)
	if _, err := server.Recv(ctx, ucx.Bytes(buf), 1, ucx.FullMask); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", buf)
	// Output:
	// true true
	// hello
}

// A worker's address is text that travels by any means: a file, a message, a DNS record.
// No IP address is needed.
func ExampleWorker_Connect() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	server, closeServer := worker()
	defer closeServer()
	client, closeClient := worker()
	defer closeClient()

	addr, err := server.Address()
	if err != nil {
		log.Fatal(err)
	}
	text := addr.String()
	fmt.Println(text[:5])

	var there ucx.WorkerAddress
	if err := there.UnmarshalText([]byte(text)); err != nil {
		log.Fatal(err)
	}
	ep, err := client.Connect(there, &ucx.EndpointConfig{Name: "server"})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		if err := ep.Send(ctx, ucx.Bytes([]byte("no socket")), 1); err != nil {
			log.Print(err)
		}
	}()
	buf := make([]byte, 9)
	if _, err := server.Recv(ctx, ucx.Bytes(buf), 1, ucx.FullMask); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", buf)
	// Output:
	// ucx1:
	// no socket
}

// A listener of UCX's own kind sees who comes before it lets anyone in.
func ExampleListener_Next() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	server, closeServer := worker()
	defer closeServer()
	client, closeClient := worker()
	defer closeClient()

	l, err := server.ListenSocket(ctx, "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		ep, err := client.DialSocket(ctx, l.Addr().String(), nil)
		if err != nil {
			log.Print(err)
			return
		}
		if err := ep.Send(ctx, ucx.Bytes([]byte("knock")), 1); err != nil {
			log.Print(err)
		}
	}()
	r, err := l.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("someone on", r.RemoteAddr().Network(), "waits")
	ep, err := r.Accept(&ucx.EndpointConfig{Name: "guest"}) // or r.Reject()
	if err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 5)
	if _, err := ep.Recv(ctx, ucx.Bytes(buf), 1, ucx.FullMask); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s from %s\n", buf, ep.Peer())
	// Output:
	// someone on tcp waits
	// knock from guest
}

// Which UCX is used, and whether there is one at all.
func ExampleLibrary() {
	lib, err := ucx.Library()
	if err != nil {
		log.Fatal(err) // says how to install it
	}
	fmt.Println("UCX 1.13 or newer:", lib.AtLeast(1, 13))
	// Output: UCX 1.13 or newer: true
}

// Settings of UCX for one context. A variable UCX_TLS in the environment would win.
func ExampleNewContext() {
	c, err := ucx.NewContext(ucx.Config{
		Name:     "loader",
		Features: ucx.Tag | ucx.Wakeup,
		Options:  map[string]string{"TLS": "tcp,self", "RNDV_THRESH": "64k"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Info().Options["UCX_TLS"])

	_, err = ucx.NewContext(ucx.Config{Options: map[string]string{"RNDV_TRESH": "64k"}})
	fmt.Println(strings.Contains(err.Error(), "UCX_RNDV_THRESH")) // the error has the right spelling
	// Output:
	// tcp,self
	// true
}

// Counters of a worker, for a metrics exporter or a look at what it is busy with.
func ExampleWorker_Stats() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	for range 3 {
		go a.Send(ctx, ucx.Bytes(make([]byte, 100)), 1)
		if _, err := b.Recv(ctx, ucx.Bytes(make([]byte, 100)), 1, ucx.FullMask); err != nil {
			log.Fatal(err)
		}
	}
	s := b.Worker().Stats()
	fmt.Println(s.Ops["tag receive"].Count, s.Endpoints, s.Errors)
	// Output: 3 1 0
}
