package collective

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/internal/collective/transport"
)

// TestSegmentLayout: nothing in the shared memory lies over anything else, for every number of ranks that may share.
func TestSegmentLayout(t *testing.T) {
	for size := 1; size <= sharedRanks; size++ {
		var s segment
		total := s.layout(size)
		type area struct {
			name   string
			at, to int
		}
		list := []area{{"cookie", 0, cookieLen}}
		for r := range size {
			list = append(list, area{fmt.Sprintf("line %d", r), pageLen + r*lineLen, pageLen + (r+1)*lineLen})
		}
		for half := range 2 {
			for r := range size {
				list = append(list, area{fmt.Sprintf("slot %d of half %d", r, half), s.slotAt(half, r),
					s.slotAt(half, r) + s.slot})
			}
		}
		for half := range 2 {
			for r := range size {
				list = append(list, area{fmt.Sprintf("in %d of half %d", r, half), s.inAt(half, r), s.inAt(half, r) +
					s.round})
			}
		}
		for half := range 2 {
			list = append(list, area{fmt.Sprintf("out of half %d", half), s.outAt(half), s.outAt(half) + s.round})
		}
		end := 0
		for i, a := range list {
			if a.at < end || a.to <= a.at {
				t.Fatalf("%d ranks: %s is at %d to %d, %s ends at %d", size, a.name, a.at, a.to, list[i-1].name, end)
			}
			end = a.to
		}
		if end != total {
			t.Errorf("%d ranks: %d bytes are used of %d", size, end, total)
		}
		if s.round%size != 0 || s.piece()%64 != 0 {
			t.Errorf("%d ranks: a round of %d bytes", size, s.round)
		}
	}
}

// TestSegmentShares: the rounds of a call cover its data, and the ranks' shares cover each round, once.
func TestSegmentShares(t *testing.T) {
	for size := 1; size <= 5; size++ {
		var s segment
		s.layout(size)
		for _, n := range []int{0, 1, 63, 64, 65, s.piece(), s.piece() + 1, s.round - 1, s.round, s.round + 1,
			3*s.round + 7} {
			for _, code := range []Code{AllReduce, ReduceScatter, AllGather, Broadcast} {
				c := on(code, make([]byte, n), make([]byte, n), Uint8)
				step := s.round
				if code == ReduceScatter || code == AllGather {
					step = s.piece()
				}
				at := 0
				for i := range s.rounds(&c) {
					lo, hi := stretch(n, step, i)
					if lo != at || hi <= lo || hi-lo > step {
						t.Fatalf("%v of %d bytes, %d ranks: round %d is %d to %d after %d", code, n, size, i, lo, hi,
							at)
					}
					at = hi
					mine := 0
					for r := range size {
						l, h := s.share(hi-lo, r)
						if l != mine && l != hi-lo || h < l {
							t.Fatalf("a round of %d bytes, %d ranks: share %d is %d to %d", hi-lo, size, r, l, h)
						}
						mine = max(mine, h)
					}
					if mine != hi-lo {
						t.Fatalf("a round of %d bytes, %d ranks: shares end at %d", hi-lo, size, mine)
					}
				}
				if at != n {
					t.Errorf("%v of %d bytes, %d ranks: rounds end at %d", code, n, size, at)
				}
			}
		}
	}
}

// sharedPair is the memory of two ranks, both in this process.
func sharedPair(t *testing.T) (gs [2]*Group, ss [2]*segment) {
	t.Helper()
	first, f, cookie, err := createSegment(2)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	second, err := openSegment(uint32(os.Getpid()), uint32(f.Fd()), 2, 1, cookie)
	if err != nil {
		t.Fatal(err)
	}
	ss = [2]*segment{first, second}
	for r, s := range ss {
		h := newHub(&lateTransport{failures: make(chan *RankError)}, nil)
		gs[r] = newGroup(h, Config{}, 0, r, []int{0, 1})
		gs[r].seg = s
		t.Cleanup(func() {
			s.close()
			s.close() // a second time does nothing
			gs[r].p2p.close()
			if err := h.release(); err != nil {
				t.Error(err)
			}
		})
	}
	return gs, ss
}

