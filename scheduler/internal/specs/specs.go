// Package specs encodes Python tasks in the form in which the scheduler keeps them.
package specs

import (
	"encoding/binary"
	"errors"
	"math"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
)

// A task's spec has one of three forms, which differ in the first byte:
//
//	'M'    a call of a Go client, see task.IsSpec
//	0x80   a pickle of a graph node of Dask, without buffers
//	0x01   such a pickle with more: flags, number of buffers, length of the pickle, lengths
//	       of the buffers (each a uvarint), the pickle, the buffers
//
// A pickle's first part may be kept elsewhere, see state.Node.Shared; then the third form is used, with the rest.
const (
	Pickle   = 0x80
	specMore = 0x01
)

// Flags of a spec, the same as in materializer.py.
const (
	Producer = 1 << iota // the task is a source of data
	Go                   // the task calls a Go function
)

// Spec is a parsed Python spec. All fields borrow from the spec.
type Spec struct {
	flags   byte
	Pickle  []byte // without the shared part
	buffers []byte // concatenated
	lengths []byte // n uvarints
	N       int
}

// ErrSpec is returned by Read for an invalid spec.
var ErrSpec = errors.New("invalid spec of a task")

// Append appends a spec.
func Append(dst []byte, flags byte, pickle []byte, buffers [][]byte, shared bool) []byte {
	if flags == 0 && len(buffers) == 0 && !shared && len(pickle) > 0 && pickle[0] == Pickle {
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

// Size returns an upper bound of the number of bytes that Append appends.
func Size(pickle []byte, buffers [][]byte) int {
	n := 2 + 2*binary.MaxVarintLen64 + len(pickle)
	for _, b := range buffers {
		n += binary.MaxVarintLen64 + len(b)
	}
	return n
}

// Read parses a Python spec. The spec may come from this scheduler, a client or a journal.
func Read(spec []byte) (Spec, error) {
	var p Spec
	switch {
	case len(spec) == 0:
		return p, ErrSpec
	case spec[0] == Pickle:
		p.Pickle = spec
		return p, nil
	case spec[0] != specMore || len(spec) < 2:
		return p, ErrSpec
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
		return p, ErrSpec
	}
	p.N = int(n)
	lengths, total := rest, uint64(0)
	for range n {
		l, ok := uvarint()
		if !ok || l > uint64(len(spec)) {
			return p, ErrSpec
		}
		total += l
	}
	p.lengths = lengths[:len(lengths)-len(rest)]
	if size > uint64(len(rest)) || total != uint64(len(rest))-size {
		return p, ErrSpec
	}
	p.Pickle, p.buffers = rest[:size:size], rest[size:]
	return p, nil
}

// Buffers calls f for each buffer.
func (p *Spec) Buffers(f func(b []byte)) {
	lengths, rest := p.lengths, p.buffers
	for range p.N {
		l, k := binary.Uvarint(lengths)
		lengths = lengths[k:]
		f(rest[:l:l])
		rest = rest[l:]
	}
}

// Needs returns what a worker must support to run a task, and whether the task is a source of data.
func Needs(spec []byte) (needs state.Can, producer bool, err error) {
	if len(spec) == 0 || task.IsSpec(spec) {
		return 0, false, nil
	}
	p, err := Read(spec)
	needs = state.Python
	if p.flags&Go != 0 {
		needs = state.Go
	}
	return needs, p.flags&Producer != 0, err
}

// AppendWhole appends a spec with its shared part.
func AppendWhole(dst, shared, spec []byte) []byte {
	p, err := Read(spec)
	if err != nil {
		return append(dst, spec...)
	}
	var buffers [][]byte
	p.Buffers(func(b []byte) { buffers = append(buffers, b) })
	whole := append(append(make([]byte, 0, len(shared)+len(p.Pickle)), shared...), p.Pickle...)
	return Append(dst, p.flags, whole, buffers, false)
}
