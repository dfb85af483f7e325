package collective

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/internal/collective/transport"
)

// Before a collective moves data every rank learns what every other rank has called: its header, the counts of a V form
// and, where they are small, the data itself. So ranks that do not agree all find out, all find the same, and nobody is
// left waiting.

const (
	headerLen = 32
	// maxText bounds the text of a bad call.
	maxText = 480
)

const (
	flagBad    = 1 << iota // the data is a text: what is wrong with this rank's call
	flagInline             // the data is all that the rank contributes
	flagDevice             // the rank's memory is a device's
)

// header describes one rank's call.
type header struct {
	code  Code
	kind  Kind
	op    elem.OpCode
	flags uint8
	root  int32
	count uint64 // bytes; what of depends on the call
	seq   uint32 // of the collective in its group
	vec   uint32 // counts that follow, of eight bytes each
	data  uint32 // bytes that follow them
}

// put writes the header. b has room for it.
func (h *header) put(b []byte) {
	_ = b[headerLen-1]
	b[0], b[1], b[2], b[3] = byte(h.code), byte(h.kind), byte(h.op), h.flags
	binary.LittleEndian.PutUint32(b[4:], uint32(h.root))
	binary.LittleEndian.PutUint64(b[8:], h.count)
	binary.LittleEndian.PutUint32(b[16:], h.seq)
	binary.LittleEndian.PutUint32(b[20:], h.vec)
	binary.LittleEndian.PutUint32(b[24:], h.data)
	binary.LittleEndian.PutUint32(b[28:], 0)
}

// part is what one rank has said: its header, and views of what follows.
type part struct {
	header
	counts []byte // vec numbers of eight bytes
	inline []byte
}

func (p *part) at(i int) int { return int(binary.LittleEndian.Uint64(p.counts[8*i:])) }

func (p *part) numbers() int { return len(p.counts) / 8 }

// parsePart reads one rank's words from the front of b, and returns their length. They came from another process.
func parsePart(b []byte, p *part) (int, error) {
	if len(b) < headerLen {
		return 0, errors.New("header cut off")
	}
	p.code, p.kind, p.op, p.flags = Code(b[0]), Kind(b[1]), elem.OpCode(b[2]), b[3]
	p.root = int32(binary.LittleEndian.Uint32(b[4:]))
	p.count = binary.LittleEndian.Uint64(b[8:])
	p.seq = binary.LittleEndian.Uint32(b[16:])
	p.vec = binary.LittleEndian.Uint32(b[20:])
	p.data = binary.LittleEndian.Uint32(b[24:])
	if p.code < Barrier || p.code > codeSetup {
		return 0, fmt.Errorf("unknown collective %d", p.code)
	}
	if p.vec > 2*transport.MaxRanks {
		return 0, fmt.Errorf("%d counts", p.vec)
	}
	n := headerLen + 8*int(p.vec)
	if len(b) < n || len(b)-n < int(p.data) {
		return 0, errors.New("counts or data cut off")
	}
	p.counts = b[headerLen:n]
	for i := range int(p.vec) {
		if c := binary.LittleEndian.Uint64(p.counts[8*i:]); c > maxCount {
			return 0, fmt.Errorf("a count of %d", c)
		}
	}
	p.inline = b[n : n+int(p.data)]
	return n + int(p.data), nil
}

// maxCount keeps sums of counts within an int.
const maxCount = 1 << 46

// contribution is how many bytes a rank of a group has to say, given what is known of its call.
func (p *part) contribution(rank, size int) uint64 {
	switch p.code {
	case AllReduce, Reduce, AllGather, AllGatherV, Gather, GatherV, codeSetup, codeSplit:
		return p.count
	case ReduceScatter, AllToAll:
		return p.count * uint64(size)
	case Broadcast:
		if int(p.root) == rank {
			return p.count
		}
	case Scatter:
		if int(p.root) == rank {
			return p.count * uint64(size)
		}
	case ScatterV, AllToAllV:
		var n uint64
		for i := range min(p.numbers(), size) {
			n += uint64(p.at(i))
		}
		return n * uint64(p.kind.Size())
	}
	return 0
}

