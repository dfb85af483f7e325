package msgpack

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// Error is returned for invalid encoded bytes, with the position.
type Error struct {
	// Offset is the position of the invalid value in bytes.
	Offset int
	// Text describes the problem.
	Text string
}

// Error returns position and text.
func (e *Error) Error() string { return fmt.Sprintf("msgpack: at byte %d: %s", e.Offset, e.Text) }

// Reader is a cursor over encoded bytes. It does not allocate, except for errors. Returned []byte values share the
// input's memory. After an error its position is that of the value that could not be read. It must be used by one
// goroutine at a time.
type Reader struct {
	b   []byte
	pos int
}

// NewReader returns a Reader of b, which must not change meanwhile.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Reset restarts the reader with other bytes.
func (r *Reader) Reset(b []byte) { r.b, r.pos = b, 0 }

// Offset returns the position of the next value in bytes.
func (r *Reader) Offset() int { return r.pos }

// Since returns the bytes from an earlier offset to the current one: the encoded form of the values in between.
func (r *Reader) Since(offset int) []byte { return r.b[offset:r.pos:r.pos] }

// Remaining returns the number of unread bytes.
func (r *Reader) Remaining() int { return len(r.b) - r.pos }

// Kind returns the kind of the next value without reading it; Invalid at the end.
func (r *Reader) Kind() Kind {
	if r.pos >= len(r.b) {
		return Invalid
	}
	return kinds[r.b[r.pos]]
}

// End returns an error if bytes follow the last value, as in Python.
func (r *Reader) End() error {
	if r.pos != len(r.b) {
		return r.errorf("%d bytes follow the value", len(r.b)-r.pos)
	}
	return nil
}

func (r *Reader) errorf(format string, args ...any) error {
	return &Error{Offset: r.pos, Text: fmt.Sprintf(format, args...)}
}

// wrong returns the error of a value of an unexpected kind.
func (r *Reader) wrong(want Kind) error {
	if r.pos >= len(r.b) {
		return r.errorf("input ends, want %v", want)
	}
	c := r.b[r.pos]
	if kinds[c] == Invalid {
		return r.errorf("invalid first byte %#02x of a value", c)
	}
	if kinds[c] == want {
		return r.errorf("input ends within %v", want)
	}
	return r.errorf("want %v, got %v", want, kinds[c])
}

// ReadNil reads a nil.
func (r *Reader) ReadNil() error {
	if r.pos < len(r.b) && r.b[r.pos] == codeNil {
		r.pos++
		return nil
	}
	return r.wrong(Nil)
}

// TryNil reads a nil if there is one, and reports whether it did.
func (r *Reader) TryNil() bool {
	if r.pos < len(r.b) && r.b[r.pos] == codeNil {
		r.pos++
		return true
	}
	return false
}

// ReadBool reads a bool.
func (r *Reader) ReadBool() (bool, error) {
	if r.pos < len(r.b) {
		switch r.b[r.pos] {
		case codeFalse:
			r.pos++
			return false, nil
		case codeTrue:
			r.pos++
			return true, nil
		}
	}
	return false, r.wrong(Bool)
}

// integer reads any integer. If neg is not set the value is v's bits as unsigned.
func (r *Reader) integer() (v int64, neg bool, err error) {
	if r.pos >= len(r.b) {
		return 0, false, r.wrong(Int)
	}
	c := r.b[r.pos]
	if c < codeFixMap {
		r.pos++
		return int64(c), false, nil
	}
	if c >= codeNegFix {
		r.pos++
		return int64(int8(c)), true, nil
	}
	if c < codeUint8 || c > codeInt64 {
		return 0, false, r.wrong(Int)
	}
	size := 1 << (c & 3)
	if r.Remaining() <= size {
		return 0, false, r.wrong(Int)
	}
	p := r.b[r.pos+1:]
	switch c {
	case codeUint8:
		v = int64(p[0])
	case codeUint16:
		v = int64(binary.BigEndian.Uint16(p))
	case codeUint32:
		v = int64(binary.BigEndian.Uint32(p))
	case codeUint64:
		v = int64(binary.BigEndian.Uint64(p))
	case codeInt8:
		v = int64(int8(p[0]))
	case codeInt16:
		v = int64(int16(binary.BigEndian.Uint16(p)))
	case codeInt32:
		v = int64(int32(binary.BigEndian.Uint32(p)))
	case codeInt64:
		v = int64(binary.BigEndian.Uint64(p))
	}
	r.pos += 1 + size
	return v, c >= codeInt8 && v < 0, nil
}

