// Package scalar decodes pickles of numbers, strings and bools without building a tree.
package scalar

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// Into decodes the pickle of a number, string or bool to dst. It reports whether it could; the general decoder then
// decodes or rejects other pickles.
func Into[T any](p []byte, dst *T) bool {
	switch d := any(dst).(type) {
	case *int:
		n, ok := pickledInt(p)
		*d = int(n)
		return ok
	case *int64:
		n, ok := pickledInt(p)
		*d = n
		return ok
	case *float64:
		f, ok := pickledFloat(p)
		*d = f
		return ok
	case *string:
		s, ok := pickledText(p)
		if ok {
			*d = string(s)
		}
		return ok
	case *bool:
		b, ok := opcode(p)
		if ok && len(b) == 2 && (b[0] == 0x88 || b[0] == 0x89) && b[1] == '.' {
			*d = b[0] == 0x88
			return true
		}
	}
	return false
}

// opcode returns the part after PROTO and FRAME.
func opcode(p []byte) ([]byte, bool) {
	if len(p) < 4 || p[0] != 0x80 || p[1] < 4 || p[1] > 5 {
		return nil, false
	}
	p = p[2:]
	if p[0] == 0x95 && len(p) > 9 {
		p = p[9:]
	}
	return p, true
}

func pickledInt(p []byte) (int64, bool) {
	b, ok := opcode(p)
	if !ok {
		return 0, false
	}
	switch {
	case b[0] == 'K' && len(b) == 3 && b[2] == '.':
		return int64(b[1]), true
	case b[0] == 'M' && len(b) == 4 && b[3] == '.':
		return int64(binary.LittleEndian.Uint16(b[1:])), true
	case b[0] == 'J' && len(b) == 6 && b[5] == '.':
		return int64(int32(binary.LittleEndian.Uint32(b[1:]))), true
	case b[0] == 0x8a && len(b) > 2: // LONG1: two's complement, little-endian
		n := int(b[1])
		if n == 0 || n > 8 || len(b) != n+3 || b[n+2] != '.' {
			return 0, false
		}
		var u uint64
		for i := range n {
			u |= uint64(b[2+i]) << (8 * i)
		}
		shift := 64 - 8*n
		return int64(u<<shift) >> shift, true
	}
	return 0, false
}

func pickledFloat(p []byte) (float64, bool) {
	b, ok := opcode(p)
	if !ok || b[0] != 'G' || len(b) != 10 || b[9] != '.' {
		return 0, false
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b[1:])), true
}

func pickledText(p []byte) ([]byte, bool) {
	b, ok := opcode(p)
	if !ok {
		return nil, false
	}
	var n, at int
	switch {
	case b[0] == 0x8c && len(b) > 2:
		n, at = int(b[1]), 2
	case b[0] == 'X' && len(b) > 5:
		n, at = int(binary.LittleEndian.Uint32(b[1:])), 5
	default:
		return nil, false
	}
	rest := b[at:]
	if len(rest) <= n {
		return nil, false
	}
	tail := rest[n:]
	if len(tail) == 2 && tail[0] == 0x94 { // MEMOIZE
		tail = tail[1:]
	}
	if len(tail) != 1 || tail[0] != '.' || !utf8.Valid(rest[:n]) {
		return nil, false
	}
	return rest[:n], true
}
