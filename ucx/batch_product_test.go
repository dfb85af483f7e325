package ucx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
)

// TestBatchProduct receives and sends batches of many sizes and lengths in every mode of progress, and ends each of
// them in every way: complete, with one receive canceled, with the endpoint closed, with the worker closed.
func TestBatchProduct(t *testing.T) {
	for _, mode := range []ProgressMode{Adaptive, Polling, Thread} {
		for _, end := range []string{"complete", "request first", "cancel", "close endpoint", "close worker"} {
			t.Run(mode.String()+" "+end, func(t *testing.T) {
				for _, n := range []int{1, 17, 64} {
					for _, size := range []int{0, 8, 1024, 1025, 20_000} {
						if end == "complete" || n+size < 2000 { // each of the others needs a new pair
							batchEnd(t, mode, end, n, size)
						}
					}
				}
			})
		}
	}
}

// batchEnd sends half of the messages of a batch, ends the other half of the receives, and checks each.
func batchEnd(t *testing.T, mode ProgressMode, end string, n, size int) {
	t.Helper()
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{Progress: mode})
	in, out := b.w.NewBatch(n), a.w.NewBatch(n)
	sent, got := make([][]byte, n), make([][]byte, n)
	for i := range n {
		sent[i], got[i] = bytes.Repeat([]byte{byte(i + 1)}, size), make([]byte, size)
		in.Recv(b, Bytes(got[i]), uint64(i), FullMask)
	}
	early := n - 1
	if end == "request first" {
		in.Request(early)
	}
	in.Start()
	whole := end == "complete" || end == "request first"
	for i := range n {
		if i%2 == 0 || whole {
			out.Send(a, Bytes(sent[i]), uint64(i))
		}
	}
	out.Start()
	if err := out.Wait(ctx); err != nil {
		t.Fatalf("%d x %d: sends: %v", n, size, err)
	}
	for i := 0; i < n && !whole; i += 2 {
		if err := in.Request(i).Wait(ctx); err != nil {
			t.Fatalf("%d x %d: receive %d: %v", n, size, i, err)
		}
	}
	var want error
	switch end {
	case "cancel":
		want = context.Canceled
		for i := 1; i < n; i += 2 {
			in.Request(i).Cancel()
		}
	case "close endpoint":
		want = net.ErrClosed
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	case "close worker":
		want = net.ErrClosed
		if err := b.w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	err := in.Wait(ctx)
	if n == 1 || whole {
		want = nil
	}
	if !errors.Is(err, want) && !(want == net.ErrClosed && errors.Is(err, errCanceled)) {
		t.Errorf("%d x %d: Wait returned %v, want %v", n, size, err, want)
	}
	for i := range n {
		r := in.Request(i)
		if i%2 == 0 || whole {
			info := r.Info()
			if r.Err() != nil || info != (RecvInfo{uint64(i), size}) || !bytes.Equal(got[i], sent[i]) {
				t.Errorf("%d x %d: receive %d: %v, %+v, want its message", n, size, i, r.Err(), info)
			}
		} else if r.Err() == nil || !bytes.Equal(got[i], make([]byte, size)) {
			t.Errorf("%d x %d: receive %d without a message: error %v, want one and no data", n, size, i, r.Err())
		}
	}
	in.Reset()
	out.Reset()
}

// TestBatchBothWays has both sides send batches to each other without a receive in between: a side that only sends
// must still make progress for the messages of the other one.
func TestBatchBothWays(t *testing.T) {
	for _, mode := range []ProgressMode{Adaptive, Polling, Thread} {
		t.Run(mode.String(), func(t *testing.T) {
			ctx := testContext(t)
			a, b := pair(t, Config{}, WorkerConfig{Progress: mode})
			const rounds, n = 100, 16
			done := make(chan error, 2)
			for _, ep := range []*Endpoint{a, b} {
				go func() {
					batch := ep.w.NewBatch(n)
					for range rounds {
						for i := range n {
							batch.Send(ep, Bytes([]byte{byte(i)}), 1)
						}
						batch.Start()
						if err := batch.Wait(ctx); err != nil {
							done <- err
							return
						}
						batch.Reset()
					}
					for i := range rounds * n {
						var got [1]byte
						if _, err := ep.Recv(ctx, Bytes(got[:]), 1, FullMask); err != nil || got[0] != byte(i%n) {
							done <- fmt.Errorf("message %d is %v, error %w", i, got, err)
							return
						}
					}
					done <- nil
				}()
			}
			for range 2 {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