// TestOneRankAhead: a rank that is through with a call begins the next one at once, while another still reads the words
// and the data of the last; so those must be where they were.
func TestOneRankAhead(t *testing.T) {
	ctx := testContext(t)
	gs, ss := sharedPair(t)
	send := func(r int) []byte { return bytes.Repeat([]byte{byte('a' + r)}, 8) }
	// Rank 0 says its words and goes no further.
	first := allGather(send(0), make([]byte, 16), Uint8)
	gs[0].announce(ss[0].slotOf(0, 0), &first, sharedInline)
	ss[0].calls++
	ss[0].publish()
	got := make([]byte, 16)
	if err := gs[1].collect(ctx, &Call{Code: AllGather, Kind: Uint8, Send: Memory{Bytes: send(1)},
		Recv: Memory{Bytes: got}}); err != nil || string(got) != "aaaaaaaabbbbbbbb" {
		t.Fatalf("rank 1: %q, %v", got, err)
	}
	ended := make(chan error, 1)
	second := allGather([]byte("22222222"), make([]byte, 16), Uint8)
	go func() { ended <- gs[1].collect(ctx, &second) }()
	waitFor(t, func() bool { return atomic.LoadUint32(ss[0].counter(1)) == 2 })
	var p part
	if _, err := parsePart(ss[0].slotOf(0, 1), &p); err != nil || p.seq != 0 || string(p.inline) != "bbbbbbbb" {
		t.Errorf("rank 1's words of the first call: number %d, %q, %v; they were overwritten", p.seq, p.inline, err)
	}
	if err := gs[0].collect(ctx, &Call{Code: AllGather, Kind: Uint8, Send: Memory{Bytes: []byte("11111111")},
		Recv: Memory{Bytes: got}}); err != nil || string(got) != "1111111122222222" {
		t.Errorf("rank 0's second call: %q, %v", got, err)
	}
	if err := <-ended; err != nil || string(second.Recv.Bytes) != "1111111122222222" {
		t.Errorf("rank 1's second call: %q, %v", second.Recv.Bytes, err)
	}
}

// TestRoundsKeepTheirHalf: data of a call and of the next one are in different halves, also after an odd number of
// rounds, so that a rank that is ahead does not overwrite what another one reads.
func TestRoundsKeepTheirHalf(t *testing.T) {
	ctx := testContext(t)
	gs, ss := sharedPair(t)
	for rounds := 1; rounds <= 4; rounds++ {
		was := ss[0].half
		n := ss[0].round*(rounds-1) + 64
		n = max(n, sharedInline+64)
		want := ss[0].rounds(&Call{Code: Broadcast, Send: Memory{Bytes: make([]byte, n)}})
		errs := results(2, func(r int) error {
			b := bytes.Repeat([]byte{byte(1 + rounds*(1-r))}, n)
			c := broadcast(b, Uint8, 0)
			if err := gs[r].collect(ctx, &c); err != nil {
				return err
			}
			if b[0] != byte(1+rounds) || b[n-1] != byte(1+rounds) {
				return fmt.Errorf("%d … %d", b[0], b[n-1])
			}
			return nil
		})
		for r, err := range errs {
			if err != nil {
				t.Errorf("%d rounds, rank %d: %v", rounds, r, err)
			}
			if ss[r].half != (was+want)&1 {
				t.Errorf("rank %d: half %d after %d rounds from half %d", r, ss[r].half, want, was)
			}
		}
	}
}

