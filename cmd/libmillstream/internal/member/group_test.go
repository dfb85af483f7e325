package member

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/clique"
	"go.millstream.dev/internal/testkit/leak"
)

// TestVForms: parts of different lengths, one of them empty.
func TestVForms(t *testing.T) {
	leak.Check(t)
	kind := clique.KindOf[int32]()
	each(t, formed(t, 3), func(me int, m *Member) error {
		counts, all := []uint64{2, 0, 1}, []int32{10, 11, 30}
		mine := slices.Clone([][]int32{{10, 11}, nil, {30}}[me])
		do := func(o Operation, got, want []int32) error {
			o.Kind = kind
			if _, err := m.Do(o); err != nil {
				return fmt.Errorf("%v: %w", o.Code, err)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("%v: got %v, want %v", o.Code, got, want)
			}
			return nil
		}
		gathered, part, wide := make([]int32, 3), make([]int32, len(mine)), make([]int32, 3*len(mine))
		atRoot := Operation{Code: GatherV, Peer: 1, Count: uint64(len(mine)), Send: at(mine)}
		want := make([]int32, 3)
		if me == 1 {
			atRoot.Counts, want = counts, all
		}
		rooted := make([]int32, 3)
		atRoot.Recv = at(rooted)
		scatter := Operation{Code: ScatterV, Peer: 1, Count: uint64(len(mine)), Counts: atRoot.Counts, Send: at(rooted),
			Recv: at(part)}
		// Every rank sends as many elements to rank r as rank r has.
		n := uint64(len(mine))
		return errors.Join(
			do(Operation{Code: AllGatherV, Counts: counts, Send: at(mine), Recv: at(gathered)}, gathered, all),
			do(atRoot, rooted, want),
			do(scatter, part, mine),
			do(Operation{Code: AllToAllV, Counts: counts, RecvCounts: []uint64{n, n, n}, Send: at(gathered),
				Recv: at(wide)}, wide, slices.Concat(mine, mine, mine)),
		)
	})
}

// TestVFormErrors: counts of another number, or of too many elements, are rejected on all ranks.
func TestVFormErrors(t *testing.T) {
	leak.Check(t)
	each(t, formed(t, 2), func(me int, m *Member) error {
		x, y := []int64{int64(me)}, make([]int64, 2)
		right := Operation{Code: AllGatherV, Kind: clique.KindOf[int64](), Counts: []uint64{1, 1}, Send: at(x),
			Recv: at(y)}
		for _, c := range []struct {
			counts []uint64
			want   string
		}{{nil, "counts has 0 entries"}, {[]uint64{1}, "counts has 1 entries"}, {[]uint64{1 << 63, 1}, "too many"},
			{[]uint64{1 << 62, 1 << 62}, "too many"}} {
			o := right
			if me == 1 {
				o.Counts = c.counts
			}
			var mismatch *clique.MismatchError
			if _, err := m.Do(o); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("member %d: got %v, want a mismatch with %q", me, err, c.want)
			}
		}
		_, err := m.Do(right)
		return err
	})
}

// TestGroup: operations of a group run concurrently, so that two ranks can send to each other first.
func TestGroup(t *testing.T) {
	leak.Check(t)
	kind := clique.KindOf[int64]()
	const n = 1 << 16 // longer than what is sent without the receiver
	each(t, formed(t, 2), func(me int, m *Member) error {
		if err := m.GroupEnd(); !errors.Is(err, ErrInvalid) {
			t.Errorf("end without a start: got %v, want %v", err, ErrInvalid)
		}
		x, y, z := make([]int64, n), make([]int64, n), []int64{1}
		x[n-1] = int64(10 + me)
		do := func(o Operation) error {
			o.Kind = kind
			_, err := m.Do(o)
			return err
		}
		err := errors.Join(m.GroupStart(), m.GroupStart(),
			do(Operation{Code: Send, Count: n, Peer: 1 - me, Tag: 3, Send: at(x)}),
			do(Operation{Code: Recv, Count: n, Peer: 1 - me, Tag: 3, Recv: at(y)}),
			m.GroupEnd(),
			do(Operation{Code: AllReduce, Op: 1, Count: 1, Send: at(z), Recv: at(z)}))
		if e := do(Operation{Code: Send, Count: 1}); !errors.Is(e, ErrInvalid) {
			t.Errorf("invalid message: got %v, want %v", e, ErrInvalid)
		}
		if err = errors.Join(err, m.GroupEnd()); err != nil {
			return err
		}
		if y[n-1] != int64(11-me) || z[0] != 2 {
			t.Errorf("member %d: got %d and %d", me, y[n-1], z[0])
		}
		// A group that is open when the member is closed must not leak.
		return errors.Join(m.GroupStart(),
			do(Operation{Code: Recv, Count: 1, Peer: 1 - me, Tag: 99, Recv: at(z)}))
	})
}

// TestMulticast: each rank sends a part of a buffer to every rank, itself included.
func TestMulticast(t *testing.T) {
	leak.Check(t)
	o := Operation{Kind: clique.KindOf[int16](), Tag: 5}
	each(t, formed(t, 3), func(me int, m *Member) error {
		x, y := []int16{int16(me), int16(10 + me), int16(20 + me)}, make([]int16, 3)
		var to, from []Message
		for r := range 3 {
			to = append(to, Message{Base: at(x), Offset: uint64(r), Count: 1, Rank: r})
			from = append(from, Message{Base: at(y), Offset: uint64(2 - r), Count: 1, Rank: r})
		}
		if err := m.Multicast(o, to, from); err != nil {
			return err
		}
		if want := []int16{int16(10*me + 2), int16(10*me + 1), int16(10 * me)}; !slices.Equal(y, want) {
			t.Errorf("member %d: got %v, want %v", me, y, want)
		}
		bad := []Message{{Base: at(x), Count: 1, Rank: 3}}
		if err := m.Multicast(o, bad, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("rank 3: got %v, want %v", err, ErrInvalid)
		}
		if err := m.Multicast(o, nil, []Message{{Count: 1}}); !errors.Is(err, ErrInvalid) {
			t.Errorf("null pointer: got %v, want %v", err, ErrInvalid)
		}
		// A message that is shorter than expected.
		err := m.Multicast(o, []Message{{Base: at(x), Count: 1, Rank: (me + 1) % 3}},
			[]Message{{Base: at(y), Count: 2, Rank: (me + 2) % 3}})
		if err == nil || !strings.Contains(err.Error(), "has sent 1 elements, want 2") {
			t.Errorf("short message: got %v", err)
		}
		return nil
	})
}
