// Package pyspec packs tasks of Python graphs. A Python task is a pickle with out-of-band buffers, but the state of a
// worker keeps one byte string for each task: the pickle itself if there are no buffers, otherwise packMagic, the
// number of parts, all lengths and all bytes.
package pyspec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

// packMagic is the prefix of neither a pickle nor the spec of a Go task.
const packMagic = "PB\x01\x00"

// maxBuffers bounds the buffers of one task.
const maxBuffers = 1 << 20

var errSpec = errors.New("worker: invalid spec of a Python task")

// Is reports whether spec is that of a Python task.
func Is(spec []byte) bool {
	return len(spec) > 0 && (spec[0] == 0x80 || len(spec) >= len(packMagic) &&
		string(spec[:len(packMagic)]) == packMagic)
}

// Append appends a packed Python task to dst.
func Append(dst []byte, p *wire.Pickled) ([]byte, error) {
	if len(p.Data) == 0 || p.Data[0] != 0x80 {
		return dst, fmt.Errorf("%w: not a pickle", errSpec)
	}
	if len(p.Buffers) == 0 {
		return append(dst, p.Data...), nil
	}
	if len(p.Buffers) > maxBuffers {
		return dst, fmt.Errorf("%w: %d buffers", errSpec, len(p.Buffers))
	}
	dst = append(dst, packMagic...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(1+len(p.Buffers)))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(p.Data)))
	for _, b := range p.Buffers {
		if b.OnDevice() {
			return dst, fmt.Errorf("%w: buffer in GPU memory", errSpec)
		}
		dst = binary.LittleEndian.AppendUint64(dst, uint64(b.Len()))
	}
	dst = append(dst, p.Data...)
	for _, b := range p.Buffers {
		dst = append(dst, b.Bytes()...)
	}
	return dst, nil
}

// Split returns the pickle and its buffers, which borrow from spec.
func Split(spec []byte) ([][]byte, error) {
	if len(spec) > 0 && spec[0] == 0x80 {
		return [][]byte{spec}, nil
	}
	rest := spec
	word := func() (uint64, bool) {
		if len(rest) < 8 {
			return 0, false
		}
		v := binary.LittleEndian.Uint64(rest)
		rest = rest[8:]
		return v, true
	}
	if len(rest) < len(packMagic) || string(rest[:len(packMagic)]) != packMagic {
		return nil, errSpec
	}
	rest = rest[len(packMagic):]
	n, ok := word()
	if !ok || n < 2 || n > maxBuffers+1 || n > uint64(len(rest))/8 {
		return nil, errSpec
	}
	lengths := make([]uint64, n)
	for i := range lengths {
		lengths[i], _ = word()
	}
	parts := make([][]byte, n)
	for i, l := range lengths {
		if l > uint64(len(rest)) {
			return nil, errSpec
		}
		parts[i], rest = rest[:l:l], rest[l:]
	}
	if len(rest) > 0 {
		return nil, errSpec
	}
	return parts, nil
}

// FromMessage packs the pickled run_spec of a compute-task. The result may borrow from the message.
func FromMessage(m *wire.Message, ref *message.Object) ([]byte, error) {
	x, err := ref.Decode(m, wire.DecodeOptions{Keep: true, KeepPickled: true})
	if err != nil {
		return nil, err
	}
	p, ok := x.(*wire.Pickled)
	if !ok {
		return nil, fmt.Errorf("%w: type %T", errSpec, x)
	}
	if len(p.Buffers) == 0 && len(p.Data) > 0 && p.Data[0] == 0x80 {
		return p.Data, nil // the state copies it
	}
	if p, err = p.Open(wire.DecodeOptions{}); err != nil {
		return nil, err
	}
	return Append(nil, p)
}
