package collective

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// reduceOn calls AllReduce on a buffer in place.
func reduceOn(ctx context.Context, g *Group, b *mem.Buffer) error {
	m := Memory{Buffer: b}
	return g.Do(ctx, Call{Code: AllReduce, Kind: Float32, Op: Sum, Send: m, Recv: m})
}

// TestSmallDeviceDataTwice: little data goes through the host the first time that its allocation is seen, and directly
// from then on; much goes directly at once.
func TestSmallDeviceDataTwice(t *testing.T) {
	for _, c := range []struct {
		n    int
		want []int64 // mappings of each rank after each call
	}{{2048, []int64{0, 1, 1, 1}}, {directMin, []int64{1, 1, 1, 1}}} {
		ctx := testContext(t)
		gs := backends[3].groups(ctx, t, 2)
		ranks := fakes(gs, nil)
		bufs := []*mem.Buffer{fakeAlloc(c.n), fakeAlloc(c.n)}
		for i, want := range c.want {
			each(t, 2, func(r int) error { return reduceOn(ctx, gs[r], bufs[r]) })
			for r := range ranks {
				if got := ranks[r].gpu.opened.Load(); got != want {
					t.Errorf("%d bytes, call %d: rank %d has opened %d allocations, want %d", c.n, i, r, got, want)
				}
			}
		}
		closeAll(gs)
		for _, b := range bufs {
			b.Release()
		}
	}
	if n := fakesHeld(); n > 0 {
		t.Errorf("%d allocations or mappings are still held", n)
	}
}

