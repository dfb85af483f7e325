//go:build cgo

package ucxcomm

import (
	"testing"

	"go.millstream.dev/internal/comm/ucxstats"
)

// The counters of the workers of comms are those of the process.
func TestStats(t *testing.T) {
	for name, b := range backends {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			before := ucxstats.Total()
			a, z := pair(t, b)
			const n = 1 << 20
			sent := make(chan error, 1)
			go func() { sent <- a.Write(ctx, msg(make([]byte, n))) }() // large frames wait for the reader
			m, err := z.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			m.Release()
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			after := ucxstats.Total()
			var moved, ops uint64
			for op, count := range after.Ops {
				moved += count.Bytes - before.Ops[op].Bytes
				ops += count.Count - before.Ops[op].Count
			}
			if after.Workers == 0 || ops == 0 || moved < n {
				t.Errorf("got %d workers, %d operations of %d bytes; want some, of at least %d bytes", after.Workers,
					ops, moved, n)
			}
			a.Abort()
		})
	}
}