// agree compares what the ranks have called, in the same way on every rank, and returns the first thing that is wrong.
func agree(parts []part) error {
	for r := range parts {
		if p := &parts[r]; p.flags&flagBad != 0 {
			return &MismatchError{Rank: r, Reason: fmt.Sprintf("rank %d calls %v wrongly: %s", r, p.code, p.inline)}
		}
	}
	first := &parts[0]
	for r := 1; r < len(parts); r++ {
		if reason := differ(first, &parts[r], r); reason != "" {
			return &MismatchError{Rank: r, Reason: reason}
		}
	}
	switch first.code {
	case AllGatherV:
		for r := range parts {
			if reason := differentCounts(first, &parts[r], r); reason != "" {
				return &MismatchError{Rank: r, Reason: reason}
			}
		}
	case GatherV, ScatterV:
		return agreeRooted(parts)
	case AllToAllV:
		return agreeMatrix(parts)
	}
	return nil
}

func differ(a, b *part, r int) string {
	text := func(what string, x, y any) string {
		return fmt.Sprintf("%v: rank 0 has %s %v, rank %d has %v: all ranks must give the same", a.code, what, x, r, y)
	}
	switch {
	case a.code != b.code || a.seq != b.seq:
		return fmt.Sprintf("rank 0 calls %v (its %dth collective), rank %d calls %v (its %dth): all ranks must call "+
			"the same collectives in the same order",
			a.code, a.seq+1, r, b.code, b.seq+1)
	case a.flags&flagDevice != b.flags&flagDevice:
		where := func(p *part) string {
			if p.flags&flagDevice != 0 {
				return "device memory"
			}
			return "host memory"
		}
		return text("buffers in", where(a), where(b))
	case a.kind != b.kind:
		return text("elements of", a.kind, b.kind)
	case a.op != b.op:
		return text("operation", a.op, b.op)
	case a.root != b.root:
		return text("root", a.root, b.root)
	}
	switch a.code {
	case GatherV, ScatterV, AllGatherV, codeSetup: // these have a count of their own for each rank
		return ""
	}
	if es := uint64(a.kind.Size()); a.count != b.count {
		return fmt.Sprintf("%v: rank 0 has %d elements, rank %d has %d: all ranks must give the same number", a.code,
			a.count/es, r, b.count/es)
	}
	return ""
}

func differentCounts(a, b *part, r int) string {
	for i := range min(a.numbers(), b.numbers()) {
		if x, y := a.at(i), b.at(i); x != y {
			return fmt.Sprintf("%v: rank 0 has counts[%d] = %d, rank %d has %d: all ranks must give the same", a.code,
				i, x, r, y)
		}
	}
	return ""
}

func agreeRooted(parts []part) error {
	root := int(parts[0].root)
	es := uint64(parts[0].kind.Size())
	for r := range parts {
		if x, y := uint64(parts[root].at(r)), parts[r].count/es; x != y {
			return &MismatchError{Rank: r,
				Reason: fmt.Sprintf("%v: rank %d, the root, has counts[%d] = %d, rank %d has a buffer of %d elements",
					parts[0].code, root, r, x, r, y)}
		}
	}
	return nil
}

func agreeMatrix(parts []part) error {
	n := len(parts)
	for r := range parts {
		for to := range parts {
			if x, y := parts[r].at(to), parts[to].at(n+r); x != y {
				return &MismatchError{Rank: r,
					Reason: fmt.Sprintf("AllToAllV: rank %d sends %d elements to rank %d, which expects %d", r, x, to,
						y)}
			}
		}
	}
	return nil
}

// allInline reports whether every rank's data has come along with its header.
func allInline(parts []part) bool {
	for r := range parts {
		if parts[r].flags&flagInline == 0 {
			return false
		}
	}
	return true
}

// sound checks what a peer's header promises of its inline data and counts, before anybody relies on it.
func sound(parts []part) error {
	size := len(parts)
	for r := range parts {
		p := &parts[r]
		if p.flags&flagBad != 0 {
			continue
		}
		want := 0
		switch {
		case p.code == AllGatherV, (p.code == GatherV || p.code == ScatterV) && int(p.root) == r:
			want = size
		case p.code == AllToAllV:
			want = 2 * size
		}
		if p.numbers() != want || !p.kind.Valid() || p.count > maxCount || p.root < 0 || int(p.root) >= size {
			return fmt.Errorf("rank %d sent a header that makes no sense", r)
		}
		if p.flags&flagInline != 0 && uint64(len(p.inline)) != p.contribution(r, size) {
			return fmt.Errorf("rank %d sent %d bytes with %v, not what its header says", r, len(p.inline), p.code)
		}
	}
	return nil
}