// TestSegmentOfAnother: memory that is not the group's is not mapped.
func TestSegmentOfAnother(t *testing.T) {
	s, f, cookie, err := createSegment(3)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer s.close()
	pid, fd := uint32(os.Getpid()), uint32(f.Fd())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, c := range []struct {
		name, want string
		open       func() (*segment, error)
	}{
		{"right", "", func() (*segment, error) { return openSegment(pid, fd, 3, 1, cookie) }},
		{"another number of ranks", "not the group's memory",
			func() (*segment, error) { return openSegment(pid, fd, 2, 1, cookie) }},
		{"another cookie", "not the group's memory",
			func() (*segment, error) { return openSegment(pid, fd, 3, 1, make([]byte, cookieLen)) }},
		{"a pipe", "not the group's memory",
			func() (*segment, error) { return openSegment(pid, uint32(r.Fd()), 3, 1, cookie) }},
		{"no such file", "no such file", func() (*segment, error) { return openSegment(pid, 1<<20, 3, 1, cookie) }},
		{"no such process", "no such file", func() (*segment, error) { return openSegment(1<<30, fd, 3, 1, cookie) }},
	} {
		got, err := c.open()
		if got != nil {
			got.close()
		}
		if c.want == "" && (err != nil || got.rank != 1) || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if err := f.Truncate(10); !errors.Is(err, unix.EPERM) {
		t.Errorf("the memory can be cut off under the others: %v", err)
	}
}

// TestSegmentWaits: waiting for a rank ends when it gets there, when the context ends, when the group fails and when
// the rank has left; it counts past the end of a counter.
func TestSegmentWaits(t *testing.T) {
	why := errors.New("enough")
	for _, how := range []string{"there", "wraps", "context", "failed", "left", "left after it was there"} {
		t.Run(how, func(t *testing.T) {
			gs, ss := sharedPair(t)
			ctx, cancel := context.WithCancelCause(testContext(t))
			defer cancel(nil)
			ss[0].policy = waitPolicy{polls: 1, yields: 9}
			stage := uint32(5)
			if how == "wraps" {
				stage = 3
				ss[1].stage = ^uint32(0) - 1
				binary.LittleEndian.PutUint32(ss[1].mem[pageLen+lineLen:], ss[1].stage)
			} else {
				ss[1].stage = stage - 1
			}
			result := make(chan error, 1)
			go func() { result <- ss[0].waitFor(ctx, gs[0], 1, stage) }()
			waitFor(t, func() bool { return atomic.LoadUint32(ss[0].sleepers(1)) > 0 }) // it sleeps
			want := ""
			switch how {
			case "there":
				ss[1].publish()
			case "wraps":
				for range 5 {
					ss[1].publish()
				}
			case "context":
				want = "enough"
				cancel(why)
			case "failed":
				want = "rank 1: broken"
				gs[0].hub.fail(&RankError{Rank: 1, Reason: "broken"})
			case "left", "left after it was there":
				if want = "rank 1: has left the group"; how != "left" {
					want = ""
					ss[1].publish()
				}
				gs[0].hub.t.(*lateTransport).failures <- transport.LeftError(1)
			}
			err := <-result
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v, want %q", err, want)
			}
			if n := atomic.LoadUint32(ss[0].sleepers(1)); n != 0 {
				t.Errorf("%d still sleep", n)
			}
		})
	}
}

// TestWordsInSlots: words in shared memory that make no sense are an error that names their rank.
func TestWordsInSlots(t *testing.T) {
	gs, ss := sharedPair(t)
	c := allReduce(elem.View([]int32{1}), elem.View([]int32{1}), Int32, Sum)
	for r := range ss {
		gs[r].announce(ss[r].slotOf(0, r), &c, sharedInline)
	}
	if err := ss[0].read(gs[0], 0); err != nil {
		t.Fatal(err)
	}
	ss[1].slotOf(0, 1)[0] = 99
	var op *opError
	if err := ss[0].read(gs[0], 0); !errors.As(err, &op) || op.rank != 1 ||
		err.Error() != "unknown collective 99" || errors.Unwrap(err) == nil {
		t.Errorf("%v, want that rank 1's words are no call", err)
	}
	ss[1].slotOf(0, 1)[0] = byte(AllReduce)
	ss[1].slotOf(0, 1)[1] = 77
	if err := ss[0].read(gs[0], 0); err == nil || err.Error() != "invalid header from rank 1" {
		t.Errorf("%v, want that rank 1's header makes no sense", err)
	}
}
