package wire

import (
	"bytes"
	"math/big"
	"slices"
	"time"

	"go.millstream.dev/internal/wire/libcodec"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
)

// Values that cross between Go and Python have these Go types:
//
//	None          nil
//	bool          bool
//	int           int64; *big.Int beyond its range (uint64 in message bodies)
//	float         float64
//	complex       complex128
//	str           string
//	bytes         []byte
//	bytearray     ByteArray
//	list          []any (tuples of message bodies, too: msgpack does not tell them apart)
//	tuple         Tuple
//	dict          Dict
//	set           Set
//	frozenset     FrozenSet
//	datetime      time.Time; NaiveTime without a time zone
//	date          Date
//	time          TimeOfDay
//	timedelta     time.Duration
//	Decimal, UUID, Path, range, timezone, long timedeltas, numpy scalars   those of package pickle
//	exception     *Exception
//	ndarray       *NDArray
//	pyarrow       arrow.Table, arrow.RecordBatch, if package frame is imported
//	GPU arrays    *DeviceArray
//	others        *Object, which can be passed on unchanged

// Dict is Python's dict: an ordered map whose keys may be any hashable Python value.
type Dict = msgpack.Map

// NewDict returns a dict of alternating keys and values. It panics if their number is odd.
func NewDict(keysAndValues ...any) Dict { return msgpack.MapOf(keysAndValues...) }

// Pair is one entry of a Dict.
type Pair = msgpack.Pair

// Tuple is Python's tuple.
type Tuple = pickle.Tuple

// Set is Python's set. The order is not significant.
type Set []any

// FrozenSet is Python's frozenset. The order is not significant.
type FrozenSet []any

// ByteArray is Python's bytearray.
type ByteArray []byte

// NaiveTime is a datetime without a time zone. Its fields are those of Time in UTC; only the sender knows which instant
// it is. Python's resolution is a microsecond.
type NaiveTime = pickle.NaiveTime

// Date is Python's date.
type Date = pickle.Date

// TimeOfDay is Python's time.
type TimeOfDay = pickle.TimeOfDay

// Exception is a Python exception, and an error. To send one, use Serialize with it.
type Exception = pickle.Exception

// Enum is a member of a Python enumeration, such as distributed.core.Status.running.
type Enum struct {
	// Module and Class identify the enumeration, Name its member.
	Module, Class, Name string
}

// pickledInBody reports whether a value has no msgpack form, such as complex numbers, big integers and other types of
// this list: in a message body they are sent pickled.
func pickledInBody(v any) bool {
	switch v.(type) {
	case *big.Int, complex128, FrozenSet, ByteArray, time.Time, NaiveTime, Date, TimeOfDay, time.Duration, *Exception,
		*big.Rat, pickle.TimeDelta, pickle.Timezone, pickle.Decimal, pickle.UUID, pickle.Path, pickle.Range,
		pickle.Scalar:
		return true
	}
	return false
}

// serializedInBody reports whether a value has its own family.
func serializedInBody(v any) bool {
	switch v.(type) {
	case *NDArray, *DeviceArray, *Object:
		return true
	}
	return libcodec.Has(v)
}

// Clone copies a decoded value so that it shares no memory with its message. Values of Arrow and opaque ones take
// references to counted buffers instead, and copy heap memory.
func Clone(v any) any {
	switch v := v.(type) {
	case []byte:
		return bytes.Clone(v)
	case ByteArray:
		return ByteArray(bytes.Clone(v))
	case []any:
		return cloneAll(v)
	case Tuple:
		return Tuple(cloneAll(v))
	case Set:
		return Set(cloneAll(v))
	case FrozenSet:
		return FrozenSet(cloneAll(v))
	case Dict:
		if v == nil {
			return v
		}
		out := make(Dict, len(v))
		for i, p := range v {
			out[i] = Pair{Key: Clone(p.Key), Value: Clone(p.Value)}
		}
		return out
	case *NDArray:
		return v.clone()
	case *DeviceArray:
		c := *v
		c.Frame = v.Frame.clone()
		return &c
	case *Object:
		return &Object{Type: v.Type, Header: Clone(v.Header).(Dict), Frames: cloneFrames(v.Frames)}
	case *Serialized:
		return &Serialized{Header: bytes.Clone(v.Header), Frames: cloneFrames(v.Frames)}
	case *Pickled:
		return &Pickled{Data: bytes.Clone(v.Data), Buffers: cloneFrames(v.Buffers), Compression: v.Compression}
	}
	if c, class := libcodec.For(v); c != nil {
		return c.Clone(v, class)
	}
	return v
}

func cloneAll(in []any) []any {
	out := slices.Clone(in)
	for i, v := range out {
		out[i] = Clone(v)
	}
	return out
}

// clone copies heap memory and retains counted buffers.
func (f Frame) clone() Frame {
	if f.buf == nil {
		f.data = bytes.Clone(f.data)
		return f
	}
	return f.Retain()
}

func cloneFrames(in []Frame) []Frame {
	out := slices.Clone(in)
	for i, f := range out {
		out[i] = f.clone()
	}
	return out
}
