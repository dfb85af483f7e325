package ucx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
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
						v := Bytes(sent[i])
						out.add(ucp.OpTagSendSync, a, &v, 7, 0)
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
	if err := in.Wait(soon); !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "batch: ") {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a batch that has not ended was reset")
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

// TestBatchRequest: an operation that Request returned before it ended completes alone, whether Start came first or
// not; the others still complete with the batch.
func TestBatchRequest(t *testing.T) {
	for _, first := range []bool{false, true} {
		t.Run(fmt.Sprintf("request first %v", first), func(t *testing.T) {
			ctx := testContext(t)
			a, b := pair(t, Config{}, WorkerConfig{})
			in := b.w.NewBatch(4)
			var got [3][]byte
			for round := range 3 {
				for i := range got {
					got[i] = make([]byte, 8)
					in.Recv(b, Bytes(got[i]), uint64(i), FullMask)
				}
				in.Recv(b, View{n: 4, bad: errors.New("no such memory")}, 9, FullMask)
				var one *Request
				if first {
					one = in.Request(1)
				}
				in.Start()
				if !first {
					one = in.Request(1)
				}
				if one.state.Load() == reqDone {
					t.Fatal("a receive without a message is done")
				}
				for _, i := range []int{1, 0, 2} {
					if err := a.Send(ctx, Bytes(fmt.Append(nil, round, i)), uint64(i)); err != nil {
						t.Fatal(err)
					}
					if err := in.Request(i).Wait(ctx); err != nil || in.Request(i).Info().Len != 3 {
						t.Fatalf("operation %d: %v, %+v, want 3 bytes", i, err, in.Request(i).Info())
					}
					if want := fmt.Sprint(round, i); string(got[i][:3]) != want {
						t.Errorf("operation %d received %q, want %q", i, got[i][:3], want)
					}
				}
				if err := in.Wait(ctx); err == nil || !errors.Is(err, in.Request(3).Err()) {
					t.Errorf("Wait returned %v, want %v", err, in.Request(3).Err())
				}
				in.Reset()
			}
		})
	}
}

// TestBatchRequestReused uses a batch again after Done of operations that had ended together.
func TestBatchRequestReused(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	in := b.w.NewBatch(4)
	got := make([]byte, 4)
	add := func() {
		for i := range 4 {
			in.Recv(b, Bytes(got[i:i+1]), uint64(i), FullMask)
		}
		in.Start()
	}
	send := func() {
		for i := range 4 {
			if err := a.Send(ctx, Bytes([]byte{byte(i)}), uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	add()
	send()
	for i := range 4 {
		<-in.Request(i).Done()
	}
	in.Reset()
	add()
	for i := range 4 {
		select {
		case <-in.Request(i).Done():
			t.Fatalf("operation %d has ended before its message was sent", i)
		default:
		}
	}
	send()
}

// TestBatchRequestRace calls Request while the last operation of the batch completes.
func TestBatchRequestRace(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	in := b.w.NewBatch(4)
	for round := range 200 {
		got := make([]byte, 4)
		for i := range 4 {
			in.Recv(b, Bytes(got[i:i+1]), uint64(i), FullMask)
		}
		in.Start()
		sent := make(chan error, 1)
		go func() {
			var failed error
			for i := range 4 {
				failed = errors.Join(failed, a.Send(ctx, Bytes([]byte{byte(round)}), uint64(i)))
			}
			sent <- failed
		}()
		for i := round % 2; i < 4; i++ {
			select {
			case <-in.Request(i).Done():
			case <-ctx.Done():
				t.Fatalf("round %d: operation %d did not end", round, i)
			}
		}
		if err := errors.Join(in.Wait(ctx), <-sent); err != nil {
			t.Fatal(err)
		}
		if want := bytes.Repeat([]byte{byte(round)}, 4); !bytes.Equal(got, want) {
			t.Fatalf("received %v, want %v", got, want)
		}
		in.Reset()
	}
}

// TestBatchCancel cancels one operation of a batch: its memory stays untouched by a later message, and the others
// receive theirs.
func TestBatchCancel(t *testing.T) {
	for _, n := range []int{8, 1024, 5000} {
		ctx := testContext(t)
		a, b := pair(t, Config{}, WorkerConfig{})
		in := b.w.NewBatch(2)
		kept, canceled := make([]byte, n), make([]byte, n)
		in.Recv(b, Bytes(canceled), 1, FullMask)
		in.Recv(b, Bytes(kept), 2, FullMask)
		in.Start()
		in.Request(0).Cancel()
		if err := in.Request(0).Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%d bytes: a canceled receive returned %v, want context.Canceled", n, err)
		}
		can := newCanary(canceled)
		sent := bytes.Repeat([]byte{7}, n)
		for tag := uint64(1); tag <= 2; tag++ {
			if err := a.Send(ctx, Bytes(sent), tag); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.Wait(ctx); !errors.Is(err, context.Canceled) || !bytes.Equal(kept, sent) {
			t.Errorf("%d bytes: %v, want context.Canceled and the other message", n, err)
		}
		next := make([]byte, n)
		if _, err := b.Recv(ctx, Bytes(next), 1, FullMask); err != nil || !bytes.Equal(next, sent) {
			t.Errorf("%d bytes: the next receive: %v, want the message", n, err)
		}
		if !bytes.Equal(can.mem, can.was) {
			t.Errorf("%d bytes: the memory was written after the receive was canceled", n)
		}
	}
}

// TestBatchEndpointFails: a batch ends when the endpoint of its operations does.
func TestBatchEndpointFails(t *testing.T) {
	a, b := pair(t, Config{}, WorkerConfig{})
	in := b.w.NewBatch(2)
	for tag := range uint64(2) {
		in.Recv(b, Bytes(make([]byte, 8)), tag, FullMask)
	}
	in.Start()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := in.Wait(testContext(t)); err == nil {
		t.Error("receives from a closed endpoint succeeded")
	}
	in.Reset()
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
