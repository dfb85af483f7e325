package pickle

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
)

// Options specify how Append encodes. The zero Options are protocol 4, which every Python since 3.4 reads, with
// everything in the pickle itself.
type Options struct {
	// Protocol is 4 or 5; 0 means 4.
	Protocol int
	// Buffers, if not nil, receives the memory of Buffer and Array values, which is then sent out of band. It needs
	// protocol 5. The memory is not copied: it must not change until it is sent.
	Buffers *[][]byte
	// Depth is the maximum nesting of containers. Default 2,048. It also ends Go values that contain themselves.
	Depth int
	// Nodes bounds the output beyond a small multiple of the nodes of v. Default 16,777,216.
	Nodes int
}

// Append appends the pickle of v to dst. v is a tree from Load, a Go value, or a mix:
//
//	nil, bool, all ints and floats, complex128, string, []byte, *big.Int     as they are
//	[]any and other slices and arrays                    list
//	map[string]any and other maps                        dict, its keys sorted
//	Tuple, *List, *Dict, *Set, *FrozenSet, *ByteArray    as they are
//	time.Time                                            aware datetime, with a fixed offset
//	time.Duration                                        timedelta
//	Global, *Object, *Buffer, *PersistentID              as they are
//	what Decode makes (NaiveTime, Date, UUID, *Array, …) what it was
//
// Nodes that occur in several places of v are one object in Python too, and cycles are preserved. Go's own slices and
// maps are written at each occurrence. datetime and timedelta are exact to a microsecond; finer resolution is
// truncated.
//
// After an error dst has its previous length.
func Append(dst []byte, v any, opts Options) ([]byte, error) {
	if opts.Protocol == 0 {
		opts.Protocol = 4
	}
	if opts.Protocol < 4 || opts.Protocol > highestProtocol {
		return dst, fmt.Errorf("pickle: cannot write protocol %d, only 4 and 5", opts.Protocol)
	}
	if opts.Buffers != nil && opts.Protocol < 5 {
		return dst, fmt.Errorf("pickle: out-of-band buffers need protocol 5, not %d", opts.Protocol)
	}
	if opts.Depth <= 0 {
		opts.Depth = Limits{}.withDefaults().Depth
	}
	if opts.Nodes <= 0 {
		opts.Nodes = maxNodes
	}
	w := writer{b: append(dst, opProto, byte(opts.Protocol)), opts: opts, budget: opts.Nodes}
	w.count(v)
	buffers := 0
	if opts.Buffers != nil {
		buffers = len(*opts.Buffers)
	}
	if err := w.value(v); err != nil {
		if opts.Buffers != nil {
			*opts.Buffers = (*opts.Buffers)[:buffers]
		}
		return dst, fmt.Errorf("pickle: %w", err)
	}
	return append(w.b, opStop), nil
}

// Dump is Append to a new slice, with the zero Options.
func Dump(v any) ([]byte, error) { return Append(nil, v, Options{}) }

// AppendGlobal appends the whole pickle of a global, as used in Dask's headers for a class under "type-serialized".
func AppendGlobal(dst []byte, module, name string) []byte {
	w := writer{b: append(dst, opProto, 4)}
	w.string(module)
	w.string(name)
	return append(w.b, opStackGlobal, opStop)
}

// writer is the state of one Append. It belongs to the goroutine that runs it.
type writer struct {
	b      []byte
	opts   Options
	depth  int
	budget int          // nodes that may still be written
	shared map[any]bool // identities that are there more than once
	cyclic bool         // remember all there is, see lateMemo
	memo   map[any]int  // places of those that are written
	base   map[any]int  // places of what others wrote before, see TaskWriter
	places int          // of the memo
}

// count finds the shared nodes. Only they are added to the memo.
func (w *writer) count(v Value) {
	n := 0
	switch v.(type) {
	case *List, Tuple, *Dict, *Set, *FrozenSet, *Object, *PersistentID, []any, map[string]any:
		seen := make(map[any]struct{})
		todo := []Value{v}
		later := func(c Value) bool {
			todo = append(todo, c)
			return true
		}
		for len(todo) > 0 && n <= maxNodes { // value reports more than that
			v := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			n++
			if id, ok := identity(v); ok {
				if _, there := seen[id]; there {
					if w.shared == nil {
						w.shared = make(map[any]bool)
					}
					w.shared[id] = true
					w.cyclic = w.cyclic || lateMemo(v)
					continue
				}
				seen[id] = struct{}{}
			}
			switch x := v.(type) {
			case []any:
				todo = append(todo, x...)
			case map[string]any:
				for _, c := range x {
					later(c)
				}
			default:
				children(v, later)
			}
		}
	}
	// A cycle through tuples writes some of them again, but not often in legitimate values.
	w.budget += 16 * n
}

// lateMemo reports whether a shared node is added to the memo only after its containers below. It may be part of a
// cycle, and is then written again inside itself, until a mutable container ends it, which must be in the memo even if
// it occurs only once. So must all other nodes, or they would be written as often.
func lateMemo(v Value) bool {
	var items []Value
	switch x := v.(type) {
	case Tuple:
		items = x
	case *FrozenSet:
		items = x.Items
	case *PersistentID:
		items = []Value{x.ID}
	case *Object:
		if items = x.Args; x.Kwargs.Len() > 0 {
			return true
		}
		if f, ok := x.Func.(*Object); ok {
			items = append(items[:len(items):len(items)], f)
		}
	}
	for _, it := range items {
		switch it.(type) {
		case *List, Tuple, *Dict, *Set, *FrozenSet, *Object, *PersistentID:
			return true
		}
	}
	return false
}

