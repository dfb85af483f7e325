//go:build cgo

package ucxcomm_test

import (
	"context"
	"fmt"
	"log"

	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/wire"
)

// Importing the package registers ucx:// and ucxx:// with package comm.
func Example() {
	ctx := context.Background()
	l, err := comm.Listen(ctx, "ucxx://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		m, err := c.Read(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer m.Release()
		if err := c.Write(ctx, m); err != nil {
			log.Fatal(err)
		}
	}()
	c, err := comm.Dial(ctx, l.ContactAddr(), comm.DialConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	hello := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("hello"))}}
	if err := c.Write(ctx, hello); err != nil {
		log.Fatal(err)
	}
	m, err := c.Read(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Release()
	fmt.Printf("%s\n", m.Body())
	// Output: hello
}

// A backend of its own has settings of its own.
func ExampleNew() {
	b := ucxcomm.New("ucxx", ucxcomm.Settings{Options: map[string]string{"TLS": "tcp,self"}})
	l, err := b.Listen(context.Background(), "127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	host, _ := comm.AddressHost(l.ContactAddr())
	fmt.Println(host)
	// Output: 127.0.0.1
}
