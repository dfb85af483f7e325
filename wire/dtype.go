package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// DType is the type of an array's elements in the form of numpy's dtype.str: byte order ('<' little, '>' big, '|'
// none), kind, bytes per element, and for times the unit, such as "<f8", "|b1", ">i4", "<c16", "<U5", "|S3", "<M8[ns]".
type DType string

// Types of elements on the machines that Millstream runs on.
const (
	Bool       DType = "|b1"
	Int8       DType = "|i1"
	Int16      DType = "<i2"
	Int32      DType = "<i4"
	Int64      DType = "<i8"
	Uint8      DType = "|u1"
	Uint16     DType = "<u2"
	Uint32     DType = "<u4"
	Uint64     DType = "<u8"
	Float32    DType = "<f4"
	Float64    DType = "<f8"
	Complex64  DType = "<c8"
	Complex128 DType = "<c16"
)

// maxItemSize bounds an element: strings in numpy arrays have a fixed length, and some are long.
const maxItemSize = 1 << 30

// kind returns numpy's letter for the kind of type: 'b' bool, 'i' int, 'u' uint, 'f' float, 'c' complex, 'm' timedelta,
// 'M' datetime, 'S' bytes, 'U' text (of 4 bytes each), 'V' raw.
func (d DType) kind() byte {
	if len(d) < 2 {
		return 0
	}
	return d[1]
}

// bigEndian reports whether elements are big-endian.
func (d DType) bigEndian() bool { return len(d) > 0 && d[0] == '>' }

// ItemSize returns the length of an element in bytes; 0 if the type is not valid.
func (d DType) ItemSize() int {
	n, err := d.parse()
	if err != nil {
		return 0
	}
	return n
}

// parse returns the length of an element in bytes, or an error if the type is not one of numpy's plain types.
func (d DType) parse() (size int, err error) {
	bad := func(why string) (int, error) {
		return 0, fmt.Errorf("wire: %.40q is not a plain type of numpy: %s", string(d), why)
	}
	if len(d) < 3 || !strings.ContainsRune("<>|=", rune(d[0])) {
		return bad("want a byte order, a kind and a length, as in <f8")
	}
	digits, unit, timed := strings.Cut(string(d[2:]), "[")
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return bad("length is not a number")
	}
	if timed && (!strings.HasSuffix(unit, "]") || len(unit) < 2) || timed != (timed && (d[1] == 'm' || d[1] == 'M')) {
		return bad("only times have a unit in brackets")
	}
	ok := false
	switch d[1] {
	case 'b':
		ok = n == 1
	case 'i', 'u':
		ok = n == 1 || n == 2 || n == 4 || n == 8
	case 'f':
		ok = n == 2 || n == 4 || n == 8 || n == 12 || n == 16
	case 'c':
		ok = n == 8 || n == 16 || n == 24 || n == 32
	case 'm', 'M':
		ok = n == 8
	case 'S', 'V':
		ok = n <= maxItemSize
	case 'U':
		ok = n <= maxItemSize/4
		n *= 4
	}
	if !ok {
		return bad("unknown kind and length")
	}
	return int(n), nil
}
