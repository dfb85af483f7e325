package ucx_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"go.millstream.dev/ucx"
)

// connected makes two workers of one process with an endpoint to each other, for the
// examples of this file.
func connected(ctx context.Context) (a, b *ucx.Endpoint, done func()) {
	uc, err := ucx.NewContext(ucx.Config{})
	if err != nil {
		log.Fatal(err)
	}
	var ws [2]*ucx.Worker
	for i := range ws {
		if ws[i], err = uc.NewWorker(ucx.WorkerConfig{}); err != nil {
			log.Fatal(err)
		}
	}
	l, err := ws[0].Listen(ctx, "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	if a, err = ws[1].Dial(ctx, l.Addr().String()); err != nil {
		log.Fatal(err)
	}
	if b, err = l.Accept(ctx); err != nil {
		log.Fatal(err)
	}
	return a, b, func() { l.Close(); ws[0].Close(); ws[1].Close(); uc.Close() }
}

// A header and the columns of a table travel as one message. The receiver decides
// which memory the columns go to.
func ExampleEndpoint_SendFrames() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	prices := []float64{1.5, 2.5, 3.5}
	names := []byte("ham spam eggs")
	go func() {
		if err := a.SendFrames(ctx, ucx.Bytes([]byte("table 1")), ucx.Of(prices), ucx.Bytes(names)); err != nil {
			log.Print(err)
		}
	}()

	frames, err := b.RecvFrames(ctx, ucx.Allocators{MaxBytes: 1 << 30})
	if err != nil {
		log.Fatal(err)
	}
	defer frames.Release()
	for _, f := range frames {
		fmt.Println(f.Len())
	}
	fmt.Printf("%s\n", frames[0].Bytes())
	// Output:
	// 7
	// 24
	// 13
	// table 1
}

// The raw byte stream of an endpoint.
func ExampleEndpoint_SendStream() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	for _, word := range []string{"no ", "boundaries"} {
		if err := a.SendStream(ctx, ucx.Bytes([]byte(word))); err != nil {
			log.Fatal(err)
		}
	}
	buf := make([]byte, 13)
	n, err := b.RecvStream(ctx, ucx.Bytes(buf), true)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d %s\n", n, buf)
	// Output: 13 no boundaries
}

// A server for Python programs that use UCXX's create_endpoint; here the client is
// DialUCXX, which reaches UCXX's create_listener just as well.
func ExampleWorker_ListenUCXX() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	uc, err := ucx.NewContext(ucx.Config{PlainTransports: true}) // as UCXX chooses them
	if err != nil {
		log.Fatal(err)
	}
	defer uc.Close()
	w, err := uc.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	l, err := w.ListenUCXX(ctx, "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		ep, err := l.Accept(ctx)
		if err != nil {
			log.Print(err)
			return
		}
		frames, err := ep.RecvMulti(ctx, ucx.DefaultTag, ucx.Allocators{})
		if err != nil {
			log.Print(err)
			return
		}
		if err := ep.Send(ctx, ucx.Buffer(frames[1]), ucx.UserTag(7)); err != nil {
			log.Print(err)
		}
	}()

	ep, err := w.DialUCXX(ctx, l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	if err := ep.SendMulti(ctx, ucx.DefaultTag, ucx.Bytes([]byte("one")), ucx.Bytes([]byte("two"))); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 3)
	if _, err := ep.Recv(ctx, ucx.Bytes(buf), ucx.UserTag(7)); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", buf)
	// Output: two
}
