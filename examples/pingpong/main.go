// Command pingpong measures the time of a message between two processes over UCX.
//
//	pingpong listen 127.0.0.1:9000          one process
//	pingpong 127.0.0.1:9000 [SIZE]          the other
//
// On one host UCX chooses shared memory, between hosts InfiniBand where there is one.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"time"

	"go.millstream.dev/ucx"
)

const (
	rounds = 1000
	// Tags of the two directions.
	ping, pong = 1, 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pingpong:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "listen":
		l, err := ucx.Listen(ctx, args[1])
		if err != nil {
			return err
		}
		defer l.Close()
		return serve(ctx, l)
	case len(args) == 1:
		return measure(ctx, out, args[0], 8)
	case len(args) == 2:
		size, err := strconv.Atoi(args[1])
		if err != nil || size < 1 {
			return fmt.Errorf("size %q is not a positive number of bytes", args[1])
		}
		return measure(ctx, out, args[0], size)
	}
	return errors.New("usage: pingpong listen ADDRESS | pingpong ADDRESS [SIZE]")
}

// serve returns every message of one peer to it, until the peer closes the connection.
func serve(ctx context.Context, l *ucx.Listener) error {
	ep, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	defer ep.Close()
	// The first message says how large the others are.
	head := make([]int64, 1)
	if _, err := ep.Recv(ctx, ucx.Of(head), ping, ucx.FullMask); err != nil {
		return err
	}
	if head[0] < 1 || head[0] > 1<<30 {
		return fmt.Errorf("size of %d bytes; the peer is not pingpong", head[0])
	}
	data := make([]byte, head[0])
	for range rounds {
		if _, err := ep.Recv(ctx, ucx.Of(data), ping, ucx.FullMask); err != nil {
			return err
		}
		if err := ep.Send(ctx, ucx.Of(data), pong); err != nil {
			return err
		}
	}
	return nil
}

// measure sends messages of a size and prints half the time until they are back.
func measure(ctx context.Context, out io.Writer, address string, size int) error {
	ep, err := ucx.Dial(ctx, address)
	if err != nil {
		return err
	}
	defer ep.Close()
	transports, err := ep.Transports() // the peer closes the connection after the last message
	if err != nil {
		return err
	}
	if err := ep.Send(ctx, ucx.Of([]int64{int64(size)}), ping); err != nil {
		return err
	}
	sent, back := bytes.Repeat([]byte{7}, size), make([]byte, size)
	begin := time.Now()
	for range rounds {
		if err := ep.Send(ctx, ucx.Of(sent), ping); err != nil {
			return err
		}
		if _, err := ep.Recv(ctx, ucx.Of(back), pong, ucx.FullMask); err != nil {
			return err
		}
	}
	took := time.Since(begin)
	if !bytes.Equal(sent, back) {
		return errors.New("other bytes came back")
	}
	fmt.Fprintf(out, "%d bytes: %v one way over %v\n", size, took/(2*rounds), transports)
	return nil
}
