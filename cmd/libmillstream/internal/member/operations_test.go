package member

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/mem"
)

// TestOperations runs every operation of three members on int32, and on all kinds where that makes a difference.
func TestOperations(t *testing.T) {
	leak.Check(t)
	kind := clique.KindOf[int32]()
	members := formed(t, 3)
	each(t, members, func(me int, m *Member) error {
		const n = 3
		in := []int32{int32(me), 10, int32(-me)}
		do := func(what string, o Operation, got, want []int32) error {
			o.Kind = kind
			if _, err := m.Do(o); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("%s: got %v, want %v", what, got, want)
			}
			return nil
		}
		out, all := make([]int32, 3), make([]int32, 3*n)
		flat := []int32{0, 10, 0, 1, 10, -1, 2, 10, -2}
		onRoot := func(list []int32) []int32 {
			if me == 1 {
				return list
			}
			return nil
		}
		part := make([]int32, 3)
		wide := []int32{1, 2, 3}
		rooted := onRoot(make([]int32, 3))
		gathered := onRoot(make([]int32, 9))
		sent := []int32{int32(me)}
		return errors.Join(
			do("barrier", Operation{Code: Barrier}, nil, nil),
			do("allreduce", Operation{Code: AllReduce, Op: 1, Count: 3, Send: at(in), Recv: at(out)}, out,
				[]int32{3, 30, -3}),
			do("reduce", Operation{Code: Reduce, Op: 4, Count: 3, Peer: 1, Send: at(in), Recv: at(rooted)}, rooted,
				onRoot([]int32{2, 10, 0})),
			do("allgather", Operation{Code: AllGather, Count: 3, Send: at(in), Recv: at(all)}, all, flat),
			do("gather", Operation{Code: Gather, Count: 3, Peer: 1, Send: at(in), Recv: at(gathered)}, gathered,
				onRoot(flat)),
			do("scatter", Operation{Code: Scatter, Count: 3, Peer: 1, Send: at(gathered), Recv: at(part)}, part, in),
			do("reducescatter", Operation{Code: ReduceScatter, Op: 2, Count: 1, Send: at(wide), Recv: at(part)},
				part[:1], []int32{[]int32{1, 8, 27}[me]}),
			do("alltoall", Operation{Code: AllToAll, Count: 1, Send: at(in), Recv: at(out)}, out,
				[][]int32{{0, 1, 2}, {10, 10, 10}, {0, -1, -2}}[me]),
			do("sendrecv", Operation{Code: SendRecv, Count: 1, RecvCount: 3, Peer: (me + 1) % n, From: (me + 2) % n,
				Tag: 1 << 63, RecvTag: 1 << 63, Send: at(sent), Recv: at(part)}, part[:1],
				[]int32{int32((me + 2) % n)}),
			do("broadcast", Operation{Code: Broadcast, Count: 1, Peer: 2, Recv: at(sent)}, sent, []int32{2}),
		)
	})
}

// TestKinds: a sum of each kind of element, in place, where small numbers are exact.
func TestKinds(t *testing.T) {
	leak.Check(t)
	one := map[string][]byte{"float16": {0, 0x3c}, "bfloat16": {0x80, 0x3f}, "float32": {0, 0, 0x80, 0x3f},
		"float64": {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}}
	two := map[string][]byte{"float16": {0, 0x40}, "bfloat16": {0, 0x40}, "float32": {0, 0, 0, 0x40},
		"float64": {0, 0, 0, 0, 0, 0, 0, 0x40}}
	each(t, formed(t, 2), func(_ int, m *Member) error {
		for n := clique.KindOf[int8](); n.Valid(); n++ {
			x, want := append([]byte(nil), one[n.String()]...), two[n.String()]
			if len(x) == 0 {
				x, want = make([]byte, n.Size()), make([]byte, n.Size())
				x[0], want[0] = 1, 2
			}
			o := Operation{Code: AllReduce, Kind: n, Op: 1, Count: 1, Send: at(x), Recv: at(x)}
			if _, err := m.Do(o); err != nil {
				return err
			}
			if string(x) != string(want) {
				t.Errorf("%v: got % x, want % x", n, x, want)
			}
		}
		return nil
	})
}

