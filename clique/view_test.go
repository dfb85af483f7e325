package clique

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// lateEvent is done when it is let go, or fails.
type lateEvent struct {
	let chan struct{}
	err error // set before let is closed
}

func newLateEvent() *lateEvent { return &lateEvent{let: make(chan struct{})} }

func (e *lateEvent) Handle() uintptr      { return 0 }
func (e *lateEvent) Query() (bool, error) { return false, nil }
func (e *lateEvent) Wait(ctx context.Context) error {
	select {
	case <-e.let:
		return e.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// countedBuffer is host memory that tells when it is freed.
func countedBuffer(s []int64) (b *mem.Buffer, freed *atomic.Bool) {
	freed = new(atomic.Bool)
	host := mem.FromSlice(s)
	r := mem.NewRegion(mem.RegionConfig{Addr: host.Addr(), Len: host.Len(), Free: func() {
		freed.Store(true)
		host.Release()
	}})
	return r.Buffer(), freed
}

// TestBuffersAreHeld: an operation waits for the last write of its buffers, holds them until it is done, by Do and by
// Start, and lets them go in the end, also when it fails.
func TestBuffersAreHeld(t *testing.T) {
	ctx := quickContext(t)
	gs := pair(ctx, t)
	ranks := [2]*Rank{{g: gs[0]}, {g: gs[1]}}
	forms := map[string]func(r *Rank, c Call) error{
		"Do":    func(r *Rank, c Call) error { return r.Do(ctx, c) },
		"Start": func(r *Rank, c Call) error { return r.Start(ctx, c).Wait(ctx) },
	}
	for name, run := range forms {
		var bufs [2]*mem.Buffer
		var freed [2]*atomic.Bool
		values := [2][]int64{{0}, {5}}
		for r := range bufs {
			bufs[r], freed[r] = countedBuffer(values[r])
		}
		late := newLateEvent()
		bufs[0].SetReady(late)
		var all sync.WaitGroup
		for r := range ranks {
			all.Go(func() {
				v := Buffer[int64](bufs[r])
				if err := run(ranks[r], AllReduce(v, v, Sum)); err != nil {
					t.Errorf("%s: rank %d: %v", name, r, err)
				}
			})
		}
		values[0][0] = 37 // the write in flight
		close(late.let)
		all.Wait()
		for r := range bufs {
			if values[r][0] != 42 {
				t.Errorf("%s: rank %d has %d, want 42: the buffer was read before it was ready", name, r, values[r][0])
			}
			if freed[r].Load() {
				t.Fatalf("%s: rank %d's buffer is gone", name, r)
			}
			// Start releases it concurrently: the last reference frees it.
			bufs[r].Release()
			waitUntil(ctx, t, func() bool { return freed[r].Load() })
		}
		// A write that failed is the operation's error, and nothing was sent.
		bad, gone := countedBuffer([]int64{1})
		broken := errors.New("broken")
		event := newLateEvent()
		event.err = broken
		close(event.let)
		bad.SetReady(event)
		v := Buffer[int64](bad)
		if err := run(ranks[0], AllReduce(v, v, Sum)); !errors.Is(err, broken) {
			t.Errorf("%s: %v, want %v", name, err, broken)
		}
		if bad.Release(); !gone.Load() {
			t.Errorf("%s: the buffer of a failed operation is still held", name)
		}
	}
}

func waitUntil(ctx context.Context, t *testing.T, ok func() bool) {
	t.Helper()
	for !ok() {
		if ctx.Err() != nil {
			t.Fatal("waited in vain")
		}
		runtime.Gosched()
	}
}

// TestCalls: each operation has its code, type, operation, root and ranks, and counts make the V form of those that
// have one.
func TestCalls(t *testing.T) {
	s, v := Of([]int16{1, 2}), Of(make([]int16, 2))
	type want struct {
		code, counted collective.Code
		op            Op
		root          int
	}
	for name, c := range map[string]struct {
		call Call
		want want
	}{
		"AllReduce":     {AllReduce(s, v, Max), want{collective.AllReduce, collective.AllReduce, Max, 0}},
		"Reduce":        {Reduce(s, v, Min, 3), want{collective.Reduce, collective.Reduce, Min, 3}},
		"Broadcast":     {Broadcast(v, 2), want{collective.Broadcast, collective.Broadcast, Op{}, 2}},
		"AllGather":     {AllGather(s, v), want{collective.AllGather, collective.AllGatherV, Op{}, 0}},
		"Gather":        {Gather(s, v, 4), want{collective.Gather, collective.GatherV, Op{}, 4}},
		"Scatter":       {Scatter(s, v, 5), want{collective.Scatter, collective.ScatterV, Op{}, 5}},
		"ReduceScatter": {ReduceScatter(s, v, Prod), want{collective.ReduceScatter, collective.ReduceScatter, Prod, 0}},
		"AllToAll":      {AllToAll(s, v), want{collective.AllToAll, collective.AllToAllV, Op{}, 0}},
	} {
		got := c.call.c
		if got.Code != c.want.code || got.Kind != collective.Int16 || got.Op != c.want.op || got.Root != c.want.root {
			t.Errorf("%s: %v of %v by %v at %d, want %+v", name, got.Code, got.Kind, got.Op, got.Root, c.want)
		}
		if len(got.Recv.Bytes) != 4 || name != "Broadcast" && &got.Send.Bytes[0] != &s.m.Bytes[0] ||
			name == "Broadcast" && &got.Send.Bytes[0] != &got.Recv.Bytes[0] {
			t.Errorf("%s: send of %d bytes, recv of %d", name, len(got.Send.Bytes), len(got.Recv.Bytes))
		}
		counted := c.call.WithCounts([]int{1}, []int{2}).c
		if counted.Code != c.want.counted || counted.Counts[0] != 1 || counted.RecvCounts[0] != 2 {
			t.Errorf("%s by counts: %v, %v, %v", name, counted.Code, counted.Counts, counted.RecvCounts)
		}
		if again := c.call.c; again.Code != c.want.code || again.Counts != nil {
			t.Errorf("%s: WithCounts has changed the call that it was called on", name)
		}
	}
	n := 0
	for name, c := range map[string]struct {
		call collective.Call
		want collective.Call
	}{
		"Send": {Send(2, 7, s).c, collective.Call{Code: collective.Send, To: 2, SendTag: 7}},
		"Recv": {Recv(3, 8, v).WithLen(&n).c, collective.Call{Code: collective.Recv, From: 3, RecvTag: 8, N: &n}},
		"SendRecv": {SendRecv(2, 7, s, 3, 8, v).c, collective.Call{Code: collective.SendRecv, To: 2, SendTag: 7,
			From: 3, RecvTag: 8}},
		"Barrier": {Barrier().c, collective.Call{Code: collective.Barrier}},
	} {
		g, w := c.call, c.want
		if g.Code != w.Code || g.To != w.To || g.From != w.From || g.SendTag != w.SendTag || g.RecvTag != w.RecvTag ||
			g.N != w.N {
			t.Errorf("%s: %+v, want %+v", name, g, w)
		}
	}
	if k := KindOf[BF16](); k != collective.BFloat16 || PreMulSum(int8(3)) != elem.PreMulSum(int8(3)) {
		t.Errorf("%v, %v", k, PreMulSum(int8(3)))
	}
}

// TestSplitNames compares with a plain sort, for random colors and keys.
func TestSplitNames(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + rng.IntN(8)
		names, all := make([]string, n), make([]int64, 2*n)
		for r := range n {
			names[r] = fmt.Sprintf("w%d", r)
			all[2*r], all[2*r+1] = int64(rng.IntN(3)), int64(rng.IntN(5)-2)
		}
		for color := range 4 {
			var want []string
			for key := int64(-2); key <= 2; key++ {
				for r := range n {
					if all[2*r] == int64(color) && all[2*r+1] == key {
						want = append(want, names[r])
					}
				}
			}
			if got := splitNames(names, all, color); !slices.Equal(got, want) {
				t.Fatalf("color %d of %v: %v, want %v", color, all, got, want)
			}
		}
	}
}

// TestRoundsModel: a set of rounds is a set, whatever the order, and keeps only what is out of order.
func TestRoundsModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		var r rounds
		taken := map[uint32]bool{}
		for range 60 {
			n := uint32(rng.IntN(30))
			if got := r.take(n); got == taken[n] {
				t.Fatalf("round %d is new: %t, want %t", n, got, !taken[n])
			}
			taken[n] = true
			below := uint32(0)
			for taken[below] {
				below++
			}
			if r.below != below || len(r.more) != len(taken)-int(below) {
				t.Fatalf("below %d and %d more, want %d and %d", r.below, len(r.more), below, len(taken)-int(below))
			}
		}
	}
}

