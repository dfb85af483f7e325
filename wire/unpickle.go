package wire

import (
	"bytes"
	"math/big"
	"time"
	"unsafe"

	"go.millstream.dev/internal/wire/bridge"
	"go.millstream.dev/internal/wire/pickle"
)

// unpickle returns the value of a pickle, without executing anything in it. known is false if it contains a value
// without a Go type: the pickle is then kept encoded.
func (d *decoder) unpickle(data []byte, bufs [][]byte) (v any, known bool, err error) {
	tree, err := pickle.Load(data, bufs, d.opt.Pickle)
	if err != nil {
		return nil, false, err
	}
	// pandas' Timestamp has nanoseconds and a class that a Go time would lose.
	if bytes.Contains(data, []byte("_unpickle_timestamp")) {
		return nil, false, nil
	}
	v, err = pickle.Decode(tree)
	if err != nil {
		return nil, false, nil // it contains itself, which a Go value cannot do
	}
	u := unpickler{left: spelledOut*len(data) + 1<<16, depth: maxPickleDepth}
	v, n := u.value(v)
	if u.unknown || n > u.left {
		return nil, false, nil
	}
	return v, true, nil
}

// spelledOut bounds the number of values of a pickle by its bytes. With shared parts a few bytes can stand for many
// values, and iterating over the result would take forever.
const spelledOut = 8

// maxPickleDepth bounds recursion, as pickle.Limits.Depth does.
const maxPickleDepth = 2048

// unpickler converts values of package pickle to this package's types.
type unpickler struct {
	done    map[sharedID]result
	unknown bool // there is a value without a Go type
	left    int  // values that the result may have, with shared parts counted each time
	depth   int
}

// sharedID identifies containers by their memory.
type sharedID struct {
	at unsafe.Pointer
	n  int
}

// result is a converted container and the number of values in it, with shared parts counted each time.
type result struct {
	v any
	n int
}

// value converts v and counts the values in it.
func (u *unpickler) value(v any) (any, int) {
	switch x := v.(type) {
	case nil, bool, int64, float64, complex128, string, []byte, *big.Int, *big.Rat, *Exception,
		time.Time, time.Duration, NaiveTime, Date, TimeOfDay, pickle.TimeDelta, pickle.Timezone,
		pickle.Decimal, pickle.UUID, pickle.Path, pickle.Range, pickle.Scalar:
		return v, 1
	case []any:
		return u.list(x, func(l []any) any { return l })
	case Tuple:
		return u.list(x, func(l []any) any { return Tuple(l) })
	case *pickle.Set:
		return u.list(x.Items, func(l []any) any { return Set(l) })
	case *pickle.FrozenSet:
		return u.list(x.Items, func(l []any) any { return FrozenSet(l) })
	case *pickle.ByteArray:
		return ByteArray(x.Data), 1
	case *pickle.Dict:
		return u.dict(x)
	}
	if a, ok := fromPickleArray(v); ok {
		return a, 1
	}
	u.unknown = true
	return nil, 1
}

// list converts a sequence. A shared one is converted once, so that the work is bounded by the bytes.
func (u *unpickler) list(in []any, wrap func([]any) any) (any, int) {
	if len(in) == 0 {
		return wrap([]any{}), 1
	}
	id := sharedID{unsafe.Pointer(&in[0]), len(in)}
	if r, ok := u.done[id]; ok {
		return wrap(r.v.([]any)), r.n
	}
	if !u.enter() {
		return nil, 1
	}
	out, n := make([]any, len(in)), 1
	for i, x := range in {
		var k int
		out[i], k = u.value(x)
		n = u.add(n, k)
	}
	u.leave(id, out, n)
	return wrap(out), n
}

func (u *unpickler) dict(in *pickle.Dict) (any, int) {
	items := in.Items()
	if len(items) == 0 {
		return Dict{}, 1
	}
	id := sharedID{unsafe.Pointer(in), -1}
	if r, ok := u.done[id]; ok {
		return r.v, r.n
	}
	if !u.enter() {
		return nil, 1
	}
	out, n := make(Dict, len(items)), 1
	for i, it := range items {
		k, a := u.value(it.Key)
		v, b := u.value(it.Value)
		out[i] = Pair{Key: k, Value: v}
		n = u.add(n, u.add(a, b))
	}
	u.leave(id, out, n)
	return out, n
}

// enter descends one level, unless the outcome is already decided.
func (u *unpickler) enter() bool {
	if u.unknown || u.depth == 0 {
		u.unknown = true
		return false
	}
	u.depth--
	return true
}

func (u *unpickler) leave(id sharedID, v any, n int) {
	u.depth++
	if u.done == nil {
		u.done = make(map[sharedID]result)
	}
	u.done[id] = result{v, n}
}

// add adds with saturation.
func (u *unpickler) add(a, b int) int { return min(a+b, u.left+1) }

func init() { bridge.FromPickle = fromPickle }

// fromPickle implements bridge.FromPickle.
func fromPickle(v any) (any, bool) {
	u := unpickler{left: maxFromPickle, depth: maxPickleDepth}
	out, n := u.value(v)
	if u.unknown || n > u.left {
		return nil, false
	}
	return out, true
}

// maxFromPickle bounds the values of a result, with shared parts counted each time, if the length of the pickle is
// unknown.
const maxFromPickle = 1 << 24
