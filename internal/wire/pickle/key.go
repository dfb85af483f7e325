package pickle

import (
	"encoding/binary"
	"math"
	"math/big"
	"time"
)

// keyBudget bounds the cost of one key, in bytes and items. A tuple beyond it (a few bytes of pickle can describe one
// with 2^100 items) is a key that equals nothing.
const keyBudget = 1 << 16

// Keys of types that must not equal each other, or that Go cannot compare.
type (
	noneKey  struct{}
	bytesKey string
	bigKey   string
	tupleKey string
	timeKey  struct {
		sec int64
		ns  int
	}
	naiveKey timeKey
)

// keyOf returns a comparable value that is the same for all values equal to v in Python, and its cost. ok is false for
// values that only equal themselves here: NaN, unhashable values, keys beyond the budget.
func keyOf(v Value, budget int) (k any, work int, ok bool) {
	switch x := v.(type) {
	case nil:
		return noneKey{}, 1, true
	case string:
		return v, 1 + len(x), true
	case int64:
		return v, 1, true
	case int: // of trees that Go made
		return int64(x), 1, true
	case bool:
		if x {
			return int64(1), 1, true
		}
		return int64(0), 1, true
	case float64:
		if i := int64(x); x >= -1<<63 && x < 1<<63 && float64(i) == x {
			return i, 1, true
		}
		if math.IsNaN(x) {
			return nil, 1, false
		}
		if x == math.Trunc(x) && !math.IsInf(x, 0) {
			b, _ := big.NewFloat(x).Int(nil)
			return bigKey(b.Text(62)), 32, true
		}
		return v, 1, true
	case *big.Int:
		if x.IsInt64() {
			return x.Int64(), 1, true
		}
		if n := x.BitLen() / 8; n < budget && n < 4096 {
			return bigKey(x.Text(62)), 8 + n*8, true
		}
		return v, 1, true
	case []byte:
		if len(x) > budget {
			return nil, 1, false
		}
		return bytesKey(x), 1 + len(x), true
	case Global, *Object, *FrozenSet, *PersistentID, *Buffer:
		return v, 1, true // the pointers are equal to themselves only
	case time.Time:
		return timeKey{x.Unix(), x.Nanosecond()}, 1, true
	case time.Duration, Date, UUID, Decimal, TimeDelta, Timezone, Path, complex128: // what Decode makes of keys
		return v, 1, true
	case NaiveTime:
		return naiveKey{x.Unix(), x.Nanosecond()}, 1, true
	case Tuple:
		b, left := appendTupleKey(nil, x, budget)
		return tupleKey(b), 1 + budget - left, left >= 0
	}
	return nil, 1, false
}

// appendTupleKey appends an encoding of the tuple that equal tuples share. Nodes that are only equal to themselves have
// none; they make the tuple a key without equals, reported by left < 0.
func appendTupleKey(b []byte, t Tuple, budget int) (out []byte, left int) {
	b = binary.AppendUvarint(append(b, 't'), uint64(len(t)))
	budget -= 1 + len(t)
	for _, v := range t {
		if budget < 0 {
			return b, -1
		}
		if inner, ok := v.(Tuple); ok {
			b, budget = appendTupleKey(b, inner, budget)
			continue
		}
		k, work, ok := keyOf(v, budget)
		if budget -= work; !ok || budget < 0 {
			return b, -1
		}
		switch k := k.(type) {
		case noneKey:
			b = append(b, 'n')
		case string:
			b = append(binary.AppendUvarint(append(b, 's'), uint64(len(k))), k...)
		case bytesKey:
			b = append(binary.AppendUvarint(append(b, 'b'), uint64(len(k))), k...)
		case bigKey:
			b = append(binary.AppendUvarint(append(b, 'L'), uint64(len(k))), k...)
		case int64:
			b = binary.AppendVarint(append(b, 'i'), k)
		case float64:
			b = binary.BigEndian.AppendUint64(append(b, 'f'), math.Float64bits(k))
		case Global:
			b = append(binary.AppendUvarint(append(b, 'g'), uint64(len(k.Module))), k.Module...)
			b = append(binary.AppendUvarint(b, uint64(len(k.Name))), k.Name...)
		default:
			return b, -1
		}
	}
	return b, budget
}
