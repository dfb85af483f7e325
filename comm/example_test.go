package comm_test

import (
	"context"
	"fmt"
	"log"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/comm/ucxcomm" // tcp:// and tls://
	_ "go.millstream.dev/internal/comm/inproc"
	"go.millstream.dev/wire"
)

// A listener that echoes, and a client of it. The same works with tls://, inproc:// and
// ucxx://, and with Python at either end.
func Example() {
	ctx := context.Background()
	l, err := comm.Listen(ctx, "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			m, err := c.Read(ctx)
			if err != nil {
				return // the client has closed
			}
			if err := c.Write(ctx, m); err != nil {
				return
			}
			m.Release()
		}
	}()

	c, err := comm.Dial(ctx, l.ContactAddr(), comm.DialConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	hello := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("\xa5hello"))}}
	if err := c.Write(ctx, hello); err != nil {
		log.Fatal(err)
	}
	m, err := c.Read(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", m.Body())
	m.Release()
	// Output: "\xa5hello"
}
