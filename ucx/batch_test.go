package ucx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"go.millstream.dev/ucx/internal/ucp"
)

// TestBatch moves messages of many sizes in batches that are used again and again, in every
// mode of progress, and looks at each byte.
func TestBatch(t *testing.T) {
	for _, mode := range []ProgressMode{Adaptive, Polling, Thread} {
		t.Run(mode.String(), func(t *testing.T) {
			ctx := testContext(t)
			a, b := pair(t, Config{}, WorkerConfig{Progress: mode})
			out, in := a.w.NewBatch(16), b.w.NewBatch(16)
			for round, n := range []int{0, 1, 8, 1024, 1025, 8192, 100_000, 1 << 20, 8} {
				var sent, got [16][]byte
				for i := range sent {
					sent[i] = bytes.Repeat([]byte{byte(16*round + i)}, n)
					got[i] = make([]byte, n)
					in.Recv(b, Bytes(got[i]), 7, FullMask)
					if i%2 == 0 {
						out.Send(a, Bytes(sent[i]), 7)
					} else {
						out.add(ucp.OpTagSendSync, a, Bytes(sent[i]), 7, 0)
					}
				}
				in.Start()
				out.Start()
				if err := errors.Join(out.Wait(ctx), in.Wait(ctx)); err != nil {
					t.Fatal(err)
				}
				for i := range got {
					if info := in.Request(i).Info(); info.Len != n || info.Tag != 7 || !bytes.Equal(got[i], sent[i]) {
						t.Fatalf("size %d: message %d has %d bytes, tag %d, or other bytes", n, i, info.Len, info.Tag)
					}
				}
				out.Reset()
				in.Reset()
			}
		})
	}
}

// TestBatchStarts: Start may come in between, and begins only what is new.
func TestBatchStarts(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	out := a.w.NewBatch(4)
	out.Send(a, Bytes([]byte("one")), 1)
	out.Start()
	out.Start()
	out.Send(a, Bytes([]byte("two")), 2)
	if err := out.Wait(ctx); err != nil { // of what was started
		t.Fatal(err)
	}
	out.Start()
	for i, want := range []string{"one", "two"} {
		got := make([]byte, 8)
		info, err := b.Recv(ctx, Bytes(got), uint64(i+1), FullMask)
		if err != nil || string(got[:info.Len]) != want {
			t.Errorf("%q, %v, want %q", got[:info.Len], err, want)
		}
	}
	if err := out.Wait(ctx); err != nil || out.n != 2 {
		t.Error(err, out.n)
	}
}

// TestBatchErrors: a refused operation ends with its error and does not keep the others.
func TestBatchErrors(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	in := b.w.NewBatch(3)
	short, whole := make([]byte, 2), make([]byte, 4)
	in.Recv(b, Bytes(short), 1, FullMask)
	in.Recv(b, View{n: 4, bad: errors.New("no such memory")}, 2, FullMask)
	in.Recv(nil, Bytes(whole), 3, FullMask)
	in.Start()
	for tag := uint64(1); tag <= 3; tag += 2 {
		if err := a.Send(ctx, Bytes([]byte("four")), tag); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.Wait(ctx); !errors.Is(err, ErrTruncated) {
		t.Errorf("the first error is %v", err)
	}
	if err := in.Request(1).Err(); err == nil {
		t.Error("a bad view was taken")
	}
	if err := in.Request(2).Err(); err != nil || string(whole) != "four" {
		t.Errorf("the good receive: %q, %v", whole, err)
	}
	in.Reset()
	in.Recv(a, Bytes(whole), 1, FullMask)
	in.Start()
	if err := in.Wait(ctx); err == nil {
		t.Error("an endpoint of another worker was taken")
	}
}

// TestBatchContext: a wait that is given up leaves the operations under way.
func TestBatchContext(t *testing.T) {
	a, b := pair(t, Config{}, WorkerConfig{})
	in := b.w.NewBatch(2)
	got := make([]byte, 4)
	in.Recv(b, Bytes(got), 1, FullMask)
	in.Start()
	soon, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := in.Wait(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a batch under way was reset")
			}
		}()
		in.Reset()
	}()
	ctx := testContext(t)
	if err := a.Send(ctx, Bytes([]byte("late")), 1); err != nil {
		t.Fatal(err)
	}
	if err := in.Wait(ctx); err != nil || string(got) != "late" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestBatchClosed: a batch of a closed worker ends at once, and one that was not started
// keeps no worker from closing.
func TestBatchClosed(t *testing.T) {
	a, b := pair(t, Config{}, WorkerConfig{})
	in, out := b.w.NewBatch(1), a.w.NewBatch(1)
	in.Recv(b, Bytes(make([]byte, 4)), 1, FullMask)
	in.Start()
	out.Send(a, Bytes([]byte("late")), 1)
	for _, w := range []*Worker{b.w, a.w} {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	out.Start()
	for name, batch := range map[string]*Batch{"started before": in, "started after": out} {
		if err := batch.Wait(testContext(t)); !errors.Is(err, net.ErrClosed) && !errors.Is(err, errCanceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBatchFull: one operation too many is the caller's mistake.
func TestBatchFull(t *testing.T) {
	a, _ := pair(t, Config{}, WorkerConfig{})
	b := a.w.NewBatch(1)
	b.Recv(nil, Bytes(make([]byte, 4)), 1, FullMask)
	defer func() {
		if p := fmt.Sprint(recover()); !bytes.Contains([]byte(p), []byte("is full")) {
			t.Errorf("panic %q", p)
		}
	}()
	b.Recv(nil, Bytes(make([]byte, 4)), 1, FullMask)
}

// TestBatchAllocates nothing once it has been used.
func TestBatchAllocates(t *testing.T) {
	if underRace {
		t.Log("the race detector allocates: only the traffic is tested")
	}
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{Progress: Polling})
	out, in := a.w.NewBatch(8), b.w.NewBatch(8)
	sent, got := Bytes(make([]byte, 4096)), Bytes(make([]byte, 4096))
	round := func() {
		for range 8 {
			in.Recv(b, got, 1, FullMask)
			out.Send(a, sent, 1)
		}
		in.Start()
		out.Start()
		if err := errors.Join(out.Wait(ctx), in.Wait(ctx)); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		in.Reset()
	}
	round()
	if n := testing.AllocsPerRun(100, round); n > 0 && !underRace {
		t.Errorf("%v allocations in a round of 16 operations", n)
	}
}
