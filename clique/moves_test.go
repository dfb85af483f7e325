package clique

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"go.millstream.dev/internal/collective"
	"go.millstream.dev/mem"
)

// movedRank is a rank of a simulated exchange: the addresses of its buffers are places in its memory.
type movedRank struct {
	send, recv []byte
	call       collective.Call
}

// at is the memory behind a view of the rank.
func (r *movedRank) at(b *mem.Buffer) []byte {
	for _, side := range []struct {
		m    []byte
		base *mem.Buffer
	}{{r.send, r.call.Send.Buffer}, {r.recv, r.call.Recv.Buffer}} {
		if side.base != nil && b.Addr() >= side.base.Addr() && b.Addr()+uintptr(b.Len()) <= side.base.Addr()+
			uintptr(side.base.Len()) {
			o := int(b.Addr() - side.base.Addr())
			return side.m[o : o+b.Len()]
		}
	}
	panic("a view of no buffer")
}

// TestMovesMeet: in every collective that only moves memory, each message that a rank sends is received by the other,
// in the same length and order, and what arrives is the result: for every number of ranks, counts with zeros, any root.
func TestMovesMeet(t *testing.T) {
	const es = 4
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(t, "ranks")
		code := rapid.SampledFrom([]collective.Code{collective.AllGatherV, collective.Gather, collective.GatherV,
			collective.Scatter, collective.ScatterV, collective.AllToAll, collective.AllToAllV}).Draw(t, "code")
		root := rapid.IntRange(0, size-1).Draw(t, "root")
		n := rapid.IntRange(0, 3).Draw(t, "elements")
		matrix := make([][]int, size) // matrix[a][b] elements go from a to b
		for r := range matrix {
			matrix[r] = rapid.SliceOfN(rapid.IntRange(0, 3), size, size).Draw(t, "counts")
		}
		// part is what rank a has for rank b.
		part := func(a, b, n int) []byte {
			return bytes.Repeat([]byte{byte(1 + a), byte(1 + b), byte(n), 9}, n)
		}
		sum := func(list []int) (total int) {
			for _, x := range list {
				total += x
			}
			return total
		}
		column := func(b int) (list []int) {
			for a := range size {
				list = append(list, matrix[a][b])
			}
			return list
		}
		ranks, wants := make([]*movedRank, size), make([][]byte, size)
		buffer := func(addr uintptr, b []byte) *mem.Buffer {
			if b == nil {
				return nil
			}
			return mem.NewRegion(mem.RegionConfig{Addr: addr, Len: len(b), Kind: mem.Device}).Buffer()
		}
		for me := range size {
			r := &movedRank{call: collective.Call{Code: code, Kind: collective.Int32, Root: root}}
			var want []byte
			isRoot := me == root
			switch code {
			case collective.AllGatherV:
				r.call.Counts = matrix[0]
				r.send, r.recv = part(me, 0, matrix[0][me]), make([]byte, sum(matrix[0])*es)
				for a := range size {
					want = append(want, part(a, 0, matrix[0][a])...)
				}
			case collective.Gather, collective.GatherV:
				counts := matrix[0]
				if code == collective.Gather {
					counts = make([]int, size)
					for i := range counts {
						counts[i] = n
					}
				} else if isRoot {
					r.call.Counts = counts
				}
				r.send = part(me, 0, counts[me])
				if isRoot {
					r.recv = make([]byte, sum(counts)*es)
					for a := range size {
						want = append(want, part(a, 0, counts[a])...)
					}
				}
			case collective.Scatter, collective.ScatterV:
				counts := matrix[0]
				if code == collective.Scatter {
					counts = make([]int, size)
					for i := range counts {
						counts[i] = n
					}
				} else if isRoot {
					r.call.Counts = counts
				}
				if isRoot {
					r.send = []byte{}
					for b := range size {
						r.send = append(r.send, part(root, b, counts[b])...)
					}
				}
				r.recv, want = make([]byte, counts[me]*es), part(root, me, counts[me])
			case collective.AllToAll:
				r.send = []byte{}
				for b := range size {
					r.send = append(r.send, part(me, b, n)...)
					want = append(want, part(b, me, n)...)
				}
				r.recv = make([]byte, size*n*es)
			case collective.AllToAllV:
				r.call.Counts, r.call.RecvCounts = matrix[me], column(me)
				r.send = []byte{}
				for b := range size {
					r.send = append(r.send, part(me, b, matrix[me][b])...)
					want = append(want, part(b, me, matrix[b][me])...)
				}
				r.recv = make([]byte, sum(column(me))*es)
			}
			r.call.Send.Buffer, r.call.Recv.Buffer = buffer(1<<20, r.send), buffer(1<<30, r.recv)
			ranks[me], wants[me] = r, want
		}
		all := make([]*moves, size)
		for me, r := range ranks {
			all[me] = movesOf(&r.call, me, size)
		}
		// Messages of a pair meet in their order.
		for from := range size {
			for to := range size {
				var out, in []move
				for _, m := range all[from].sends {
					if m.peer == to {
						out = append(out, m)
					}
				}
				for _, m := range all[to].recvs {
					if m.peer == from {
						in = append(in, m)
					}
				}
				if len(out) != len(in) {
					t.Fatalf("%v: rank %d sends %d messages to rank %d, which receives %d", code, from, len(out), to,
						len(in))
				}
				for i := range out {
					if out[i].b.Len() != in[i].b.Len() {
						t.Fatalf("%v: rank %d sends %d bytes to rank %d, which receives %d", code, from, out[i].b.Len(),
							to,
							in[i].b.Len())
					}
					copy(ranks[to].at(in[i].b), ranks[from].at(out[i].b))
				}
			}
		}
		for me, r := range ranks {
			if !bytes.Equal(r.recv, wants[me]) {
				t.Fatalf("%v: rank %d has %v, want %v", code, me, r.recv, wants[me])
			}
			all[me].release()
			for _, b := range []*mem.Buffer{r.call.Send.Buffer, r.call.Recv.Buffer} {
				if b != nil {
					b.Release() // panics if a view was released once too often
				}
			}
		}
	})
}

