package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.millstream.dev/ucx"
)

const (
	askTag, replyTag = 1, 2
	payload          = 4 << 20
)

// side makes the one worker of a program.
func side() (*ucx.Context, *ucx.Worker, error) {
	c, err := ucx.NewContext(ucx.Config{})
	if err != nil {
		return nil, nil, err
	}
	w, err := c.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		_ = c.Close()
	}
	return c, w, err
}

// serveByFile writes its worker address to a file, takes the address of who asks, and sends
// data there. There is no listener and no IP address in it.
func serveByFile(ctx context.Context, args []string) error {
	c, w, err := side()
	if err != nil {
		return err
	}
	defer c.Close()
	defer w.Close()
	own, err := w.Address()
	if err != nil {
		return err
	}
	if err := own.WriteFile(args[0]); err != nil {
		return err
	}
	text, _, err := w.RecvAlloc(ctx, askTag, ucx.FullMask, 1<<20)
	if err != nil {
		return err
	}
	var peer ucx.WorkerAddress
	if err := peer.UnmarshalBinary(text); err != nil {
		return err
	}
	ep, err := w.Connect(peer, nil)
	if err != nil {
		return err
	}
	if err := ep.Send(ctx, ucx.Bytes(bytes.Repeat([]byte("millstream "), payload/11)), replyTag); err != nil {
		return err
	}
	return errors.Join(ep.Flush(ctx), ep.Shutdown(ctx))
}

// callByFile is the other side.
func callByFile(ctx context.Context, args []string) error {
	c, w, err := side()
	if err != nil {
		return err
	}
	defer c.Close()
	defer w.Close()
	peer, err := ucx.ReadAddressFile(ctx, args[0])
	if err != nil {
		return err
	}
	own, err := w.Address()
	if err != nil {
		return err
	}
	text, err := own.MarshalBinary()
	if err != nil {
		return err
	}
	ep, err := w.Connect(peer, nil)
	if err != nil {
		return err
	}
	if err := ep.Send(ctx, ucx.Bytes(text), askTag); err != nil {
		return err
	}
	data, _, err := w.RecvAlloc(ctx, replyTag, ucx.FullMask, payload+1)
	if err != nil {
		return err
	}
	return told(ep, data)
}

// told prints what arrived, and over which transports.
func told(ep *ucx.Endpoint, data []byte) error {
	transports, err := ep.Transports()
	if err != nil {
		return err
	}
	names := make([]string, len(transports))
	for i, l := range transports {
		names[i] = l.Name
	}
	fmt.Printf("right data: %v\ntransports: %s\n", bytes.Equal(data, bytes.Repeat([]byte("millstream "), payload/11)),
		strings.Join(names, " "))
	return nil
}

// serveBySocket serves a Unix socket, callBySocket connects to it: the namespaces of the two
// decide over which transport the data goes.
func serveBySocket(ctx context.Context, args []string) error {
	c, w, err := side()
	if err != nil {
		return err
	}
	defer c.Close()
	defer w.Close()
	l, err := w.Listen(ctx, "unix://"+args[0])
	if err != nil {
		return err
	}
	fmt.Println("listening")
	ep, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	if err := ep.Send(ctx, ucx.Bytes(bytes.Repeat([]byte("millstream "), payload/11)), replyTag); err != nil {
		return err
	}
	_, err = ep.Recv(ctx, ucx.Bytes(make([]byte, 1)), askTag, ucx.FullMask)
	return err
}

func callBySocket(ctx context.Context, args []string) error {
	c, w, err := side()
	if err != nil {
		return err
	}
	defer c.Close()
	defer w.Close()
	ep, err := w.Dial(ctx, "unix://"+args[0])
	if err != nil {
		return err
	}
	data := make([]byte, payload/11*11)
	if _, err := ep.Recv(ctx, ucx.Bytes(data), replyTag, ucx.FullMask); err != nil {
		return err
	}
	if err := told(ep, data); err != nil {
		return err
	}
	return errors.Join(ep.Send(ctx, ucx.Bytes([]byte{1}), askTag), ep.Shutdown(ctx))
}
