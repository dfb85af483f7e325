package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/internal/collective/transport"
	"go.millstream.dev/mem"
)

// TestParsePart: what another process has sent is read back as it was written, or is an error that says what is wrong.
func TestParsePart(t *testing.T) {
	put := func(h header, counts []uint64, data string) []byte {
		b := make([]byte, headerLen)
		h.vec, h.data = uint32(len(counts)), uint32(len(data))
		h.put(b)
		for _, c := range counts {
			b = binary.LittleEndian.AppendUint64(b, c)
		}
		return append(b, data...)
	}
	h := header{code: GatherV, kind: Int16, op: elem.OpMax, flags: flagInline, root: -2, count: 1 << 40, seq: 7}
	whole := put(h, []uint64{3, 1 << 45}, "words")
	var p part
	n, err := parsePart(append(whole, "rest"...), &p)
	h.vec, h.data = 2, 5
	if err != nil || n != len(whole) || p.header != h || p.numbers() != 2 || p.at(0) != 3 || p.at(1) != 1<<45 ||
		string(p.inline) != "words" {
		t.Errorf("%d bytes, %v: %+v", n, err, p)
	}
	for i := range whole {
		if _, err := parsePart(whole[:i], &p); err == nil || !strings.Contains(err.Error(), "truncated") {
			t.Errorf("the first %d bytes: %v, want that they are truncated", i, err)
		}
	}
	for _, c := range []struct {
		want string
		b    []byte
	}{
		{"unknown collective 0", put(header{}, nil, "")},
		{"unknown collective 16", put(header{code: codeSetup + 1}, nil, "")},
		{"count 70368744177665 is too large", put(header{code: AllToAllV}, []uint64{0, maxCount + 1}, "")},
		{"8193 counts are too many", put(header{code: AllToAllV}, make([]uint64, 2*transport.MaxRanks+1), "")},
	} {
		if _, err := parsePart(c.b, &p); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestSound: headers that promise what cannot be are refused, whichever rank sent them.
func TestSound(t *testing.T) {
	right := func(code Code, count uint64, counts int, inline int) part {
		return part{header: header{code: code, kind: Int32, count: count, flags: flagInline},
			counts: make([]byte, 8*counts), inline: make([]byte, inline)}
	}
	for _, c := range []struct {
		name string
		base part
		bad  func(p *part)
		want string // "" is right
	}{
		{"all-reduce", right(AllReduce, 8, 0, 8), func(*part) {}, ""},
		{"kind", right(AllReduce, 8, 0, 8), func(p *part) { p.kind = 99 }, "invalid header"},
		{"count", right(AllReduce, 8, 0, 8), func(p *part) { p.count, p.flags = maxCount+1, 0 }, "invalid header"},
		{"root below", right(Barrier, 0, 0, 0), func(p *part) { p.root = -1 }, "invalid header"},
		{"root beyond", right(Barrier, 0, 0, 0), func(p *part) { p.root = 2 }, "invalid header"},
		{"counts of a call without", right(AllReduce, 8, 0, 8), func(p *part) { p.counts = make([]byte, 16) },
			"invalid header"},
		{"counts of AllGatherV", right(AllGatherV, 8, 2, 8), func(p *part) {
			p.counts = p.counts[:8]
		}, "invalid header"},
		{"counts of AllToAllV", right(AllToAllV, 0, 4, 0), func(p *part) {
			p.counts = p.counts[:16]
		}, "invalid header"},
		{"inline", right(AllReduce, 8, 0, 8), func(p *part) { p.inline = p.inline[:7] },
			"sent 7 bytes with AllReduce, which differs from its header"},
		{"inline of all ranks", right(AllToAll, 8, 0, 16), func(p *part) { p.inline = p.inline[:8] },
			"sent 8 bytes with AllToAll"},
		{"not inline", right(AllReduce, 8, 0, 8), func(p *part) { p.inline, p.flags = nil, 0 }, ""},
		{"a bad call", right(AllReduce, 8, 0, 8), func(p *part) { p.flags, p.kind = flagBad, 99 }, ""},
	} {
		for odd := range 2 {
			parts := []part{c.base, c.base}
			c.bad(&parts[odd])
			err := validate(parts)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), []string{"rank 0", "rank 1"}[odd])) {
				t.Errorf("%s on rank %d: %v, want %q", c.name, odd, err, c.want)
			}
		}
	}
	rooted := []part{right(ScatterV, 0, 0, 0), right(ScatterV, 0, 0, 0)} // counts on the root alone
	rooted[0].counts = make([]byte, 16)
	if err := validate(rooted); err != nil {
		t.Errorf("counts of the root: %v", err)
	}
	rooted[0].root, rooted[1].root = 1, 1
	if err := validate(rooted); err == nil {
		t.Error("counts of another rank than the root are accepted")
	}
}

