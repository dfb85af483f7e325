package pickle

import (
	"errors"
	"fmt"
)

// Decode converts a tree to Go values, which Append writes as the same Python objects.
//
//	None, bool, int, float, str, bytes   nil, bool, int64 or *big.Int, float64, string, []byte
//	list                                 []any
//	tuple, dict, set, frozenset          Tuple, *Dict, *Set, *FrozenSet, with decoded items
//	bytearray                            *ByteArray
//	complex, range, slice                complex128, Range, Slice
//	datetime, with and without tzinfo    time.Time, NaiveTime
//	date, time, timedelta, timezone      Date, TimeOfDay, time.Duration or TimeDelta, Timezone
//	Decimal, Fraction, UUID, Path        Decimal, *big.Rat, UUID, Path
//	OrderedDict, defaultdict, …          OrderedDict, DefaultDict, Counter, Deque
//	numpy arrays, scalars, dtypes        *Array, Scalar, *DType
//	pandas.Timestamp                     time.Time, NaiveTime
//	exceptions                           *Exception
//
// The names are compared with a list; nothing is imported. All other objects, and listed ones that are not in the form
// that Python writes, stay nodes, for example an *Object, and can be written again. Values that are shared in the tree
// are shared in the result, except for lists. A list, tuple, dict or set that contains itself is an error: such a tree
// has to be used directly.
func Decode(v Value) (any, error) {
	d := decoder{done: make(map[any]any), open: make(map[any]struct{})}
	r, err := d.value(v)
	if err != nil {
		return nil, fmt.Errorf("pickle: decode: %w", err)
	}
	return r, nil
}

// decoder is the state of one Decode.
type decoder struct {
	done  map[any]any      // results by the identity of nodes
	open  map[any]struct{} // containers that the current place is inside of
	depth int
	work  int // see keyWork
}

var errCycle = errors.New("a container contains itself: Go values cannot, use the tree")

// decodeDepth bounds the recursion for trees that were not loaded but constructed.
const decodeDepth = 10_000

func (d *decoder) value(v Value) (any, error) {
	switch v.(type) {
	case *List, Tuple, *Dict, *Set, *FrozenSet, *Object:
	default:
		return v, nil
	}
	id, ok := identity(v)
	if !ok {
		return v, nil // the empty tuple
	}
	if r, ok := d.done[id]; ok {
		return r, nil
	}
	if _, inside := d.open[id]; inside {
		return nil, errCycle
	}
	if d.depth++; d.depth > decodeDepth {
		return nil, limitText(fmt.Sprintf(" of %d levels", decodeDepth))
	}
	d.open[id] = struct{}{}
	r, err := d.container(v)
	delete(d.open, id)
	d.depth--
	if err != nil {
		return nil, err
	}
	d.done[id] = r
	return r, nil
}

func (d *decoder) container(v Value) (any, error) {
	switch x := v.(type) {
	case *List:
		return d.items(x.Items)
	case Tuple:
		items, err := d.items(x)
		return Tuple(items), err
	case *Set:
		items, err := d.items(x.Items)
		return &Set{Items: items}, err
	case *FrozenSet:
		items, err := d.items(x.Items)
		return &FrozenSet{Items: items}, err
	case *Dict:
		return d.dict(x)
	}
	o := v.(*Object)
	g, ok := o.Class()
	if !ok {
		return v, nil
	}
	build, ok := builders[g]
	if !ok {
		build, ok = builderByShape(g)
	}
	if !ok {
		return v, nil
	}
	r, ok, err := build(d, o)
	if err == nil && !ok {
		return v, nil
	}
	return r, err
}

func (d *decoder) items(items []Value) ([]any, error) {
	out := make([]any, len(items))
	for i, v := range items {
		r, err := d.value(v)
		if err != nil {
			return nil, err
		}
		out[i] = r
	}
	return out, nil
}