// uncounted writes a value that count has not seen, because it is inside a Go type.
func (w *writer) uncounted(v any) error {
	w.count(v)
	return w.value(v)
}

// maxNodes bounds the output of one Append beyond a multiple of its input.
const maxNodes = 1 << 24

// value writes one value and everything below it.
func (w *writer) value(v any) error {
	if w.budget--; w.budget < 0 {
		return fmt.Errorf("the value has more than %d nodes, or contains itself", maxNodes)
	}
	switch x := v.(type) {
	case nil:
		w.op(opNone)
		return nil
	case bool:
		if x {
			w.op(opNewTrue)
		} else {
			w.op(opNewFalse)
		}
		return nil
	case int64:
		w.int(x)
		return nil
	case int:
		w.int(int64(x))
		return nil
	case float64:
		w.float(x)
		return nil
	}
	if w.recall(v) {
		return nil
	}
	if w.depth++; w.depth > w.opts.Depth {
		return fmt.Errorf("the value has more than %d levels (Options.Depth), or contains itself", w.opts.Depth)
	}
	err := w.node(v)
	w.depth--
	return err
}

// node writes values other than numbers.
func (w *writer) node(v any) error {
	switch x := v.(type) {
	case string:
		w.string(x)
		w.remember(v)
	case []byte:
		w.bytes(x)
		w.remember(v)
	case *big.Int:
		w.big(x)
		w.remember(v)
	case Global:
		w.string(x.Module)
		w.string(x.Name)
		w.op(opStackGlobal)
		w.remember(v)
	case *ByteArray:
		return w.byteArray(x)
	case *Buffer:
		return w.buffer(x)
	case *PersistentID:
		if err := w.value(x.ID); err != nil {
			return err
		}
		if at, ok := w.memo[v]; ok { // see tuple
			w.op(opPop)
			w.get(at)
			return nil
		}
		w.op(opBinPersID)
		w.remember(v)
	case Tuple:
		return w.tuple(x)
	case *FrozenSet:
		return w.frozenSet(x)
	case *List:
		w.op(opEmptyList)
		w.remember(v)
		return w.marked(x.Items, opAppends)
	case *Set:
		w.op(opEmptySet)
		w.remember(v)
		return w.marked(x.Items, opAddItems)
	case *Dict:
		w.op(opEmptyDict)
		w.remember(v)
		return w.pairs(x.Items())
	case *Object:
		return w.object(x)
	default:
		return w.goValue(v)
	}
	return nil
}

func (w *writer) op(op byte) { w.b = append(w.b, op) }

// recall writes a reference to v, if it has been written.
func (w *writer) recall(v Value) bool {
	if len(w.memo) == 0 && len(w.base) == 0 {
		return false
	}
	id, ok := identity(v)
	if !ok {
		return false
	}
	at, ok := w.memo[id]
	if !ok {
		at, ok = w.base[id]
	}
	if ok {
		w.get(at)
	}
	return ok
}

func (w *writer) get(at int) {
	if at < 256 {
		w.b = append(w.b, opBinGet, byte(at))
	} else {
		w.b = binary.LittleEndian.AppendUint32(append(w.b, opLongBinGet), uint32(at))
	}
}

// remember adds the value just written to the memo, if v occurs again.
func (w *writer) remember(v Value) {
	if len(w.shared) == 0 {
		return
	}
	id, ok := identity(v)
	if !ok {
		return
	}
	if !w.cyclic && !w.shared[id] {
		return
	}
	w.memoize(id)
}

func (w *writer) memoize(id any) int {
	if w.memo == nil {
		w.memo = make(map[any]int)
	}
	at := w.places
	w.memo[id] = at
	w.places++
	w.op(opMemoize)
	return at
}

func (w *writer) int(x int64) {
	switch {
	case x >= 0 && x < 1<<8:
		w.b = append(w.b, opBinInt1, byte(x))
	case x >= 0 && x < 1<<16:
		w.b = append(w.b, opBinInt2, byte(x), byte(x>>8))
	case x >= math.MinInt32 && x <= math.MaxInt32:
		w.b = binary.LittleEndian.AppendUint32(append(w.b, opBinInt), uint32(int32(x)))
	default:
		w.b = binary.LittleEndian.AppendUint64(append(w.b, opLong1, 8), uint64(x))
	}
}

func (w *writer) float(x float64) {
	w.b = binary.BigEndian.AppendUint64(append(w.b, opBinFloat), math.Float64bits(x))
}

// big writes two's complement, little-endian, at most one byte longer than needed.
func (w *writer) big(x *big.Int) {
	if x == nil {
		w.op(opNone)
		return
	}
	if x.IsInt64() {
		w.int(x.Int64())
		return
	}
	n := x.BitLen()/8 + 1
	y := x
	if x.Sign() < 0 {
		y = new(big.Int).Add(x, new(big.Int).Lsh(big.NewInt(1), uint(8*n)))
	}
	if n < 256 {
		w.b = append(w.b, opLong1, byte(n))
	} else {
		w.b = binary.LittleEndian.AppendUint32(append(w.b, opLong4), uint32(n))
	}
	at := len(w.b)
	w.b = append(w.b, make([]byte, n)...)
	raw := w.b[at:]
	y.FillBytes(raw)
	for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
		raw[i], raw[j] = raw[j], raw[i]
	}
}
