package ucx

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"
)

func TestMailbox(t *testing.T) {
	ctx := testContext(t)
	w := newWorker(t, Config{}, WorkerConfig{})
	var b mailbox[int]
	b.put(1)
	b.put(2)
	if b.len() != 2 {
		t.Errorf("%d items", b.len())
	}
	for want := 1; want <= 2; want++ {
		if got, err := b.recv(ctx, w); err != nil || got != want {
			t.Fatalf("got %d, %v, want %d", got, err, want)
		}
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := b.recv(short, w); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("empty box: %v", err)
	}
	b.put(3) // not lost to the receiver that has gone
	b.fail(io.EOF)
	if got, err := b.recv(ctx, w); err != nil || got != 3 {
		t.Errorf("after fail: %d, %v", got, err)
	}
	if _, err := b.recv(ctx, w); !errors.Is(err, io.EOF) {
		t.Errorf("after the last: %v", err)
	}
	b.put(4)
	if rest := b.close(ErrClosed); len(rest) != 1 || rest[0] != 4 {
		t.Errorf("close returned %v", rest)
	}
	if b.put(5) {
		t.Error("a shut box took an item")
	}
}

// Every item goes to exactly one receiver, also to ones whose context ends meanwhile.
func TestMailboxStress(t *testing.T) {
	ctx := testContext(t)
	w := newWorker(t, Config{}, WorkerConfig{})
	var b mailbox[int]
	const items = 2000
	var mu sync.Mutex
	seen := make([]int, items)
	var wg sync.WaitGroup
	all, done := context.WithCancel(ctx)
	left := items
	for range 8 {
		wg.Go(func() {
			for all.Err() == nil {
				short, cancel := context.WithTimeout(all, 100*time.Microsecond)
				v, err := b.recv(short, w)
				cancel()
				if err != nil {
					continue
				}
				mu.Lock()
				seen[v]++
				if left--; left == 0 {
					done()
				}
				mu.Unlock()
			}
		})
	}
	for i := range items {
		b.put(i)
		if i%10 == 0 {
			time.Sleep(50 * time.Microsecond)
		}
	}
	wg.Wait()
	done()
	for i, n := range seen {
		if n != 1 {
			t.Fatalf("item %d was received %d times", i, n)
		}
	}
}

func TestMailboxFailWakes(t *testing.T) {
	ctx := testContext(t)
	w := newWorker(t, Config{}, WorkerConfig{})
	var b mailbox[int]
	got := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := b.recv(ctx, w)
			got <- err
		}()
	}
	time.Sleep(5 * time.Millisecond)
	b.fail(io.EOF)
	for range 3 {
		if err := <-got; !errors.Is(err, io.EOF) {
			t.Errorf("got %v", err)
		}
	}
}

// An ended context takes nothing: what came in the same moment is for the next.
func TestMailboxUnget(t *testing.T) {
	ctx := testContext(t)
	w := newWorker(t, Config{}, WorkerConfig{})
	var b mailbox[int]
	b.put(2)
	if !b.unget(1) {
		t.Fatal("an open box refused an item")
	}
	for want := 1; want <= 2; want++ {
		if got, err := b.recv(ctx, w); err != nil || got != want {
			t.Fatalf("got %d, %v, want %d", got, err, want)
		}
	}
	got := make(chan int, 1)
	go func() {
		v, _ := b.recv(ctx, w)
		got <- v
	}()
	for waiting := false; !waiting && ctx.Err() == nil; {
		b.mu.Lock()
		waiting = len(b.waiting) > 0
		b.mu.Unlock()
	}
	if !b.unget(7) || <-got != 7 {
		t.Error("a waiting receiver did not get what came back")
	}
	b.close(ErrClosed)
	if b.unget(8) {
		t.Error("a shut box took an item")
	}
}

// With deadlines that end all the time, messages are neither lost nor do they cost the
// connection.
func TestFramesShortDeadlines(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	const n = 300
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			if err := a.SendFrames(ctx, Bytes([]byte{byte(i), byte(i >> 8)})); err != nil {
				sent <- err
				return
			}
			time.Sleep(time.Duration(i%7) * 20 * time.Microsecond)
		}
		sent <- nil
	}()
	for i := 0; i < n; {
		short, cancel := context.WithTimeout(ctx, time.Duration(200+10*(i%50))*time.Microsecond)
		f, err := b.RecvFrames(short, Allocators{})
		cancel()
		if err != nil {
			if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) || b.Err() != nil {
				t.Fatalf("message %d: %v, %v", i, err, b.Err())
			}
			continue
		}
		if p := f[0].Bytes(); int(p[0])|int(p[1])<<8 != i {
			t.Fatalf("message %d came as number %d", int(p[0])|int(p[1])<<8, i)
		}
		i++
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
