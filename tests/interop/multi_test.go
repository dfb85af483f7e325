package interop

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/tests/interop/pypeer"
	"go.millstream.dev/ucx"
)

// frameSizes are those of n frames: every fifth empty, the last one large.
func frameSizes(n int) []int {
	s := make([]int, n)
	for i := range s {
		if i%5 != 0 {
			s[i] = i * 37 % 5000
		}
	}
	s[n-1] = 100_000
	return s
}

func frameSpecs(sizes []int) []map[string]int {
	specs := make([]map[string]int, len(sizes))
	for i, n := range sizes {
		specs[i] = pypeer.Data(n, i)
	}
	return specs
}

func frameViews(sizes []int) []ucx.View {
	views := make([]ucx.View, len(sizes))
	for i, n := range sizes {
		views[i] = ucx.Bytes(pypeer.NewPattern(n, i))
	}
	return views
}

func checkFrames(got ucx.Frames, sizes []int) error {
	if len(got) != len(sizes) {
		return fmt.Errorf("%d frames instead of %d", len(got), len(sizes))
	}
	for i, n := range sizes {
		if err := check(got[i].Bytes(), n, i); err != nil {
			return fmt.Errorf("frame %d: %w", i, err)
		}
	}
	return nil
}

func checkPeerFrames(got []pypeer.Frame, sizes []int) error {
	if len(got) != len(sizes) {
		return fmt.Errorf("the peer got %d frames instead of %d", len(got), len(sizes))
	}
	for i, n := range sizes {
		if got[i].Size != int64(n) || got[i].SHA256 != pypeer.Sum(pypeer.NewPattern(n, i)) {
			return fmt.Errorf("the peer got %d bytes instead of %d, or other ones, as frame %d", got[i].Size, n, i)
		}
	}
	return nil
}

var multiMessages = [][]int{
	{0}, {0, 0, 0}, {5}, {1 << 20}, {0, 3, 0, 8193, 0},
	frameSizes(99), frameSizes(100), frameSizes(101), frameSizes(200), frameSizes(250),
}

func TestMultiBuffer(t *testing.T) {
	bothWays(t, func(l *link) {
		for k, sizes := range multiMessages {
			tag := tags[k%len(tags)]
			send := l.post("send_multi", l.command(tag.with(pypeer.Command{"frames": frameSpecs(sizes)})))
			got, err := l.ep.RecvMulti(l.ctx, tag.ours, ucx.Allocators{})
			if err != nil {
				l.Fatalf("%d frames to us: %v", len(sizes), err)
			}
			if err := checkFrames(got, sizes); err != nil {
				l.Error(err)
			}
			got.Release()
			l.wait(send)

			recv := l.post("recv_multi", l.command(tag.with(pypeer.Command{"careful": len(sizes) > 100})))
			if err := l.ep.SendMulti(l.ctx, tag.ours, frameViews(sizes)...); err != nil {
				l.Fatalf("%d frames to the peer: %v", len(sizes), err)
			}
			if err := checkPeerFrames(l.wait(recv).Frames, sizes); err != nil {
				l.Error(err)
			}
		}
	})
}

// UCXX has no message of no frames: its send does nothing, and ours says so.
func TestMultiBufferWithoutFrames(t *testing.T) {
	bothWays(t, func(l *link) {
		if err := l.ep.SendMulti(l.ctx, ucx.DefaultTag); err == nil {
			l.Error("a message of no frames was sent")
		}
		short, cancel := context.WithTimeout(l.ctx, 200*time.Millisecond)
		defer cancel()
		empty := l.post("send_multi", l.command(pypeer.Command{"frames": []any{}}))
		_, err := l.ep.RecvMulti(short, ucx.DefaultTag, ucx.Allocators{})
		if !errors.Is(err, context.DeadlineExceeded) {
			l.Fatalf("the peer's message of no frames: %v", err)
		}
		_, _ = empty.Wait(short) // UCXX 0.52 may or may not end it
		send := l.post("send_multi", l.command(pypeer.Command{"frames": frameSpecs([]int{4})}))
		got, err := l.ep.RecvMulti(l.ctx, ucx.DefaultTag, ucx.Allocators{})
		if err != nil {
			l.Fatalf("the next message: %v", err)
		}
		if err := checkFrames(got, []int{4}); err != nil {
			l.Error(err)
		}
		l.wait(send)
	})
}

// Frames go to the receiver's memory.
func TestMultiBufferIntoPool(t *testing.T) {
	pool, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, pypeer.Async)
	l := r.client()
	sizes := frameSizes(120)
	send := l.post("send_multi", l.command(pypeer.Command{"frames": frameSpecs(sizes)}))
	got, err := l.ep.RecvMulti(l.ctx, ucx.DefaultTag, ucx.Allocators{Host: pool})
	if err != nil {
		t.Fatal(err)
	}
	if err := checkFrames(got, sizes); err != nil {
		t.Error(err)
	}
	l.wait(send)
	if err := l.ep.Close(); err != nil {
		t.Error(err)
	}
	got.Release()
	for err = pool.Close(); errors.Is(err, mem.ErrBusy) && l.ctx.Err() == nil; err = pool.Close() {
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		t.Error(err)
	}
}

// What the peer announces is bounded before anything is allocated.
func TestMultiBufferLimits(t *testing.T) {
	r := newRig(t, pypeer.Async)
	for name, alloc := range map[string]ucx.Allocators{"frames": {MaxFrames: 100}, "bytes": {MaxBytes: 1 << 20}} {
		l := r.client()
		sizes := frameSizes(101)
		sizes[50] = 1 << 20
		send := l.post("send_multi", l.command(pypeer.Command{"frames": frameSpecs(sizes)}))
		if _, err := l.ep.RecvMulti(l.ctx, ucx.DefaultTag, alloc); !errors.Is(err, ucx.ErrExceedsLimit) {
			t.Errorf("%s: %v", name, err)
		}
		l.waitDone()
		_, _ = send.Wait(l.ctx) // it fails or not, but ends
	}
}
