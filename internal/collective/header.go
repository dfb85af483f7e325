package collective

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/internal/collective/transport"
)

// Before a collective moves data, every rank gets the call of every other rank: its header, the counts of a V form and,
// if it is small, the data. If calls differ, all ranks detect it in the same way, and none is left waiting.

const (
	headerLen = 32
	// maxText bounds the text about an invalid call.
	maxText = 480
)

const (
	flagBad    = 1 << iota // the data is text: why the call of this rank is invalid
	flagInline             // the data is all that the rank contributes
	flagDevice             // the memory of the rank is device memory
)

// header describes the call of one rank.
type header struct {
	code  Code
	kind  Kind
	op    elem.OpCode
	flags uint8
	root  int32
	count uint64 // bytes; which ones depends on the call
	seq   uint32 // number of the collective in its group
	vec   uint32 // number of counts that follow, of eight bytes each
	data  uint32 // bytes that follow the counts
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

// part is the decoded header of one rank, with views of the counts and the data.
type part struct {
	header
	counts []byte // vec numbers of eight bytes
	inline []byte
}

func (p *part) at(i int) int { return int(binary.LittleEndian.Uint64(p.counts[8*i:])) }

func (p *part) numbers() int { return len(p.counts) / 8 }

// parsePart decodes the header of a rank, which may be from another process, at the start of b and returns its length.
func parsePart(b []byte, p *part) (int, error) {
	if len(b) < headerLen {
		return 0, errors.New("header truncated")
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
		return 0, fmt.Errorf("%d counts are too many", p.vec)
	}
	n := headerLen + 8*int(p.vec)
	if len(b) < n || len(b)-n < int(p.data) {
		return 0, errors.New("counts or data truncated")
	}
	p.counts = b[headerLen:n]
	for i := range int(p.vec) {
		if c := binary.LittleEndian.Uint64(p.counts[8*i:]); c > maxCount {
			return 0, fmt.Errorf("count %d is too large", c)
		}
	}
	p.inline = b[n : n+int(p.data)]
	return n + int(p.data), nil
}

// maxCount keeps sums of counts within an int.
const maxCount = 1 << 46

// contribution returns how many bytes a rank contributes to its call.
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

// agree compares the calls of the ranks, in the same way on every rank, and returns the first difference.
func agree(parts []part) error {
	for r := range parts {
		if p := &parts[r]; p.flags&flagBad != 0 {
			return &MismatchError{Rank: r, Reason: fmt.Sprintf("invalid call of %v on rank %d: %s", p.code, r,
				p.inline)}
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
		return fmt.Sprintf("%v: rank 0 has %s %v, rank %d has %v; pass the same on all ranks", a.code, what, x, r, y)
	}
	switch {
	case a.code != b.code || a.seq != b.seq:
		return fmt.Sprintf("rank 0 calls %v as collective %d, rank %d calls %v as collective %d; all ranks must call "+
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
	case GatherV, ScatterV, AllGatherV, codeSetup: // these have a count for each rank
		return ""
	}
	if es := uint64(a.kind.Size()); a.count != b.count {
		return fmt.Sprintf("%v: rank 0 has %d elements, rank %d has %d; pass the same number on all ranks", a.code,
			a.count/es, r, b.count/es)
	}
	return ""
}

func differentCounts(a, b *part, r int) string {
	for i := range min(a.numbers(), b.numbers()) {
		if x, y := a.at(i), b.at(i); x != y {
			return fmt.Sprintf("%v: rank 0 has counts[%d] = %d, rank %d has %d; pass the same on all ranks", a.code,
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
				Reason: fmt.Sprintf("%v: root %d has counts[%d] = %d, but rank %d has a buffer of %d elements",
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

// allInline reports whether the data of every rank was sent along with its header.
func allInline(parts []part) bool {
	for r := range parts {
		if parts[r].flags&flagInline == 0 {
			return false
		}
	}
	return true
}

// validate checks the headers of peers: the number of counts, and the length of the inline data.
func validate(parts []part) error {
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
			return fmt.Errorf("invalid header from rank %d", r)
		}
		if p.flags&flagInline != 0 && uint64(len(p.inline)) != p.contribution(r, size) {
			return fmt.Errorf("rank %d sent %d bytes with %v, which differs from its header", r, len(p.inline), p.code)
		}
	}
	return nil
}