// TestOpeningFailsInARow: memory that cannot be opened is tried again, with the reason kept, until it has failed three
// times in a row; one success begins the count again.
func TestOpeningFailsInARow(t *testing.T) {
	ctx := testContext(t)
	gs := backends[3].groups(ctx, t, 2)
	ranks := fakes(gs, nil)
	tried := 0
	call := func(opens bool) {
		t.Helper()
		ranks[1].gpu.opens = opens
		bufs := []*mem.Buffer{fakeAlloc(directMin), fakeAlloc(directMin)} // new allocations are opened again
		each(t, 2, func(r int) error { return reduceOn(ctx, gs[r], bufs[r]) })
		for _, b := range bufs {
			if err := b.WaitReady(ctx); err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
		tried++
		for r, g := range gs {
			k := g.Carrier().(*deviceCarrier)
			why := k.Staged()
			want := []string{"another rank cannot open the memory of this rank",
				"open memory of rank 0: not this host's memory"}[r]
			if opens && why != nil || !opens && (why == nil || why.Error() != want) {
				t.Errorf("call %d: rank %d went through the host because of %v", tried, r, why)
			}
		}
	}
	for _, opens := range []bool{false, false, true, false, false, true, false, false} {
		call(opens)
		for r, g := range gs {
			if g.Carrier().(*deviceCarrier).indirect {
				t.Fatalf("rank %d has given up after %d calls, which did not fail %d times in a row", r, tried,
					maxFailures)
			}
		}
	}
	call(false)
	opened := ranks[0].gpu.opened.Load()
	for r, g := range gs {
		if !g.Carrier().(*deviceCarrier).indirect {
			t.Errorf("rank %d still tries after %d failures in a row", r, maxFailures)
		}
	}
	ranks[1].gpu.opens = true
	bufs := []*mem.Buffer{fakeAlloc(directMin), fakeAlloc(directMin)}
	each(t, 2, func(r int) error { return reduceOn(ctx, gs[r], bufs[r]) })
	if got := ranks[0].gpu.opened.Load(); got != opened {
		t.Errorf("%d more allocations were opened after it was given up", got-opened)
	}
	for _, b := range bufs {
		b.Release()
	}
}

// TestOneRankOnDevice: a group of one rank copies, or scales, on its device; in place there is nothing to do.
func TestOneRankOnDevice(t *testing.T) {
	ctx := testContext(t)
	g := backends[0].groups(ctx, t, 1)[0]
	rank := fakes([]*Group{g}, nil)[0]
	for _, code := range testCodes {
		for _, op := range testOps {
			for _, n := range []int{0, 1, 5000} {
				c := testCase{code: code, kind: Float32, op: op, n: n, ranks: 1}
				if err := c.run(ctx, rank); err != nil {
					t.Error(err)
				}
			}
		}
	}
	b := rank.load(elem.View([]float32{1, 2, 3}))
	defer b.Release()
	m := Memory{Buffer: b}
	if err := g.Do(ctx, Call{Code: AllReduce, Kind: Float32, Op: elem.PreMulSum(float32(3)), Send: m,
		Recv: m}); err != nil {
		t.Fatal(err)
	}
	if err := g.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if got := elem.Slice[float32](bytesAt(b)); got[0] != 3 || got[1] != 6 || got[2] != 9 {
		t.Errorf("%v in place, want 3 6 9", got)
	}
}

// TestStagesAreFreeAgain: while the copy out of a stage is late, the next piece does not overwrite it: pieces of two
// stages, in several calls, on devices that take their time.
func TestStagesAreFreeAgain(t *testing.T) {
	defer func(n int) { stagePiece = n }(stagePiece)
	stagePiece = 1024
	ctx := testContext(t)
	gs := backends[0].groups(ctx, t, 2)
	ranks := fakes(gs, func(_ int, g *fakeGPU) { g.exports, g.delay = false, 3*time.Millisecond })
	each(t, 2, func(r int) error {
		for round := range 3 {
			c := testCase{code: Broadcast, kind: Int32, n: 4096 + round, root: round % 2, ranks: 2}
			if err := c.run(ctx, ranks[r]); err != nil {
				return err
			}
			c.code, c.op = AllReduce, elem.OpSum
			if err := c.run(ctx, ranks[r]); err != nil {
				return err
			}
		}
		return nil
	})
	// A late copy of its own, and the stage as the next piece finds it.
	dev := newFakeGPU(9, 0)
	defer dev.close()
	late := &askedEvent{}
	s := stage{busy: late}
	if err := s.resize(ctx, dev, 64); err != nil || s.buf.Len() < 64 || late.asked != 2 || s.busy != nil {
		t.Errorf("got %v after %d queries of the event, want 2", err, late.asked)
	}
	was := s.buf
	if err := s.resize(ctx, dev, 10); err != nil || s.buf != was {
		t.Errorf("less room needs other memory: %v", err)
	}
	if err := s.resize(ctx, dev, 1<<20); err != nil || s.buf == was || s.buf.Len() < 1<<20 {
		t.Errorf("more room: %v", err)
	}
	s.free()
	s.free()
}

// askedEvent is done at the second query.
type askedEvent struct{ asked int }

func (e *askedEvent) Handle() uintptr                { return 1 }
func (e *askedEvent) Query() (bool, error)           { e.asked++; return e.asked > 1, nil }
func (e *askedEvent) Wait(ctx context.Context) error { e.asked = 2; return nil }

// TestOldestMappingGoes: when too many allocations are open the one that was not used for longest is closed, and the
// one in use stays.
func TestOldestMappingGoes(t *testing.T) {
	var m mappings
	freed := map[uint64]bool{}
	get := func(i uint64) {
		t.Helper()
		b, err := m.get(mapKey{0, 0, i}, &bufferRef{base: i << 20, size: 1}, func() (*mem.Buffer, error) {
			return mem.NewRegion(mem.RegionConfig{Addr: 4096, Len: 8, Kind: mem.Device,
				Free: func() { freed[i] = true }}).Buffer(), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	for i := range uint64(maxMappings) {
		get(i + 1)
	}
	get(1) // used again
	get(maxMappings + 1)
	get(maxMappings + 2)
	if len(freed) != 2 || !freed[2] || !freed[3] {
		t.Errorf("closed %v, want those that were not used for longest: 2 and 3", freed)
	}
	m.closeRank(0)
	if len(freed) != maxMappings+2 || len(m.m) != 0 {
		t.Errorf("%d of %d are closed", len(freed), maxMappings+2)
	}
	m.close()
}

// TestCarrierEnds: a carrier without a device has nothing to flush or close; a closed one refuses; what a device cannot
// do is the call's error; a buffer of another device is named.
func TestCarrierEnds(t *testing.T) {
	ctx := testContext(t)
	g := backends[0].groups(ctx, t, 1)[0]
	if err := g.Flush(ctx); err != nil {
		t.Errorf("Flush without a carrier: %v", err)
	}
	broken := errors.New("no such device")
	k := newDeviceCarrier(g, -1, func(int) (gpu, error) { return nil, broken })
	g.SetCarrier(k)
	if g.Carrier() != Carrier(k) || k.Name() != "ucx" {
		t.Errorf("carrier %v named %q", g.Carrier(), k.Name())
	}
	if err := g.Flush(ctx); err != nil {
		t.Errorf("Flush before the first use: %v", err)
	}
	on := func(device int) *mem.Buffer {
		return mem.NewRegion(mem.RegionConfig{Addr: 1 << 20, Len: 8, Kind: mem.Device, Device: device}).Buffer()
	}
	b := Memory{Buffer: on(3)}
	for _, c := range []Call{sending(0, 1, b), {Code: Broadcast, Kind: Uint8, Send: b, Recv: b}} {
		if err := g.Do(ctx, c); !errors.Is(err, broken) || !strings.Contains(err.Error(), "device 3") {
			t.Errorf("%v: %v, want that device 3 cannot be opened", c.Code, err)
		}
	}
	if bad := k.Check(&Call{Send: b, Recv: Memory{Buffer: on(4)}}); bad !=
		"buffer on device 4, but collectives of this rank run on device 3" {
		t.Errorf("two devices: %q", bad)
	}
	if err := errors.Join(k.Close(), k.Close()); err != nil {
		t.Error(err)
	}
	if err := k.Run(ctx, &Call{Code: Broadcast, Send: b, Recv: b}); !errors.Is(err, ErrClosed) {
		t.Errorf("Run after Close: %v, want %v", err, ErrClosed)
	}
}

// TestDeviceFindsMemory checks that exported memory of another rank is found in this process, or opened; if it differs
// from the exported reference, that is an error, and nothing stays open.
func TestDeviceFindsMemory(t *testing.T) {
	ctx := testContext(t)
	gs := backends[0].groups(ctx, t, 2)
	dev := newFakeGPU(1, 0)
	defer dev.close()
	k := newDeviceCarrier(gs[0], 0, func(int) (gpu, error) { return dev, nil })
	theirs := fakeAlloc(64)
	defer theirs.Release()
	shown, err := dev.export(theirs)
	if err != nil {
		t.Fatal(err)
	}
	const token = 1 << 50
	processBuffers.Store(uint64(token), [2]*mem.Buffer{theirs, nil})
	defer processBuffers.Delete(uint64(token))
	for _, c := range []struct {
		name   string
		change func(w *deviceInfo)
		at, n  int
		want   string
	}{
		{"opened", func(*deviceInfo) {}, 8, 56, ""},
		{"in this process", func(w *deviceInfo) { w.process, w.token = dev.id, token }, 8, 56, ""},
		{"not exported", func(w *deviceInfo) { w.send = bufferRef{} }, 0, 8, "memory of rank 1: not exported"},
		{"call has ended", func(w *deviceInfo) { w.process, w.token = dev.id, token+1 }, 0, 8, "the call has ended"},
		{"another length", func(w *deviceInfo) { w.process, w.token, w.send.length = dev.id, token, 8 }, 0, 8,
			"not the exported buffer"},
		{"beyond the allocation", func(w *deviceInfo) { w.send.offset = 60 }, 0, 8,
			"64 bytes at offset 60 exceed the allocation of"},
		{"beyond the buffer", func(*deviceInfo) {}, 8, 57, "rank 1 exported 64 bytes, but its call needs 65"},
		{"no such allocation", func(w *deviceInfo) { w.send.id, w.send.handle = 1<<40, [handleBytes]byte{1: 255} },
			0, 8, "no such allocation"},
	} {
		infos := make([]deviceInfo, 2)
		infos[1].process[0], infos[1].send = 2, shown
		c.change(&infos[1])
		r := resolver{k: k, dev: dev, c: &Call{}, infos: infos}
		b, err := r.view(place{rank: 1, at: c.at, n: c.n})
		switch {
		case c.want == "" && (err != nil || b.Len() != c.n || b.Addr() != theirs.Addr()+uintptr(c.at)):
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if b != nil {
			b.Release()
		}
		r.release()
	}
}

// TestDeviceMessageErrors: a device that cannot copy, or has no pinned memory, fails the message and not the process.
func TestDeviceMessageErrors(t *testing.T) {
	for _, n := range []int{100, 2 * eagerMax} {
		for _, what := range []string{"pinned", "copy"} {
			t.Run(fmt.Sprintf("%s %d", what, n), func(t *testing.T) {
				ctx := testContext(t)
				gs := backends[0].groups(ctx, t, 2)
				dev := &brokenGPU{fakeGPU: newFakeGPU(0, 0), what: what}
				gs[0].SetCarrier(newDeviceCarrier(gs[0], 0, func(int) (gpu, error) { return dev, nil }))
				b := onFake{gs[0], dev.fakeGPU}.load(bytes.Repeat([]byte{1}, n))
				defer b.Release()
				other := gs[1].Start(ctx, receiving(0, 1, Memory{Bytes: make([]byte, n)}))
				if err := gs[0].Do(ctx, sending(1, 1, Memory{Buffer: b})); err == nil ||
					!strings.Contains(err.Error(), "broken "+what) {
					t.Errorf("Send: %v, want that %s is broken", err, what)
				}
				gs[0].Abort(errors.New("done"))
				if err := other.Wait(ctx); err == nil {
					t.Error("the other rank has received a message")
				}
			})
		}
	}
}

// brokenGPU has one thing that fails.
type brokenGPU struct {
	*fakeGPU
	what string
}

func (g *brokenGPU) pinned(ctx context.Context, n int) (*mem.Buffer, error) {
	if g.what == "pinned" {
		return nil, errors.New("broken pinned")
	}
	return g.fakeGPU.pinned(ctx, n)
}

func (g *brokenGPU) copy(dst, src *mem.Buffer) (mem.Event, error) {
	if g.what == "copy" {
		return nil, errors.New("broken copy")
	}
	return g.fakeGPU.copy(dst, src)
}