// TestSaid: what a rank says of a call has its data if that is short, a text if the call is wrong, and no counts that
// nobody asks for; a text that is too long is cut off.
func TestSaid(t *testing.T) {
	g := &Group{rank: 1, ranks: make([]int, 2)}
	b := make([]byte, 1<<12)
	say := func(c Call, limit int) part {
		var p part
		n := g.announce(b, &c, limit)
		if used, err := parsePart(b[:n], &p); err != nil || used != n {
			t.Fatalf("%v: %d of %d bytes: %v", c.Code, used, n, err)
		}
		return p
	}
	data := []byte("12345678")
	for i, c := range []struct {
		call      Call
		limit     int
		numbers   int
		flags     byte
		inline    string
		wantCount uint64
	}{
		{on(AllGather, data, make([]byte, 16), Uint8), 8, 0, flagInline, "12345678", 8},
		{on(AllGather, data, make([]byte, 16), Uint8), 7, 0, 0, "", 8},
		{on(Broadcast, data, data, Uint8).at(0), 8, 0, flagInline, "", 8}, // not the root: nothing to say
		{on(Broadcast, data, data, Uint8).at(1), 8, 0, flagInline, "12345678", 8},
		{on(Scatter, data, make([]byte, 4), Uint8).at(0), 8, 0, flagInline, "", 4},
		{gatherV(data, make([]byte, 20), []int{12, 8}, Uint8, 0), 8, 0, flagInline, "12345678", 8},
		{gatherV(data, make([]byte, 20), []int{12, 8}, Uint8, 1), 8, 2, flagInline, "12345678", 8},
		{allToAllV(data, []int{3, 5}, make([]byte, 4), []int{1, 3}, Uint8), 8, 4, flagInline, "12345678", 0},
		{allReduce(data, data[:4], Int32, Sum), 8, 0, flagBad, "recv has 4 bytes, want 8", 0},
	} {
		p := say(c.call, c.limit)
		if p.seq != uint32(i) || p.flags != c.flags || string(p.inline) != c.inline || p.numbers() != c.numbers ||
			p.count != c.wantCount {
			t.Errorf("%d, %v: number %d, flags %d, %d counts, count %d, %q; want flags %d, %d counts, count %d, %q", i,
				c.call.Code, p.seq, p.flags, p.numbers(), p.count, p.inline, c.flags, c.numbers, c.wantCount, c.inline)
		}
	}
	g.carrier = &checker{strings.Repeat("x", 2*maxText)}
	p := say(Call{Code: Barrier, Kind: Uint8, OnDevice: true}, 8)
	if p.flags != flagBad || len(p.inline) != maxText {
		t.Errorf("flags %d and a text of %d bytes, want one of %d", p.flags, len(p.inline), maxText)
	}
}

// checker is a Carrier that says one thing of every call.
type checker struct{ word string }

func (*checker) Name() string                     { return "checker" }
func (*checker) Run(context.Context, *Call) error { return nil }
func (k *checker) Check(*Call) string             { return k.word }
func (*checker) Close() error                     { return nil }
func (*checker) Send(context.Context, int, uint64, *mem.Buffer) func() error {
	return func() error { return nil }
}
func (*checker) Recv(context.Context, int, uint64, *mem.Buffer) func() (int, error) {
	return func() (int, error) { return 0, nil }
}

// TestSetupMismatch: ranks of another release, and of another configuration, do not make a group; every rank says why.
func TestSetupMismatch(t *testing.T) {
	for _, c := range []struct {
		name string
		odd  Config
		want string
	}{
		{"deterministic", Config{Deterministic: true}, "rank 2 has a different Config"},
		{"shared memory", Config{SharedMemory: SharedOff}, "rank 2 has a different Config"},
		{"names", Config{Names: []string{"a"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			ts := backends[0].transports(ctx, t, 3)
			errs := results(3, func(r int) error {
				cfg := Config{}
				if r == 2 {
					cfg = c.odd
				}
				g, err := New(ctx, ts[r], cfg)
				if g != nil {
					defer g.Close()
					err = errors.Join(err, g.Do(ctx, barrier()))
				}
				return err
			})
			for r, err := range errs {
				var m *MismatchError
				if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &m) || m.Rank != 2 ||
					!strings.Contains(err.Error(), c.want)) {
					t.Errorf("rank %d: %v, want %q", r, err, c.want)
				}
			}
		})
	}
}
