package pygraph

import (
	"unicode/utf8"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
)

// Bounds of one key: a few bytes of pickle can describe a tuple with 2^100 items.
const (
	keyDepth = 16
	keyBytes = 64 << 10
)

// key returns the canonical form of a key in a pickle.
func (s *splitter) key(v pickle.Value) (task.Key, error) {
	n := 64
	if text, ok := v.(string); ok {
		n = len(text) + 5
	}
	b, ok := appendKey(s.mem.room(n), v, keyDepth)
	if !ok {
		return "", needsPython("%.100s as a key", pickle.Repr(v))
	}
	b = s.mem.keep(b)
	return task.Key(msgpack.Borrow(b)), nil
}

// appendKey appends str, bytes, int, float and tuples of them as msgpack. Of values that are equal in Python (1, 1.0
// and True) only one form is accepted.
func appendKey(dst []byte, v pickle.Value, depth int) ([]byte, bool) {
	if depth == 0 || len(dst) > keyBytes {
		return dst, false
	}
	switch x := v.(type) {
	case string:
		if len(x) > keyBytes || !utf8.ValidString(x) {
			return dst, false
		}
		return msgpack.AppendString(dst, x), true
	case int64:
		return msgpack.AppendInt(dst, x), true
	case float64:
		if x == float64(int64(x)) {
			return dst, false
		}
		return msgpack.AppendFloat(dst, x), true
	case []byte:
		if len(x) > keyBytes {
			return dst, false
		}
		return msgpack.AppendBytes(dst, x), true
	case pickle.Tuple:
		ok := true
		dst = msgpack.AppendArrayHeader(dst, len(x))
		for _, item := range x {
			if dst, ok = appendKey(dst, item, depth-1); !ok {
				return dst, false
			}
		}
		return dst, true
	}
	return dst, false
}