// ReadInt reads an integer in the range of int64.
func (r *Reader) ReadInt() (int64, error) {
	start := r.pos
	v, neg, err := r.integer()
	if err == nil && v < 0 && !neg {
		r.pos = start
		err = r.errorf("integer %d is out of the range of int64", uint64(v))
	}
	return v, err
}

// ReadUint reads a non-negative integer.
func (r *Reader) ReadUint() (uint64, error) {
	start := r.pos
	v, neg, err := r.integer()
	if err == nil && neg {
		r.pos = start
		err = r.errorf("integer %d is negative", v)
	}
	return uint64(v), err
}

// ReadFloat reads a float, or an integer as one: Python often writes 1 for 1.0.
func (r *Reader) ReadFloat() (float64, error) {
	if r.Kind() == Int {
		v, neg, err := r.integer()
		if v < 0 && !neg {
			return float64(uint64(v)), err
		}
		return float64(v), err
	}
	switch n := r.Remaining(); {
	case n >= 9 && r.b[r.pos] == codeFloat64:
		v := math.Float64frombits(binary.BigEndian.Uint64(r.b[r.pos+1:]))
		r.pos += 9
		return v, nil
	case n >= 5 && r.b[r.pos] == codeFloat32:
		v := math.Float32frombits(binary.BigEndian.Uint32(r.b[r.pos+1:]))
		r.pos += 5
		return float64(v), nil
	}
	return 0, r.wrong(Float)
}

// header reads a first byte followed by a count: c8 and the next two codes are the forms with 8, 16 and 32 bits. It
// returns the count and the position of the contents.
func (r *Reader) header(c8 byte) (n uint64, at int, ok bool) {
	size := 1 << (r.b[r.pos] - c8)
	at = r.pos + 1 + size
	if at > len(r.b) {
		return 0, at, false
	}
	for _, c := range r.b[r.pos+1 : at] {
		n = n<<8 | uint64(c)
	}
	return n, at, true
}

// take returns n bytes of contents at a position and moves past them.
func (r *Reader) take(at int, n uint64, kind Kind) ([]byte, error) {
	if n > uint64(len(r.b)-at) {
		return nil, r.errorf("%v of %d bytes, and %d are left", kind, n, len(r.b)-at)
	}
	end := at + int(n)
	r.pos = end
	return r.b[at:end:end], nil
}

// ReadStringBytes reads a string and returns its bytes, which are valid UTF-8.
func (r *Reader) ReadStringBytes() ([]byte, error) {
	start := r.pos
	s, err := r.rawString()
	if err == nil && !ascii(s) && !utf8.Valid(s) {
		r.pos = start
		err = r.errorf("string is not UTF-8")
	}
	return s, err
}

// ReadName reads a string that the caller compares with known names: it is not checked to be UTF-8, and short ones are
// the fastest to read.
func (r *Reader) ReadName() ([]byte, error) {
	if p := r.pos; p < len(r.b) && r.b[p]&0xe0 == codeFixStr {
		if end := p + 1 + int(r.b[p]&0x1f); end <= len(r.b) {
			r.pos = end
			return r.b[p+1 : end : end], nil
		}
	}
	return r.rawString()
}

// ascii is faster than utf8.Valid for the short strings of messages. The last words overlap, so that there is no loop
// over single bytes except for the shortest.
func ascii(s []byte) bool {
	const high = 0x8080808080808080
	n := len(s)
	if n >= 8 {
		or := binary.LittleEndian.Uint64(s[n-8:])
		for i := 0; i < n-8; i += 8 {
			or |= binary.LittleEndian.Uint64(s[i:])
		}
		return or&high == 0
	}
	if n >= 4 {
		return (binary.LittleEndian.Uint32(s)|binary.LittleEndian.Uint32(s[n-4:]))&(high>>32) == 0
	}
	var or byte
	for _, c := range s {
		or |= c
	}
	return or < utf8.RuneSelf
}

func (r *Reader) rawString() ([]byte, error) {
	if r.pos >= len(r.b) {
		return nil, r.wrong(Str)
	}
	switch c := r.b[r.pos]; {
	case c&0xe0 == codeFixStr:
		at, n := r.pos+1, int(c&0x1f)
		if n > len(r.b)-at {
			return nil, r.wrong(Str)
		}
		r.pos = at + n
		return r.b[at:r.pos:r.pos], nil
	case c >= codeStr8 && c <= codeStr32:
		if n, at, ok := r.header(codeStr8); ok {
			return r.take(at, n, Str)
		}
	}
	return nil, r.wrong(Str)
}

