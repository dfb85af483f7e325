package ucx

import (
	"bytes"
	"testing"
)

func TestTagPingPong(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	go func() {
		buf := make([]byte, 1<<20)
		for {
			info, err := b.Recv(ctx, Bytes(buf), 0, AnyTag)
			if err != nil {
				return
			}
			if err := b.Send(ctx, Bytes(buf[:info.Len]), info.Tag+1); err != nil {
				return
			}
		}
	}()
	for _, n := range []int{0, 1, 8, 1024, 1025, 8192, 1 << 20} {
		for i := range 100 {
			msg := bytes.Repeat([]byte{byte(i + 1)}, n)
			if err := a.Send(ctx, Bytes(msg), uint64(i)); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, n)
			info, err := a.Recv(ctx, Bytes(got), uint64(i)+1, FullMask)
			if err != nil {
				t.Fatal(err)
			}
			if info.Len != n || !bytes.Equal(got, msg) {
				t.Fatalf("size %d round %d: got %d bytes, equal %v", n, i, info.Len, bytes.Equal(got, msg))
			}
		}
	}
	transports, err := a.Transports()
	t.Log(transports, err)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkPingPong(b *testing.B) {
	ctx := testContext(b)
	x, y := pair(b, Config{}, WorkerConfig{Progress: Polling})
	go func() {
		buf := make([]byte, 8)
		for {
			if _, err := y.Recv(ctx, Bytes(buf), 1, FullMask); err != nil {
				return
			}
			if err := y.Send(ctx, Bytes(buf), 2); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 8)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if err := x.Send(ctx, Bytes(buf), 1); err != nil {
			b.Fatal(err)
		}
		if _, err := x.Recv(ctx, Bytes(buf), 2, FullMask); err != nil {
			b.Fatal(err)
		}
	}
}
