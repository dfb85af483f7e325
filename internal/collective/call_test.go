package collective

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// TestDescribe: what is wrong with the arguments of a call is found before anything is sent, on every rank of one to
// five.
func TestDescribe(t *testing.T) {
	buf := func(n int) Memory { return Memory{Bytes: make([]byte, n)} }
	for size := 1; size <= 5; size++ {
		for rank := range size {
			counts := make([]int, size)
			total := 0
			for r := range counts {
				counts[r] = r + 1
				total += 4 * (r + 1)
			}
			mine := 4 * counts[rank]
			root := size - 1
			isRoot := rank == root
			// Each is right as it is; wrong has the same call with one thing changed.
			right := map[Code]Call{
				AllReduce:     {Send: buf(8), Recv: buf(8), Op: Sum},
				Reduce:        {Send: buf(8), Recv: buf(8), Op: Max, Root: root},
				Broadcast:     {Send: buf(8), Recv: buf(8), Root: root},
				AllGather:     {Send: buf(8), Recv: buf(8 * size)},
				AllGatherV:    {Send: buf(mine), Recv: buf(total), Counts: counts},
				Gather:        {Send: buf(8), Recv: buf(8 * size), Root: root},
				GatherV:       {Send: buf(mine), Recv: buf(total), Counts: counts, Root: root},
				Scatter:       {Send: buf(8 * size), Recv: buf(8), Root: root},
				ScatterV:      {Send: buf(total), Recv: buf(mine), Counts: counts, Root: root},
				ReduceScatter: {Send: buf(8 * size), Recv: buf(8), Op: Sum},
				AllToAll:      {Send: buf(8 * size), Recv: buf(8 * size)},
				AllToAllV:     {Send: buf(total), Recv: buf(total), Counts: counts, RecvCounts: counts},
				Barrier:       {},
			}
			for code, c := range right {
				c.Code, c.Kind = code, Int32
				describe := func(change func(c *Call)) string {
					d := c
					change(&d)
					_, bad := d.describe(rank, size)
					return bad
				}
				name := fmt.Sprintf("%v on rank %d of %d", code, rank, size)
				if bad := describe(func(*Call) {}); bad != "" {
					t.Errorf("%s: %s", name, bad)
				}
				want := func(what, text string, applies bool, change func(c *Call)) {
					t.Helper()
					bad := describe(change)
					if applies != strings.Contains(bad, text) || !applies && bad != "" {
						t.Errorf("%s, %s: %q, want %q: %t", name, what, bad, text, applies)
					}
				}
				want("invalid", "no luck", true, func(c *Call) { c.Invalid = "no luck" })
				want("kind", "unknown element type 77", true, func(c *Call) { c.Kind = 77 })
				want("operation", "unknown operation 0", c.reduces(), func(c *Call) { c.Op = Op{} })
				want("scale", "the scale of PreMulSum is int8, the elements are int32", c.reduces(), func(c *Call) {
					c.Op = elem.PreMulSum(int8(1))
				})
				for _, wrong := range []int{-1, size} {
					want("root", fmt.Sprintf("root %d is not a rank of", wrong), c.rooted(),
						func(c *Call) { c.Root = wrong })
				}
				// Who looks at recv, and at send, of another length.
				looksRecv := map[Code]bool{AllReduce: true, Reduce: isRoot, AllGather: true, AllGatherV: true,
					Gather:  isRoot,
					GatherV: isRoot, AllToAll: true, AllToAllV: true, ReduceScatter: true, Scatter: isRoot}[code]
				want("longer recv", "bytes, want", looksRecv, func(c *Call) { c.Recv = buf(len(c.Recv.Bytes) + 4) })
				counted := code == AllGatherV || code == AllToAllV || (code == GatherV || code == ScatterV) && isRoot
				want("too few counts", "want one for each of", counted, func(c *Call) { c.Counts = counts[:size-1] })
				want("negative count", "[0] is -1", counted, func(c *Call) {
					c.Counts = append([]int{-1},
						counts[1:]...)
				})
				want("too large a count", "ounts[0] is", counted, func(c *Call) {
					c.Counts = append([]int{maxCount}, counts[1:]...)
				})
			}
		}
	}
}

