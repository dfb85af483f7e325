package ucx_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// A message of numbers, received in place.
func ExampleEndpoint_Send() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	go func() {
		if err := a.Send(ctx, ucx.Of([]float64{3, 1, 4, 1, 5}), 42); err != nil {
			log.Print(err)
		}
	}()
	digits := make([]float64, 5)
	info, err := b.Recv(ctx, ucx.Of(digits), 42, ucx.FullMask)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Len, "bytes with tag", info.Tag, digits)
	// Output: 40 bytes with tag 42 [3 1 4 1 5]
}

// The upper half of the tags here says what a message is, the lower half counts. The
// receiver takes anything of one kind and is told which it got.
func ExampleEndpoint_Recv_mask() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	const kind, price, name = 0xffffffff << 32, 1 << 32, 2 << 32
	for _, m := range []struct {
		tag  uint64
		text string
	}{{name | 1, "spam"}, {price | 1, "1.50"}, {price | 2, "2.50"}} {
		if err := a.Send(ctx, ucx.Bytes([]byte(m.text)), m.tag); err != nil {
			log.Fatal(err)
		}
	}
	buf := make([]byte, 16)
	for range 2 {
		info, err := b.Recv(ctx, ucx.Bytes(buf), price, kind)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("price %d: %s\n", info.Tag&^kind, buf[:info.Len])
	}
	// Output:
	// price 1: 1.50
	// price 2: 2.50
}

// Operations under way overlap: all are started, then waited for.
func ExampleEndpoint_StartSend() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	parts := [][]byte{[]byte("one"), []byte("two"), []byte("three")}
	var sends, receives []*ucx.Request
	bufs := make([][8]byte, len(parts))
	for i, p := range parts {
		receives = append(receives, b.StartRecv(ucx.Bytes(bufs[i][:]), uint64(i), ucx.FullMask))
		sends = append(sends, a.StartSend(ucx.Bytes(p), uint64(i)))
	}
	for i := range parts {
		if err := errors.Join(sends[i].Wait(ctx), receives[i].Wait(ctx)); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", bufs[i][:receives[i].Info().Len])
	}
	// Output:
	// one
	// two
	// three
}

// SendSync returns when the peer has begun to receive; Send may return long before.
func ExampleEndpoint_SendSync() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	sent := a.StartSendSync(ucx.Bytes([]byte("anyone there?")), 1)
	select {
	case <-sent.Done():
		fmt.Println("too early")
	case <-time.After(10 * time.Millisecond):
		fmt.Println("nobody receives yet")
	}
	if _, err := b.Recv(ctx, ucx.Bytes(make([]byte, 16)), 1, ucx.FullMask); err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent.Wait(ctx))
	// Output:
	// nobody receives yet
	// <nil>
}

// What has arrived is looked at first, and then received into memory of its length.
func ExampleWorker_ProbeRemove() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	if err := a.Send(ctx, ucx.Bytes([]byte("of unknown length")), 9); err != nil {
		log.Fatal(err)
	}
	var m *ucx.Message
	for m == nil { // or RecvAlloc, which waits for it
		var err error
		if m, err = b.Worker().ProbeRemove(9, ucx.FullMask); err != nil {
			log.Fatal(err)
		}
	}
	buf := make([]byte, m.Info().Len)
	if _, err := m.Recv(ctx, ucx.Bytes(buf)); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d: %s\n", len(buf), buf)
	// Output: 17: of unknown length
}

// A message of unknown length, with a bound on what the peer can make this side allocate.
func ExampleWorker_RecvAlloc() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	for _, n := range []int{11, 5000} {
		if err := a.Send(ctx, ucx.Bytes(make([]byte, n)), 9); err != nil {
			log.Fatal(err)
		}
		data, _, err := b.Worker().RecvAlloc(ctx, 9, ucx.FullMask, 4096)
		fmt.Println(len(data), errors.Is(err, ucx.ErrTruncated))
	}
	// Output:
	// 11 false
	// 0 true
}

// A deadline ends a receive that nobody answers. The endpoint lives on: nothing had
// been matched, so UCX gave the memory back by itself.
func ExampleEndpoint_Recv_deadline() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	short, cancelShort := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancelShort()
	buf := make([]byte, 8)
	_, err := b.Recv(short, ucx.Bytes(buf), 1, ucx.FullMask)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), b.Err())

	if err := a.Send(ctx, ucx.Bytes([]byte("later")), 1); err != nil {
		log.Fatal(err)
	}
	info, err := b.Recv(ctx, ucx.Bytes(buf), 1, ucx.FullMask)
	fmt.Printf("%s %v\n", buf[:info.Len], err)
	// Output:
	// true <nil>
	// later <nil>
}

// Memory of a pool is registered with the network once, however many buffers come out
// of it. The operation holds a reference of its own: the sender may release at once.
func ExampleBuffer() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	pool, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	from, err := pool.Alloc(ctx, 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	copy(from.Bytes(), "a million bytes")
	to, err := pool.Alloc(ctx, 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	defer to.Release()
	sent := a.StartSend(ucx.Buffer(from), 1)
	from.Release()
	if _, err := b.Recv(ctx, ucx.Buffer(to), 1, ucx.FullMask); err != nil {
		log.Fatal(err)
	}
	if err := sent.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", to.Bytes()[:15])
	// Output: a million bytes
}