// TestInvalid: invalid arguments of one rank are a mismatch on all ranks, which stay usable; those of a message are an
// error of its caller.
func TestInvalid(t *testing.T) {
	leak.Check(t)
	kind := clique.KindOf[float64]()
	right := func(x []float64) Operation {
		return Operation{Code: AllReduce, Kind: kind, Op: 1, Count: uint64(len(x)), Send: at(x), Recv: at(x)}
	}
	cases := []struct {
		want   string
		change func(o *Operation)
	}{
		{"no luck", func(o *Operation) { o.Invalid = "no luck" }},
		{"unknown element type 99", func(o *Operation) { o.Kind = 99 }},
		{"unknown reduction 6", func(o *Operation) { o.Op = 6 }},
		{"send is a null pointer with 16 bytes", func(o *Operation) { o.Send = 0 }},
		{"recv is a null pointer with 16 bytes", func(o *Operation) { o.Recv = 0 }},
		{"which is too many", func(o *Operation) { o.Count = 1 << 61 }},
	}
	each(t, formed(t, 2), func(me int, m *Member) error {
		x := []float64{1, 2}
		for _, c := range cases {
			o := right(x)
			if me == 1 {
				c.change(&o)
			}
			var mismatch *clique.MismatchError
			if _, err := m.Do(o); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("member %d: got %v, want a mismatch with %q", me, err, c.want)
			}
		}
		for want, o := range map[string]Operation{
			"unknown operation(99)":     {Code: 99, Kind: kind},
			"recv: invalid argument":    {Code: Recv, Kind: 77, Count: 1, Recv: at(x)},
			"send is a null pointer":    {Code: Send, Kind: kind, Count: 1},
			"sendrecv: invalid":         {Code: SendRecv, Kind: kind, RecvCount: 1},
			"send has 2305843009213693": {Code: Send, Kind: kind, Count: 1 << 61, Send: at(x)},
		} {
			if _, err := m.Do(o); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("member %d: got %v, want %q", me, err, want)
			}
			if _, err := m.Start(o); !errors.Is(err, ErrInvalid) {
				t.Errorf("member %d: start: got %v, want %v", me, err, ErrInvalid)
			}
		}
		_, err := m.Do(right(x)) // still usable
		return err
	})
}

// TestRelease: the memory of an operation is released, also that of an invalid one.
func TestRelease(t *testing.T) {
	leak.Check(t)
	m := formed(t, 1)[0]
	regions, _ := mem.Live()
	x := make([]float64, 4)
	o := Operation{Code: AllReduce, Kind: clique.KindOf[float64](), Op: 1, Count: 4, Send: at(x), Recv: at(x)}
	if _, err := m.Do(o); err != nil {
		t.Fatal(err)
	}
	q, err := m.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(q.Wait(t.Context()), q.Finish()); err != nil {
		t.Fatal(err)
	}
	o.Recv = 0
	if _, err := m.Do(o); err == nil {
		t.Error("a null pointer is accepted")
	}
	now, _ := mem.Live()
	for end := time.Now().Add(patience); now != regions && time.Now().Before(end); now, _ = mem.Live() {
		time.Sleep(time.Millisecond) // a started operation releases its memory after it is done
	}
	if now != regions {
		t.Errorf("got %d regions, want %d", now, regions)
	}
}

// TestStart: a receive that was started completes when the message arrives.
func TestStart(t *testing.T) {
	leak.Check(t)
	kind := clique.KindOf[int64]()
	each(t, formed(t, 2), func(me int, m *Member) error {
		x := []int64{int64(me), 7}
		q, err := m.Start(Operation{Code: Recv, Kind: kind, Count: 2, Peer: 1 - me, Tag: 5, Recv: at(x)})
		if err != nil {
			return err
		}
		if _, err := m.Do(Operation{Code: Barrier}); err != nil {
			return err
		}
		y := []int64{int64(10 + me)}
		if _, err := m.Do(Operation{Code: Send, Kind: kind, Count: 1, Peer: 1 - me, Tag: 5, Send: at(y)}); err != nil {
			return err
		}
		if err := errors.Join(q.Wait(t.Context()), q.Finish()); err != nil {
			return err
		}
		if q.Len() != 1 || x[0] != int64(11-me) || x[1] != 7 {
			t.Errorf("member %d: got %d elements, %v", me, q.Len(), x)
		}
		_, err = m.Do(Operation{Code: Barrier})
		return err
	})
}

// TestSplit: sub-cliques by color and key, with their own time limit.
func TestSplit(t *testing.T) {
	leak.Check(t)
	kind := clique.KindOf[int64]()
	each(t, formed(t, 4), func(me int, m *Member) error {
		m.SetTimeout(time.Hour)
		sub, err := m.Split(me%2, -me)
		if err != nil {
			return err
		}
		r, err := sub.Rank()
		if err != nil || r.Size() != 2 || r.Rank() != 1-me/2 {
			t.Errorf("member %d: got rank %d of %d, %v", me, r.Rank(), r.Size(), err)
		}
		x := []int64{int64(me)}
		o := Operation{Code: AllReduce, Kind: kind, Op: 1, Count: 1, Send: at(x), Recv: at(x)}
		if _, err := sub.Do(o); err != nil {
			return err
		}
		if want := int64(2 + 2*(me%2)); x[0] != want {
			t.Errorf("member %d: got %d, want %d", me, x[0], want)
		}
		if err := errors.Join(sub.Close(), sub.Close()); err != nil {
			return err
		}
		kept, err := m.Split(0, 0) // closed with m
		if err != nil || kept == nil {
			return fmt.Errorf("split: %v, %w", kept, err)
		}
		none, err := m.Split(-1, 0)
		if none != nil || err != nil {
			t.Errorf("member %d: got %v, %v for a negative color, want nil", me, none, err)
		}
		return nil
	})
}

func TestCodeNames(t *testing.T) {
	if got := fmt.Sprint(Barrier, AllReduce, SendRecv, Code(0), Code(99)); got !=
		"barrier allreduce sendrecv operation(0) operation(99)" {
		t.Errorf("got %s", got)
	}
}