// TestOverlap: a rank's part may be in its place in the whole, and nowhere else.
func TestOverlap(t *testing.T) {
	const size, n = 3, 8
	all := make([]byte, 2*size*n)
	for rank := range size {
		for _, tc := range []struct {
			code   Code
			in     func(at int) (send, recv []byte) // one of them at a place of the other
			places []int
			rooted bool
		}{
			{AllReduce, func(at int) ([]byte, []byte) { return all[at : at+n], all[:n] }, []int{0}, false},
			{Reduce, func(at int) ([]byte, []byte) { return all[at : at+n], all[:n] }, []int{0}, true},
			{AllGather, func(at int) ([]byte, []byte) { return all[at : at+n], all[:size*n] }, []int{rank * n}, false},
			{Gather, func(at int) ([]byte, []byte) { return all[at : at+n], all[:size*n] }, []int{rank * n}, true},
			{Scatter, func(at int) ([]byte, []byte) { return all[:size*n], all[at : at+n] }, []int{rank * n}, true},
			{ReduceScatter, func(at int) ([]byte, []byte) { return all[:size*n], all[at : at+n] }, []int{rank * n},
				false},
			{AllToAll, func(at int) ([]byte, []byte) { return all[:size*n], all[at : at+size*n] }, nil, false},
		} {
			for at := 0; at <= size*n; at += 4 {
				send, recv := tc.in(at)
				c := Call{Code: tc.code, Kind: Int32, Op: Sum, Send: Memory{Bytes: send}, Recv: Memory{Bytes: recv}}
				apart := at >= size*n || tc.code != AllToAll && len(send) == n && len(recv) == n && at >= n
				ok := apart || tc.rooted && rank != 0
				for _, p := range tc.places {
					ok = ok || p == at
				}
				_, bad := c.describe(rank, size)
				if (bad == "") != ok {
					t.Errorf("%v on rank %d at %d: %q, want it to be right: %t", tc.code, rank, at, bad, ok)
				}
			}
		}
	}
}

// TestMixedMemory: host and device memory in one call are refused, whichever form the host's has.
func TestMixedMemory(t *testing.T) {
	dev := Memory{Buffer: onDevice(1<<20, 8)}
	slice, host := Memory{Bytes: make([]byte, 8)}, Memory{Buffer: mem.FromBytes(make([]byte, 8))}
	for _, tc := range []struct {
		send, recv Memory
		bad        bool
	}{{dev, dev, false}, {slice, host, false}, {host, slice, false}, {dev, Memory{}, false}, {Memory{}, dev, false},
		{dev, slice, true}, {slice, dev, true}, {dev, host, true}, {host, dev, true}} {
		c := Call{Send: tc.send, Recv: tc.recv}
		if bad := c.checkMixed(); (bad != "") != tc.bad {
			t.Errorf("%+v: %q, want it to be wrong: %t", c, bad, tc.bad)
		}
	}
}

// TestCodes: every operation has a name of its own.
func TestCodes(t *testing.T) {
	seen := map[string]Code{}
	for c := Barrier; c <= SendRecv; c++ {
		if other, ok := seen[c.String()]; ok || c.String() == "" {
			t.Errorf("%d and %d are both %q", c, other, c)
		}
		seen[c.String()] = c
	}
	for _, c := range []Code{0, SendRecv + 1, 99} {
		if want := fmt.Sprintf("collective(%d)", uint8(c)); c.String() != want {
			t.Errorf("%d is %q, want %q", uint8(c), c, want)
		}
	}
}