// TestErrorTexts checks that equal errors of ranks and workers are listed once, in order.
func TestErrorTexts(t *testing.T) {
	first, second := errors.New("no luck"), &RankError{Rank: 1, Reason: "gone"}
	e := &RunError{Clique: "id", Func: "f", Ranks: map[int]error{3: first, 0: first, 2: second}}
	if want := "clique id: f: rank 0, rank 3: no luck; rank 2: collective: rank 1: gone"; e.Error() != want {
		t.Errorf("%q, want %q", e, want)
	}
	var gone *RankError
	if list := e.Unwrap(); len(list) != 3 || list[0] != first || list[1] != error(second) || list[2] != first ||
		!errors.As(e, &gone) || !errors.Is(e, first) {
		t.Errorf("unwraps to %v", list)
	}
	f := &FormError{Clique: "id", Workers: map[string]string{"b": "late", "a": "late", "c": "dead"}}
	if want := "clique id: a, b: late; c: dead"; f.Error() != want {
		t.Errorf("%q, want %q", f, want)
	}
	for n, want := range map[int]string{0: "none", 1: "0", 8: "0, 1, 2, 3, 4, 5, 6, 7",
		10: "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint(i))
		}
		if got := abbreviate(names); got != want {
			t.Errorf("abbreviate of %d: %q, want %q", n, got, want)
		}
	}
	a, b := newID(""), newID(strings.Repeat("name", 20))
	if len(a) != 32 || !strings.HasPrefix(b, "namenamenamenamenamename-") || len(b) != 57 || checkID(b) != nil {
		t.Errorf("ids %q and %q", a, b)
	}
}
