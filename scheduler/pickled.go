package scheduler

import (
	"encoding/binary"
	"errors"
	"math"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/outbox"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// A task's spec is one of three things, which its first byte tells apart:
//
//	'M'    a call of a Go client, see task.IsSpec
//	0x80   a pickle of one of Dask's graph nodes, without buffers
//	0x01   such a pickle with more: flags, number of buffers, length of the pickle, lengths
//	       of the buffers (each a uvarint), the pickle, the buffers
//
// A pickle's first part may be kept elsewhere, see state.Node.Shared; then the third form
// is used, with the rest.
const (
	specPickle = 0x80
	specMore   = 0x01
)

// Flags of a spec, the same as in materialiser.py.
const (
	flagProducer = 1 << iota // it brings data into the cluster
	flagGo                   // it calls a function of Go's
)

// pickledSpec is a spec of Python's, taken apart. All borrows from the spec.
type pickledSpec struct {
	flags   byte
	pickle  []byte // without the shared part
	buffers []byte // one behind the other
	lengths []byte // n uvarints
	n       int
}

var errSpec = errors.New("a task's spec is not one of ours")

// appendSpec appends a spec. Buffers are given one by one.
func appendSpec(dst []byte, flags byte, pickle []byte, buffers [][]byte, shared bool) []byte {
	if flags == 0 && len(buffers) == 0 && !shared && len(pickle) > 0 && pickle[0] == specPickle {
		return append(dst, pickle...)
	}
	dst = append(dst, specMore, flags)
	dst = binary.AppendUvarint(dst, uint64(len(buffers)))
	dst = binary.AppendUvarint(dst, uint64(len(pickle)))
	for _, b := range buffers {
		dst = binary.AppendUvarint(dst, uint64(len(b)))
	}
	dst = append(dst, pickle...)
	for _, b := range buffers {
		dst = append(dst, b...)
	}
	return dst
}

// specSize is an upper bound of what appendSpec appends.
func specSize(pickle []byte, buffers [][]byte) int {
	n := 2 + 2*binary.MaxVarintLen64 + len(pickle)
	for _, b := range buffers {
		n += binary.MaxVarintLen64 + len(b)
	}
	return n
}

// readSpec takes a spec of Python's apart. It is called for what this scheduler wrote, but
// also for what a client or a journal brought.
func readSpec(spec []byte) (pickledSpec, error) {
	var p pickledSpec
	switch {
	case len(spec) == 0:
		return p, errSpec
	case spec[0] == specPickle:
		p.pickle = spec
		return p, nil
	case spec[0] != specMore || len(spec) < 2:
		return p, errSpec
	}
	p.flags = spec[1]
	rest := spec[2:]
	uvarint := func() (uint64, bool) {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			return 0, false
		}
		rest = rest[n:]
		return v, v <= math.MaxInt64
	}
	n, ok := uvarint()
	size, ok2 := uvarint()
	if !ok || !ok2 || n > uint64(len(rest)) {
		return p, errSpec
	}
	p.n = int(n)
	lengths, total := rest, uint64(0)
	for range n {
		l, ok := uvarint()
		if !ok || l > uint64(len(spec)) {
			return p, errSpec
		}
		total += l
	}
	p.lengths = lengths[:len(lengths)-len(rest)]
	if size > uint64(len(rest)) || total != uint64(len(rest))-size {
		return p, errSpec
	}
	p.pickle, p.buffers = rest[:size:size], rest[size:]
	return p, nil
}

// each goes over the buffers.
func (p *pickledSpec) each(f func(b []byte)) {
	lengths, rest := p.lengths, p.buffers
	for range p.n {
		l, k := binary.Uvarint(lengths)
		lengths = lengths[k:]
		f(rest[:l:l])
		rest = rest[l:]
	}
}

// specNeeds is what a task's worker must be able to, and whether the task brings data in.
func specNeeds(spec []byte) (needs state.Can, producer bool, err error) {
	if len(spec) == 0 || task.IsSpec(spec) {
		return 0, false, nil
	}
	p, err := readSpec(spec)
	needs = state.Python
	if p.flags&flagGo != 0 {
		needs = state.Go
	}
	return needs, p.flags&flagProducer != 0, err
}

// runSpec appends a task's spec to a message for a worker: bytes for a call of Go's, a
// pickle with its buffers in frames for one of Python's.
func runSpec(b *outbox.Batch, body []byte, t *state.Task) []byte {
	spec := t.Spec()
	if task.IsSpec(spec) {
		return msgpack.AppendBytes(body, spec)
	}
	p, err := readSpec(spec)
	if err != nil {
		return msgpack.AppendNil(body) // graphs with such specs are refused
	}
	body = msgpack.AppendMapHeader(body, 1)
	body = msgpack.AppendString(body, "__Pickled__")
	body = b.Mark(body)
	shared := t.Shared()
	size := len(shared) + len(p.pickle)
	h := make([]byte, 0, size+64+p.n)
	h = append(h, pickledHead...)
	h = msgpack.AppendBytesHeader(h, size)
	h = append(append(h, shared...), p.pickle...)
	h = append(h, pickledCompression...)
	h = msgpack.AppendArrayHeader(h, p.n)
	for range p.n {
		h = msgpack.AppendNil(h)
	}
	h = append(h, pickledFrames...)
	h = msgpack.AppendInt(h, int64(p.n))
	b.Frames = append(b.Frames, wire.HeapFrame(h))
	p.each(func(buf []byte) { b.Frames = append(b.Frames, wire.HeapFrame(buf)) })
	return body
}

var (
	pickledHead        = peers.Fixed(3, "pickled-obj")
	pickledCompression = peers.Fixed(0, "compression")
	pickledFrames      = peers.Fixed(0, "num-sub-frames")
)