// agreed has the words of all ranks for calls, as an exchange would bring them.
func agreed(t *testing.T, size int, call func(rank int) Call) error {
	t.Helper()
	parts := make([]part, size)
	for r := range parts {
		c := call(r)
		g := &Group{rank: r, ranks: make([]int, size)}
		if err := g.place(&c); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1<<16)
		n := g.announce(b, &c, 1<<15)
		if used, err := parsePart(b[:n], &parts[r]); err != nil || used != n {
			t.Fatalf("rank %d: %d bytes of %d: %v", r, used, n, err)
		}
	}
	if err := validate(parts); err != nil {
		t.Fatal(err)
	}
	return agree(parts)
}

// TestAgree: each argument that differs on one rank, the first, a middle and the last, is named with both values.
func TestAgree(t *testing.T) {
	buf := func(n int) Memory { return Memory{Bytes: make([]byte, n)} }
	base := Call{Code: AllReduce, Kind: Int32, Op: Sum, Send: buf(8), Recv: buf(8)}
	counts := func(a, b, c int) []int { return []int{a, b, c} }
	for _, tc := range []struct {
		name   string
		call   func(odd bool, rank int) Call
		reason []string
	}{
		{"the same", func(bool, int) Call { return base }, nil},
		{"code", func(odd bool, _ int) Call {
			c := base
			if odd {
				c.Code, c.Op = Broadcast, Op{}
			}
			return c
		}, []string{"AllReduce", "Broadcast", "same order"}},
		{"kind", func(odd bool, _ int) Call {
			c := base
			if odd {
				c.Kind = Float32
			}
			return c
		}, []string{"elements of", "int32", "float32"}},
		{"operation", func(odd bool, _ int) Call {
			c := base
			if odd {
				c.Op = Min
			}
			return c
		}, []string{"operation", "sum", "min"}},
		{"length", func(odd bool, _ int) Call {
			c := base
			if odd {
				c.Send, c.Recv = buf(16), buf(16)
			}
			return c
		}, []string{"elements, rank", "same number"}},
		{"root", func(odd bool, _ int) Call {
			c := Call{Code: Broadcast, Kind: Uint8, Send: buf(4), Recv: buf(4), Root: 1}
			if odd {
				c.Root = 2
			}
			return c
		}, []string{"root", "1", "2"}},
		{"counts", func(odd bool, rank int) Call {
			list := counts(1, 2, 3)
			if odd {
				list = counts(1, 2, 3)
				list[(rank+1)%3]++
			}
			total := list[0] + list[1] + list[2]
			return Call{Code: AllGatherV, Kind: Uint8, Send: buf(list[rank]), Recv: buf(total), Counts: list}
		}, []string{"counts["}},
		{"root's counts", func(odd bool, rank int) Call {
			list := counts(1, 2, 3)
			n := list[rank]
			if odd && rank != 0 {
				n++
			} else if odd {
				list, n = counts(1, 3, 2), 1
			}
			return Call{Code: ScatterV, Kind: Uint8, Send: buf(6), Recv: buf(n), Counts: list}
		}, []string{"has counts["}},
		{"matrix", func(odd bool, rank int) Call {
			c := Call{Code: AllToAllV, Kind: Uint8, Send: buf(6), Recv: buf(6), Counts: counts(2, 2, 2),
				RecvCounts: counts(2, 2, 2)}
			if odd {
				c.Counts = counts(3, 2, 1)
			}
			return c
		}, []string{"sends", "which expects 2"}},
		{"bad call", func(odd bool, _ int) Call {
			c := base
			if odd {
				c.Recv = buf(4)
			}
			return c
		}, []string{"recv has 4 bytes, want 8"}},
	} {
		for odd := range 3 {
			err := agreed(t, 3, func(r int) Call { return tc.call(r == odd, r) })
			var m *MismatchError
			if tc.reason == nil {
				if err != nil {
					t.Errorf("%s: %v", tc.name, err)
				}
				continue
			}
			if !errors.As(err, &m) {
				t.Errorf("%s on rank %d: %v, want a mismatch", tc.name, odd, err)
				continue
			}
			for _, text := range tc.reason {
				if !strings.Contains(m.Reason, text) {
					t.Errorf("%s on rank %d: %q says nothing of %q", tc.name, odd, m.Reason, text)
				}
			}
		}
	}
}
