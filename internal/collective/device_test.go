package collective

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// fakes gives each rank of a group a fake device.
func fakes(gs []*Group, change func(rank int, g *fakeGPU)) []onFake {
	out := make([]onFake, len(gs))
	for r, g := range gs {
		dev := newFakeGPU(byte(r), 300*time.Microsecond)
		if change != nil {
			change(r, dev)
		}
		g.SetCarrier(newDeviceCarrier(g, -1, func(device int) (gpu, error) {
			if device != 0 {
				return nil, fmt.Errorf("device %d", device)
			}
			return dev, nil
		}))
		out[r] = onFake{g, dev}
	}
	return out
}

// TestDeviceCollectives compares every collective on device memory with a plain sequential result: every pair of how
// the memory is reached, number of ranks, collective, kind, operation, size and root.
func TestDeviceCollectives(t *testing.T) {
	defer func(d, s int) { directMin, stagePiece = d, s }(directMin, stagePiece)
	directMin, stagePiece = 512, 4096 // both ways, in several pieces
	ways := []struct {
		name   string
		b      backend
		change func(rank int, g *fakeGPU)
	}{
		{"processes, shm", backends[3], nil},
		{"processes, ucx", backends[2], nil},
		{"one GPU", backends[3], func(_ int, g *fakeGPU) { g.card[0] = 0 }},
		{"two GPUs", backends[3], func(r int, g *fakeGPU) { g.card[0] = byte(r % 2) }},
		{"one process", backends[3], func(_ int, g *fakeGPU) { g.id[0] = 0 }},
		{"rank 0 cannot export", backends[0], func(r int, g *fakeGPU) { g.exports = r != 0 }},
		{"the last rank cannot open", backends[3], func(r int, g *fakeGPU) { g.opens = r == 0 }},
	}
	sizes := factorSizes()
	sizes[0], sizes[1] = len(ways), 5
	byGroup := map[[2]int][]testCase{}
	for _, p := range pairwise(sizes) {
		byGroup[[2]int{p[0], p[1]}] = append(byGroup[[2]int{p[0], p[1]}], p.testCase())
	}
	for i, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			for n := range sizes[1] {
				cases := byGroup[[2]int{i, n}]
				ctx := testContext(t)
				gs := w.b.groups(ctx, t, n+1)
				ranks := fakes(gs, w.change)
				each(t, n+1, func(r int) error {
					for _, c := range cases {
						if err := c.run(ctx, ranks[r]); err != nil {
							return err
						}
					}
					return nil
				})
				closeAll(gs)
			}
		})
	}
	if n := fakesHeld(); n > 0 {
		t.Errorf("%d allocations or mappings are still held", n)
	}
}

// TestDeviceMappingsAreKept: memory of another rank is opened once, also by duplicates, and closed with the group.
func TestDeviceMappingsAreKept(t *testing.T) {
	ctx := testContext(t)
	const n = 1 << 18
	gs := backends[3].groups(ctx, t, 2)
	ranks := fakes(gs, nil)
	bufs := []*mem.Buffer{fakeAlloc(n), fakeAlloc(n)}
	call := func(g *Group, r int) error {
		m := Memory{Buffer: bufs[r]}
		return g.Do(ctx, Call{Code: AllReduce, Kind: Float32, Op: Sum, Send: m, Recv: m})
	}
	each(t, 2, func(r int) error {
		for range 3 {
			if err := call(gs[r], r); err != nil {
				return err
			}
		}
		dup, err := gs[r].Dup(7)
		if err != nil {
			return err
		}
		defer dup.Close()
		dup.SetCarrier(newDeviceCarrier(dup, 0, func(int) (gpu, error) {
			own := newFakeGPU(byte(r), 0)
			own.opens = false // it is open already
			return own, nil
		}))
		if err := call(dup, r); err != nil {
			return err
		}
		return gs[r].Do(ctx, barrier())
	})
	for r := range ranks {
		if k := ranks[r].gpu.opened.Load(); k != 1 {
			t.Errorf("rank %d opened %d allocations", r, k)
		}
	}
	closeAll(gs)
	for _, b := range bufs {
		b.Release()
	}
	if n := fakesHeld(); n > 0 {
		t.Errorf("%d allocations or mappings are still held", n)
	}
}

