package ucx_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// A question and its answer. The header says what is asked, the data comes with it, and
// the answer goes back through the message's own endpoint.
func ExampleEndpoint_SendAM() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	const question, answer = 1, 2
	// Open the ids before the peer sends: UCX drops messages of ids that nobody opened.
	if err := a.Worker().OpenAM(answer); err != nil {
		log.Fatal(err)
	}
	err := b.Worker().HandleAM(ctx, question, func(ctx context.Context, m *ucx.AM) {
		data, err := m.Bytes(ctx, 1<<20)
		if err != nil || string(m.Header) != "upper" {
			return
		}
		err = m.ReplyTo.SendAM(ctx, answer, nil, ucx.AMOptions{}, ucx.Bytes([]byte(strings.ToUpper(string(data)))))
		if err != nil {
			log.Print(err)
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	err = a.SendAM(ctx, question, []byte("upper"), ucx.AMOptions{Reply: true}, ucx.Bytes([]byte("hello, ")),
		ucx.Bytes([]byte("gopher")))
	if err != nil {
		log.Fatal(err)
	}
	m, err := a.Worker().RecvAM(ctx, answer)
	if err != nil {
		log.Fatal(err)
	}
	text, err := m.Bytes(ctx, 1<<20)
	fmt.Printf("%s %v\n", text, err)
	// Output: HELLO, GOPHER <nil>
}

// A large message stays at its sender until the receiver has chosen the memory for it:
// a pool here, device memory with package cuda.
func ExampleAM_Buffer() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, b, done := connected(ctx)
	defer done()

	pool, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := b.Worker().OpenAM(1); err != nil {
		log.Fatal(err)
	}
	sent := a.StartSendAM(1, []byte("column 7"), ucx.AMOptions{Rendezvous: true}, ucx.Of(make([]int32, 1<<18)))
	m, err := b.Worker().RecvAM(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d bytes, still at the sender: %t\n", m.Header, m.Len, m.Rendezvous())
	buf, err := m.Buffer(ctx, pool)
	if err != nil {
		log.Fatal(err)
	}
	defer buf.Release()
	fmt.Println(buf.Len(), sent.Wait(ctx))
	// Output:
	// column 7: 1048576 bytes, still at the sender: true
	// 1048576 <nil>
}
