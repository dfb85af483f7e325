package msgpack

import (
	"encoding/binary"
	"math"
)

// AppendNil appends a nil.
func AppendNil(dst []byte) []byte { return append(dst, codeNil) }

// AppendBool appends a bool.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, codeTrue)
	}
	return append(dst, codeFalse)
}

// AppendInt appends an integer in its shortest form.
func AppendInt(dst []byte, v int64) []byte {
	switch {
	case v >= 0:
		return AppendUint(dst, uint64(v))
	case v >= -32:
		return append(dst, byte(v))
	case v >= math.MinInt8:
		return append(dst, codeInt8, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, codeInt16), uint16(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, codeInt32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, codeInt64), uint64(v))
}

// AppendUint appends an integer in its shortest form.
func AppendUint(dst []byte, v uint64) []byte {
	switch {
	case v < codeFixMap:
		return append(dst, byte(v))
	case v <= math.MaxUint8:
		return append(dst, codeUint8, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, codeUint16), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, codeUint32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, codeUint64), v)
}

// AppendFloat appends a float of 64 bits, as Python always does.
func AppendFloat(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, codeFloat64), math.Float64bits(v))
}

// MaxLen is the maximum length of a string, bytes, array or map.
const MaxLen = math.MaxUint32

// AppendStringHeader appends the start of a string of n bytes of UTF-8.
func AppendStringHeader(dst []byte, n int) []byte {
	switch {
	case n < 32:
		return append(dst, codeFixStr|byte(n))
	case n <= math.MaxUint8:
		return append(dst, codeStr8, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, codeStr16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, codeStr32), uint32(n))
}

// AppendString appends a string, which must be UTF-8 of at most MaxLen bytes.
func AppendString(dst []byte, s string) []byte {
	return append(AppendStringHeader(dst, len(s)), s...)
}

// AppendStringBytes appends a string given as bytes.
func AppendStringBytes(dst, s []byte) []byte {
	return append(AppendStringHeader(dst, len(s)), s...)
}

// AppendBytesHeader appends the start of n bytes.
func AppendBytesHeader(dst []byte, n int) []byte {
	switch {
	case n <= math.MaxUint8:
		return append(dst, codeBin8, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, codeBin16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, codeBin32), uint32(n))
}

// AppendBytes appends bytes, of which there are at most MaxLen.
func AppendBytes(dst, b []byte) []byte { return append(AppendBytesHeader(dst, len(b)), b...) }

// AppendArrayHeader appends the start of an array whose n elements follow.
func AppendArrayHeader(dst []byte, n int) []byte {
	switch {
	case n < 16:
		return append(dst, codeFixArray|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, codeArray16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, codeArray32), uint32(n))
}

// AppendMapHeader appends the start of a map of which n keys, each with its value, follow.
func AppendMapHeader(dst []byte, n int) []byte {
	switch {
	case n < 16:
		return append(dst, codeFixMap|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, codeMap16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, codeMap32), uint32(n))
}
