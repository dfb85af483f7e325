package msgpack

import "fmt"

// Task keys are strings, bytes, numbers, and arrays of these at any depth. They are encoded as msgpack, in which one
// value has several forms; the canonical form is the shortest, so that equal keys have equal bytes.

// maxKeyDepth is far beyond the nesting of real keys.
const maxKeyDepth = 64

// ReadKey reads a task key and returns its canonical bytes: those of the message if they are canonical, as those of
// Python always are, otherwise scratch with them appended.
func (r *Reader) ReadKey(scratch []byte) ([]byte, error) {
	start := r.pos
	ok, err := r.canonical(maxKeyDepth)
	if err != nil {
		r.pos = start
		return nil, err
	}
	if ok {
		return r.b[start:r.pos:r.pos], nil
	}
	again := Reader{b: r.b[:r.pos], pos: start}
	return again.appendKey(scratch)
}

// canonical reads a key and reports whether its bytes are canonical.
func (r *Reader) canonical(depth int) (bool, error) {
	start := r.pos
	switch r.Kind() {
	case Str:
		s, err := r.ReadStringBytes()
		return r.pos-start == len(s)+headerLen(len(s), 32), err
	case Bin:
		s, err := r.ReadBytes()
		return r.pos-start == len(s)+headerLen(len(s), 0), err
	case Int:
		v, neg, err := r.integer()
		return r.pos-start == intLen(v, neg), err
	case Float:
		c := r.b[r.pos]
		_, err := r.ReadFloat()
		return c == codeFloat64, err
	case Bool:
		_, err := r.ReadBool()
		return true, err
	case Array:
		if depth == 0 {
			return false, r.errorf("task key is nested too deeply")
		}
		n, err := r.ReadArrayLen()
		if err != nil {
			return false, err
		}
		all := n < 16 && r.pos-start == 1 || n >= 16 && n < 1<<16 && r.pos-start == 3 || n >= 1<<16
		for range n {
			ok, err := r.canonical(depth - 1)
			if err != nil {
				return false, err
			}
			all = all && ok
		}
		return all, nil
	}
	return false, r.errorf("%v is not a task key", r.Kind())
}

// headerLen returns the length of the shortest header for n bytes.
func headerLen(n, fix int) int {
	switch {
	case n < fix:
		return 1
	case n < 1<<8:
		return 2
	case n < 1<<16:
		return 3
	}
	return 5
}

func intLen(v int64, neg bool) int {
	var buf [9]byte
	if neg {
		return len(AppendInt(buf[:0], v))
	}
	return len(AppendUint(buf[:0], uint64(v)))
}

// appendKey appends the canonical form of a validated key.
func (r *Reader) appendKey(dst []byte) ([]byte, error) {
	switch r.Kind() {
	case Str:
		s, err := r.ReadStringBytes()
		return AppendStringBytes(dst, s), err
	case Bin:
		s, err := r.ReadBytes()
		return AppendBytes(dst, s), err
	case Int:
		v, neg, err := r.integer()
		if neg {
			return AppendInt(dst, v), err
		}
		return AppendUint(dst, uint64(v)), err
	case Float:
		v, err := r.ReadFloat()
		return AppendFloat(dst, v), err
	case Bool:
		v, err := r.ReadBool()
		return AppendBool(dst, v), err
	}
	n, err := r.ReadArrayLen()
	if err != nil {
		return dst, err
	}
	dst = AppendArrayHeader(dst, n)
	for range n {
		if dst, err = r.appendKey(dst); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// KeyBytes returns the canonical bytes of a task key given as a value.
func KeyBytes(key any) ([]byte, error) {
	b, err := Append(nil, key)
	if err != nil {
		return nil, err
	}
	r := NewReader(b)
	if b, err = r.ReadKey(nil); err != nil {
		return nil, fmt.Errorf("msgpack: %.60v is not a task key: %w", key, err)
	}
	return b, nil
}