// TestCheckNCCL: what NCCL has no type for, and memory of another GPU, are named before anything is done.
func TestCheckNCCL(t *testing.T) {
	n := &ncclCarrier{p: &ncclPool{device: 1}}
	on := func(device int) collective.Memory {
		return collective.Memory{Buffer: mem.NewRegion(mem.RegionConfig{Addr: 1 << 20, Len: 8, Kind: mem.Device,
			Device: device}).Buffer()}
	}
	for _, code := range []collective.Code{collective.AllReduce, collective.Reduce, collective.ReduceScatter,
		collective.Broadcast, collective.AllToAll} {
		reduces := code != collective.Broadcast && code != collective.AllToAll
		for _, k := range []Kind{KindOf[int16](), KindOf[uint16](), KindOf[float32](), KindOf[BF16]()} {
			missing := k == collective.Int16 || k == collective.Uint16
			bad := n.Check(&collective.Call{Code: code, Kind: k, Send: on(1), Recv: on(1)})
			want := ""
			if missing && reduces {
				want = fmt.Sprintf("NCCL cannot reduce elements of %v; use another type, or a clique with "+
					"Backend ucx", k)
			}
			if bad != want {
				t.Errorf("%v of %v: %q, want %q", code, k, bad, want)
			}
		}
		for i, c := range []collective.Call{{Code: code, Kind: KindOf[int8](), Send: on(0), Recv: on(1)},
			{Code: code, Kind: KindOf[int8](), Send: on(1), Recv: on(0)}} {
			if bad := n.Check(&c); bad != "buffer on device 0, but the GPU of the rank is device 1" {
				t.Errorf("%v, side %d on another device: %q", code, i, bad)
			}
		}
		if bad := n.Check(&collective.Call{Code: code, Kind: KindOf[int8]()}); bad != "" {
			t.Errorf("%v without memory: %q", code, bad)
		}
	}
	if n.Name() != "nccl" {
		t.Errorf("it is called %q", n.Name())
	}
}
