package client_test

import (
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/scheduler"
)

func BenchmarkMap(b *testing.B) {
	for _, address := range transports {
		b.Run(address, func(b *testing.B) {
			r := newRigWith(b, address, 2, scheduler.Config{})
			in := make([]int, b.N)
			for i := range in {
				in[i] = i
			}
			b.ReportAllocs()
			b.ResetTimer()
			futures := inc.Map(r.ctx, r.c, in)
			if _, err := client.Gather(r.ctx, futures); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkSubmitResult(b *testing.B) {
	for _, address := range transports {
		b.Run(address, func(b *testing.B) {
			r := newRigWith(b, address, 1, scheduler.Config{})
			b.ReportAllocs()
			for i := range b.N {
				if v, err := inc.Submit(r.ctx, r.c, client.Val(i)).Result(r.ctx); err != nil || v != i+1 {
					b.Fatal(v, err)
				}
			}
		})
	}
}
