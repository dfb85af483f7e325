package tcp_test

import (
	"fmt"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/wire"
)

// BenchmarkEcho sends messages there and back over one comm, both ends in this process.
func BenchmarkEcho(b *testing.B) {
	for _, size := range []int{100, 1 << 20, 100 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l, err := comm.Listen(b.Context(), "tcp://127.0.0.1:0", comm.ListenConfig{})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			go func() {
				if c, err := l.Accept(b.Context()); err == nil {
					echo(b.Context(), c)
				}
			}()
			c, err := comm.Dial(b.Context(), l.ContactAddr(), comm.DialConfig{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(make([]byte, 40))}}
			for left := size; left > 0; left -= 64 << 20 { // Dask's shards
				m.Frames = append(m.Frames, wire.HeapFrame(make([]byte, min(left, 64<<20))))
			}
			b.SetBytes(2 * int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Write(b.Context(), m); err != nil {
					b.Fatal(err)
				}
				got, err := c.Read(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				got.Release()
			}
		})
	}
}
