package ucx

import (
	"fmt"
	"io"
	"net"
	"testing"
)

// benchPairs are a connection over each transport, and a kernel socket to compare with.
func benchPairs(b *testing.B, f func(b *testing.B, x, y net.Conn)) {
	for _, set := range connSettings[:2] {
		b.Run(set.name, func(b *testing.B) {
			x, y := newConnPair(b, set.cfg, set.wcfg, nil)
			f(b, x, y)
		})
	}
	b.Run("socket", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		x, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer x.Close()
		y, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		defer y.Close()
		f(b, x, y)
	})
}

// BenchmarkConnStream writes in one direction; the reader has a buffer of the same size.
func BenchmarkConnStream(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			benchPairs(b, func(b *testing.B, x, y net.Conn) {
				done := make(chan error, 1)
				go func() {
					buf := make([]byte, size)
					for range b.N {
						if _, err := io.ReadFull(y, buf); err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
				buf := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					if _, err := x.Write(buf); err != nil {
						b.Fatal(err)
					}
				}
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkConnPingPong sends 8 bytes forth and back.
func BenchmarkConnPingPong(b *testing.B) {
	benchPairs(b, func(b *testing.B, x, y net.Conn) {
		go func() {
			buf := make([]byte, 8)
			for {
				if _, err := io.ReadFull(y, buf); err != nil {
					return
				}
				if _, err := y.Write(buf); err != nil {
					return
				}
			}
		}()
		buf := make([]byte, 8)
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			if _, err := x.Write(buf); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(x, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
