package clique

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/transport"
	_ "go.millstream.dev/internal/comm/inproc"
	"go.millstream.dev/mem"
)

// pair is two ranks in this process.
func pair(ctx context.Context, t *testing.T) [2]*collective.Group {
	t.Helper()
	l, err := comm.Listen(ctx, "inproc://", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed := make(chan comm.Comm, 1)
	go func() {
		c, err := comm.Dial(ctx, l.ContactAddr(), comm.DialConfig{})
		if err != nil {
			t.Error(err)
		}
		dialed <- c
	}()
	accepted, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	peers := [2][]comm.Comm{{nil, accepted}, {<-dialed, nil}}
	var out [2]*collective.Group
	var all sync.WaitGroup
	for r := range out {
		all.Go(func() {
			tr, err := transport.NewComm(r, peers[r])
			if err == nil {
				out[r], err = collective.New(ctx, tr, collective.Config{})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	t.Cleanup(func() {
		var all sync.WaitGroup
		for _, g := range out {
			all.Go(func() { _ = g.Close() })
		}
		all.Wait()
	})
	return out
}

// namedPool has free communicators that are nothing but names.
func namedPool(names ...uint64) *ncclPool {
	p := &ncclPool{free: map[uint64]*ncclComm{}, all: map[*ncclComm]struct{}{}}
	for _, n := range names {
		c := &ncclComm{name: n}
		p.free[n], p.all[c] = c, struct{}{}
	}
	return p
}

// Duplicates find what is free on all ranks, whatever else each has, and no two of them the same.
func TestLeases(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	gs := pair(ctx, t)
	pools := [2]*ncclPool{namedPool(5, 3, 9, 1), namedPool(9, 4, 5)}
	chosen := func(dup uint64) [2]*ncclComm {
		t.Helper()
		var out [2]*ncclComm
		var all sync.WaitGroup
		for r, p := range pools {
			all.Go(func() {
				g, err := gs[r].Dup(dup)
				if err != nil {
					t.Error(err)
					return
				}
				defer g.Close()
				offered, err := p.take()
				if err == nil {
					out[r], err = p.common(ctx, g, offered)
				}
				if err != nil {
					t.Error(err)
				}
				for _, c := range offered {
					if c != out[r] {
						p.release(c)
					}
				}
			})
		}
		all.Wait()
		return out
	}
	for dup, want := range []uint64{5, 9, 0} {
		got := chosen(uint64(dup))
		for r, c := range got {
			if want == 0 && c != nil || want != 0 && (c == nil || c.name != want) {
				t.Errorf("dup %d: rank %d has %+v, want %d", dup, r, c, want)
			}
		}
	}
	pools[0].release(&ncclComm{name: 9})
	if got := chosen(3); got[0] != nil || got[1] != nil {
		t.Errorf("%v: rank 1 has not given it back", got)
	}
	if len(pools[0].free) != 3 || len(pools[1].free) != 1 {
		t.Errorf("%d and %d are free", len(pools[0].free), len(pools[1].free))
	}
	pools[0].closed = true
	if _, err := pools[0].take(); err == nil {
		t.Error("a closed pool gives something")
	}
}

// A duplicate has its communicator to itself until it gives it back: the next duplicate gets another one.
func TestLeasesAreExclusive(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	gs := pair(ctx, t)
	pools := [2]*ncclPool{namedPool(5, 3, 9), namedPool(9, 4, 5)}
	lease := func(dup uint64) (out [2]*ncclComm) {
		t.Helper()
		var all sync.WaitGroup
		for r, p := range pools {
			all.Go(func() {
				g, err := gs[r].Dup(dup)
				if err != nil {
					t.Error(err)
					return
				}
				defer g.Close()
				if out[r], err = p.lease(ctx, g); err != nil {
					t.Errorf("dup %d: rank %d: %v", dup, r, err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			t.FailNow()
		}
		return out
	}
	for dup, want := range []uint64{5, 9} {
		for r, c := range lease(uint64(dup)) {
			if c.name != want {
				t.Errorf("dup %d: rank %d has %d, want %d", dup, r, c.name, want)
			}
			if len(pools[r].free) != 2-dup || pools[r].free[c.name] != nil {
				t.Errorf("dup %d: rank %d has %d free, want %d without %d", dup, r, len(pools[r].free), 2-dup, want)
			}
			if dup == 1 {
				pools[r].release(c)
			}
		}
	}
	for r, c := range lease(2) {
		if c.name != 9 {
			t.Errorf("rank %d has %d, want 9, which was given back", r, c.name)
		}
	}
}

// An id that cannot be made is an error on every rank, with the reason.
func TestShareID(t *testing.T) {
	t.Setenv("MILLSTREAM_NCCL_LIBRARY", "/nonexistent/libnccl.so.2")
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	var texts [2]string
	var all sync.WaitGroup
	for r, g := range pair(ctx, t) {
		all.Go(func() {
			_, err := shareID(ctx, g)
			texts[r] = fmt.Sprint(err)
		})
	}
	all.Wait()
	if texts[0] != texts[1] || len(texts[0]) < 40 {
		t.Errorf("%q and %q", texts[0], texts[1])
	}
}

// The parts that move in each collective, of rank 1 of 2.
func TestMoves(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	n := &ncclCarrier{g: pair(ctx, t)[1]}
	at := func(addr uintptr, n int) collective.Memory {
		r := mem.NewRegion(mem.RegionConfig{Addr: addr, Len: n, Kind: mem.Device, Device: 0})
		return collective.Memory{Buffer: r.Buffer()}
	}
	text := func(list []move) string {
		var out string
		for _, m := range list {
			out += fmt.Sprintf("%d:%d+%d ", m.peer, m.b.Addr(), m.b.Len())
		}
		return out
	}
	for _, tc := range []struct {
		name         string
		c            collective.Call
		sends, recvs string
	}{
		{"all-gather-v", collective.Call{Code: collective.AllGatherV, Kind: collective.Int32, Send: at(1000, 8),
			Recv: at(2000, 12), Counts: []int{1, 2}},
			"0:1000+8 1:1000+8 ", "0:2000+4 1:2004+8 "},
		{"all-gather-v in place", collective.Call{Code: collective.AllGatherV, Kind: collective.Int32,
			Send: at(2004, 8), Recv: at(2000, 12), Counts: []int{1, 2}},
			"0:2004+8 ", "0:2000+4 "},
		{"gather", collective.Call{Code: collective.Gather, Kind: collective.Int32, Root: 0, Send: at(1000, 8)},
			"0:1000+8 ", ""},
		{"gather at root", collective.Call{Code: collective.Gather, Kind: collective.Int32, Root: 1, Send: at(1000, 8),
			Recv: at(2000, 16)},
			"1:1000+8 ", "0:2000+8 1:2008+8 "},
		{"gather-v at root", collective.Call{Code: collective.GatherV, Kind: collective.Int32, Root: 1,
			Send: at(1000, 8), Recv: at(2000, 8), Counts: []int{0, 2}},
			"1:1000+8 ", "1:2000+8 "},
		{"scatter", collective.Call{Code: collective.Scatter, Kind: collective.Int32, Root: 0, Recv: at(1000, 8)}, "",
			"0:1000+8 "},
		{"scatter-v at root", collective.Call{Code: collective.ScatterV, Kind: collective.Int32, Root: 1,
			Send: at(2000, 12), Recv: at(1000, 8), Counts: []int{1, 2}},
			"0:2000+4 1:2004+8 ", "1:1000+8 "},
		{"all-to-all", collective.Call{Code: collective.AllToAll, Kind: collective.Int32, Send: at(1000, 16),
			Recv: at(2000, 16)},
			"0:1000+8 1:1008+8 ", "0:2000+8 1:2008+8 "},
		{"all-to-all-v", collective.Call{Code: collective.AllToAllV, Kind: collective.Int32, Send: at(1000, 12),
			Recv: at(2000, 4), Counts: []int{3, 0}, RecvCounts: []int{1, 0}},
			"0:1000+12 ", "0:2000+4 "},
		{"nothing", collective.Call{Code: collective.AllToAllV, Kind: collective.Int32, Counts: []int{0, 0},
			RecvCounts: []int{0, 0}}, "", ""},
	} {
		m := n.moves(&tc.c)
		if s, r := text(m.sends), text(m.recvs); s != tc.sends || r != tc.recvs {
			t.Errorf("%s: %q and %q, want %q and %q", tc.name, s, r, tc.sends, tc.recvs)
		}
		m.release()
		for _, b := range []*mem.Buffer{tc.c.Send.Buffer, tc.c.Recv.Buffer} {
			if b != nil {
				b.Release() // panics if a view was released once too often
			}
		}
	}
}
