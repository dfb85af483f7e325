package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Before a collective moves data every rank learns what every other rank has called: its header, the counts of a V form
// and, where they are small, the data itself. So ranks that do not agree all find out, all find the same, and nobody is
// left waiting.

const (
	headerLen = 32
	// maxRanks bounds groups; a rank has 12 of the 64 bits of UCX's tags.
	maxRanks = 1 << 12
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
	code  callCode
	kind  Kind
	op    opCode
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
	p.code, p.kind, p.op, p.flags = callCode(b[0]), Kind(b[1]), opCode(b[2]), b[3]
	p.root = int32(binary.LittleEndian.Uint32(b[4:]))
	p.count = binary.LittleEndian.Uint64(b[8:])
	p.seq = binary.LittleEndian.Uint32(b[16:])
	p.vec = binary.LittleEndian.Uint32(b[20:])
	p.data = binary.LittleEndian.Uint32(b[24:])
	if p.code < callBarrier || p.code > callSetup {
		return 0, fmt.Errorf("unknown collective %d", p.code)
	}
	if p.vec > 2*maxRanks {
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
	case callAllReduce, callReduce, callAllGather, callAllGatherV, callGather, callGatherV, callSetup, callSplit:
		return p.count
	case callReduceScatter, callAllToAll:
		return p.count * uint64(size)
	case callBroadcast:
		if int(p.root) == rank {
			return p.count
		}
	case callScatter:
		if int(p.root) == rank {
			return p.count * uint64(size)
		}
	case callScatterV, callAllToAllV:
		var n uint64
		for i := range min(p.numbers(), size) {
			n += uint64(p.at(i))
		}
		return n * uint64(p.kind.Size())
	}
	return 0
}