// ReadString reads a string. It allocates the result.
func (r *Reader) ReadString() (string, error) {
	s, err := r.ReadStringBytes()
	return string(s), err
}

// ReadBytes reads bytes, which share the input's memory.
func (r *Reader) ReadBytes() ([]byte, error) {
	if r.Kind() == Bin {
		if n, at, ok := r.header(codeBin8); ok {
			return r.take(at, n, Bin)
		}
	}
	return nil, r.wrong(Bin)
}

// ReadArrayLen reads the start of an array; its elements follow. Their number never exceeds what the remaining bytes
// can hold.
func (r *Reader) ReadArrayLen() (int, error) {
	if r.pos < len(r.b) {
		switch c := r.b[r.pos]; {
		case c&0xf0 == codeFixArray:
			return r.count(r.pos+1, uint64(c&0xf), 1, Array)
		case c == codeArray16 || c == codeArray32:
			if n, at, ok := r.header(codeArray16 - 1); ok {
				return r.count(at, n, 1, Array)
			}
		}
	}
	return 0, r.wrong(Array)
}

// ReadMapLen reads the start of a map; as many keys, each with its value, follow. Their number never exceeds what the
// remaining bytes can hold.
func (r *Reader) ReadMapLen() (int, error) {
	if r.pos < len(r.b) {
		switch c := r.b[r.pos]; {
		case c&0xf0 == codeFixMap:
			return r.count(r.pos+1, uint64(c&0xf), 2, MapKind)
		case c == codeMap16 || c == codeMap32:
			if n, at, ok := r.header(codeMap16 - 1); ok {
				return r.count(at, n, 2, MapKind)
			}
		}
	}
	return 0, r.wrong(MapKind)
}

// count checks a container's length against the remaining bytes: an element has at least one byte.
func (r *Reader) count(at int, n, per uint64, kind Kind) (int, error) {
	if n*per > uint64(len(r.b)-at) {
		return 0, r.errorf("%v of %d elements, and %d bytes are left", kind, n, len(r.b)-at)
	}
	r.pos = at
	return int(n), nil
}

// ReadRaw reads one value of any kind and returns its encoded bytes.
func (r *Reader) ReadRaw() ([]byte, error) {
	start := r.pos
	if err := r.Skip(); err != nil {
		return nil, err
	}
	return r.b[start:r.pos:r.pos], nil
}

// Skip reads one value of any kind with its contents. It does not recurse, whatever the nesting.
func (r *Reader) Skip() error {
	for left := uint64(1); left > 0; left-- {
		if r.pos >= len(r.b) {
			return r.errorf("input ends, want a value")
		}
		var n uint64
		size := int(sizes[r.b[r.pos]])
		if size > 0 {
			if size > r.Remaining() {
				return r.wrong(r.Kind())
			}
			r.pos += size
			continue
		}
		switch r.Kind() {
		case Str:
			if _, err := r.rawString(); err != nil {
				return err
			}
		case Bin:
			if _, err := r.ReadBytes(); err != nil {
				return err
			}
		case Array:
			k, err := r.ReadArrayLen()
			if err != nil {
				return err
			}
			n = uint64(k)
		case MapKind:
			k, err := r.ReadMapLen()
			if err != nil {
				return err
			}
			n = 2 * uint64(k)
		default:
			return r.wrong(Invalid)
		}
		// Each remaining value needs a byte, so a chain of large headers is rejected early.
		if left += n; left-1 > uint64(r.Remaining()) {
			return r.errorf("%d more values announced, and %d bytes are left", left-1, r.Remaining())
		}
	}
	return nil
}

// sizes are the lengths of values that the first byte determines; 0 for others.
var sizes = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c < codeFixMap || c >= codeNegFix:
			t[c] = 1
		case c >= codeFixStr && c < codeNil:
			t[c] = uint8(1 + c&0x1f)
		}
	}
	t[codeNil], t[codeFalse], t[codeTrue] = 1, 1, 1
	t[codeFloat32], t[codeFloat64] = 5, 9
	for c := codeUint8; c <= codeInt64; c++ {
		t[c] = uint8(1 + 1<<(c&3))
	}
	return t
}()