func (d *decoder) dict(x *Dict) (*Dict, error) {
	out := &Dict{items: make([]Item, 0, x.Len())}
	for k, v := range x.All() {
		key, err := d.value(k)
		if err != nil {
			return nil, err
		}
		value, err := d.value(v)
		if err != nil {
			return nil, err
		}
		if err := d.set(out, key, value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pairs decodes the items set in an object, as a dict.
func (d *decoder) pairs(o *Object) (*Dict, error) {
	out := new(Dict)
	for _, s := range o.Steps {
		if s.Kind != SetItem {
			continue
		}
		key, err := d.value(s.Key)
		if err != nil {
			return nil, err
		}
		value, err := d.value(s.Value)
		if err != nil {
			return nil, err
		}
		if err := d.set(out, key, value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// keyWork bounds the cost of the comparison of keys in one Decode, in bytes and items: a long key costs its length each
// time, but a reference to it is only two bytes of pickle.
const keyWork = 1 << 30

// set is Dict.Set within keyWork.
func (d *decoder) set(dict *Dict, key, value Value) error {
	k, work, ok := keyOf(key, keyBudget)
	if d.work += work; d.work > keyWork {
		return limitText(fmt.Sprintf(" of %d for the comparison of keys", keyWork))
	}
	dict.set(key, value, k, ok)
	return nil
}

// builder decodes an object of its class. ok is false if the object does not have the form that Python writes.
type builder func(d *decoder, o *Object) (v any, ok bool, err error)

// builders are the classes that Decode supports.
var builders map[Global]builder

func init() { // the builders refer to Decode, and so to the list
	builders = make(map[Global]builder)
	for module, list := range map[string]map[string]builder{
		"builtins": {"complex": buildComplex, "range": buildRange, "slice": buildSlice, "set": buildSet,
			"frozenset": buildFrozenSet,
			"bytes":     buildBytes, "bytearray": buildByteArray},
		"_codecs": {"encode": buildBytes},
		"datetime": {"datetime": buildDatetime, "date": buildDate, "time": buildTime, "timedelta": buildTimeDelta,
			"timezone": buildTimezone},
		"decimal":   {"Decimal": buildDecimal},
		"fractions": {"Fraction": buildFraction},
		"uuid":      {"UUID": buildUUID},
		"collections": {"OrderedDict": buildOrderedDict, "defaultdict": buildDefaultDict, "Counter": buildCounter,
			"deque": buildDeque},
		// pathlib became a package in Python 3.13.
		"pathlib": {"PosixPath": buildPath, "PurePosixPath": buildPath, "WindowsPath": buildPath,
			"PureWindowsPath": buildPath},
		"pathlib._local": {"PosixPath": buildPath, "PurePosixPath": buildPath, "WindowsPath": buildPath,
			"PureWindowsPath": buildPath},
		"numpy":                          {"dtype": buildDType, "ndarray": buildArrayCall},
		"numpy._core.multiarray":         {"_reconstruct": buildArrayState, "scalar": buildScalar},
		"numpy.core.multiarray":          {"_reconstruct": buildArrayState, "scalar": buildScalar},
		"numpy._core.numeric":            {"_frombuffer": buildArrayBuffer},
		"numpy.core.numeric":             {"_frombuffer": buildArrayBuffer},
		"pandas._libs.tslibs.timestamps": {"_unpickle_timestamp": buildTimestamp},
		"tblib.pickling_support": {"unpickle_exception": buildException,
			"unpickle_exception_with_attrs": buildException},
	} {
		for name, build := range list {
			builders[Global{module, name}] = build
		}
	}
}

// builderByShape recognizes exceptions by their names.
func builderByShape(g Global) (builder, bool) {
	if looksLikeException(g) {
		return buildException, true
	}
	return nil, false
}

// AsBytes returns the bytes of a node that is bytes, a bytearray or a buffer, also in the form of protocol 2, a call of
// _codecs.encode.
func AsBytes(v Value) ([]byte, bool) {
	switch x := v.(type) {
	case []byte:
		return x, true
	case *ByteArray:
		return x.Data, true
	case *Buffer:
		return x.Data, true
	case *Object:
		g, _ := x.Class()
		switch {
		case len(x.Steps) > 0 || x.Kind != Reduce:
		case g.Is("_codecs", "encode") && len(x.Args) == 2 &&
			(x.Args[1] == Value("latin1") || x.Args[1] == Value("latin-1")):
			s, ok := x.Args[0].(string)
			if !ok {
				return nil, false
			}
			return latin1(s)
		case (g.Is("builtins", "bytes") || g.Is("builtins", "bytearray")) && len(x.Args) == 0:
			return []byte{}, true
		case (g.Is("builtins", "bytes") || g.Is("builtins", "bytearray")) && len(x.Args) == 1:
			if inner, ok := x.Args[0].(*Object); ok {
				// Only one level, as written by Python.
				if g, _ := inner.Class(); !g.Is("_codecs", "encode") {
					return nil, false
				}
			}
			return AsBytes(x.Args[0])
		}
	}
	return nil, false
}

func latin1(s string) ([]byte, bool) {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return nil, false
		}
		b = append(b, byte(r))
	}
	return b, true
}

// call reports whether o is a call without steps, with from min to max arguments.
func (o *Object) call(min, max int) bool {
	return o.Kind == Reduce && len(o.Steps) == 0 && len(o.Args) >= min && len(o.Args) <= max
}

func buildBytes(_ *decoder, o *Object) (any, bool, error) {
	b, ok := AsBytes(o)
	return b, ok, nil
}

func buildByteArray(_ *decoder, o *Object) (any, bool, error) {
	b, ok := AsBytes(o)
	return &ByteArray{Data: b}, ok, nil
}

// buildSet decodes sets of protocols 2 and 3: set([item, …]).
func buildSet(d *decoder, o *Object) (any, bool, error) {
	items, ok, err := d.setItems(o)
	return &Set{Items: items}, ok, err
}

func buildFrozenSet(d *decoder, o *Object) (any, bool, error) {
	items, ok, err := d.setItems(o)
	return &FrozenSet{Items: items}, ok, err
}

func (d *decoder) setItems(o *Object) ([]any, bool, error) {
	if o.call(0, 0) {
		return nil, true, nil
	}
	if !o.call(1, 1) {
		return nil, false, nil
	}
	l, ok := o.Args[0].(*List)
	if !ok {
		return nil, false, nil
	}
	items, err := d.items(l.Items)
	if err != nil {
		return nil, false, err
	}
	unique := new(Dict)
	for _, v := range items {
		if err := d.set(unique, v, nil); err != nil {
			return nil, false, err
		}
	}
	items = items[:0]
	for v := range unique.All() {
		items = append(items, v)
	}
	return items, true, nil
}