// TestDeviceMismatch: what is wrong on one rank is the same error on all, and the group lives on.
func TestDeviceMismatch(t *testing.T) {
	ctx := testContext(t)
	gs := backends[3].groups(ctx, t, 3)
	ranks := fakes(gs, nil)
	buf := make([]byte, 4096)
	wrong := func(r int) error {
		b := buf
		if r == 1 {
			b = buf[:100]
		}
		return ranks[r].Do(ctx, allReduce(b, make([]byte, len(b)), Float32, Sum))
	}
	host := func(r int) error {
		if r == 2 {
			return gs[r].Do(ctx, allReduce(buf, make([]byte, len(buf)), Float32, Sum))
		}
		return ranks[r].Do(ctx, allReduce(buf, make([]byte, len(buf)), Float32, Sum))
	}
	for _, f := range []func(int) error{wrong, host} {
		for r, err := range results(3, f) {
			var m *MismatchError
			if !errors.As(err, &m) {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	}
	each(t, 3, func(r int) error {
		return testCase{code: AllReduce, kind: Int32, op: elem.OpSum, n: 100, ranks: 3}.run(ctx, ranks[r])
	})
}

// TestDeviceMessages sends device memory to devices and hosts, short and long, over transports of all kinds.
func TestDeviceMessages(t *testing.T) {
	for _, b := range []backend{backends[0], backends[3]} {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 2)
			ranks := fakes(gs, nil)
			for _, n := range []int{0, 1, 100, eagerMax + 1, 100_000} {
				data := make([]byte, n)
				for i := range data {
					data[i] = byte(i*7 + n)
				}
				each(t, 2, func(r int) error {
					if r == 0 {
						d := ranks[0].load(data)
						defer d.Release()
						if err := gs[0].Do(ctx, sending(1, 5, Memory{Buffer: d})); err != nil {
							return err
						}
						return gs[0].Do(ctx, sending(1, 6, Memory{Buffer: d}))
					}
					d := ranks[1].load(make([]byte, n+3))
					defer d.Release()
					got, err := received(ctx, gs[1], 0, 5, Memory{Buffer: d})
					if err != nil || got != n {
						return fmt.Errorf("%d bytes: %w", got, err)
					}
					if err := d.WaitReady(ctx); err != nil {
						return err
					}
					if string(bytesAt(d)[:n]) != string(data) {
						return fmt.Errorf("message of %d bytes differs", n)
					}
					host := make([]byte, n)
					if _, err := received(ctx, gs[1], 0, 6, Memory{Bytes: host}); err != nil ||
						string(host) != string(data) {
						return fmt.Errorf("on the host: %v", err)
					}
					return nil
				})
			}
		})
	}
}

// TestDeviceDeath: a rank that gives up in the middle is named on the others, and memory is let go in the end.
func TestDeviceDeath(t *testing.T) {
	ctx := testContext(t)
	gs := backends[3].groups(ctx, t, 3)
	ranks := fakes(gs, nil)
	buf := make([]byte, 1<<18)
	errs := results(3, func(r int) error {
		if r == 1 {
			if err := ranks[r].Do(ctx, allReduce(buf, make([]byte, len(buf)), Float32, Sum)); err != nil {
				return err
			}
			gs[r].Abort(errors.New("had enough"))
			return nil
		}
		for {
			if err := ranks[r].Do(ctx, allReduce(buf, make([]byte, len(buf)), Float32, Sum)); err != nil {
				return err
			}
		}
	})
	for r, err := range errs {
		var e *RankError
		if r != 1 && (!errors.As(err, &e) || e.Rank != 1) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	closeAll(gs)
	waitFor(t, func() bool { return fakesHeld() == 0 })
}

// waitFor waits until something holds.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("waited in vain")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func FuzzDeviceWords(f *testing.F) {
	var w deviceInfo
	f.Add(w.append(nil))
	f.Add([]byte{infoVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		var w deviceInfo
		if w.parse(b) == nil {
			var again deviceInfo
			if err := again.parse(w.append(nil)); err != nil || again != w {
				t.Errorf("%v: %+v, want %+v", err, again, w)
			}
		}
	})
}
