package arrayif

import (
	"strconv"
	"strings"
)

// itemSizes are the valid element sizes of NumPy's type letters, in bytes. Nil means any size.
var itemSizes = map[byte][]int64{
	'b': {1},              // bool
	'i': {1, 2, 4, 8, 16}, // signed
	'u': {1, 2, 4, 8, 16}, // unsigned
	'f': {2, 4, 8, 12, 16},
	'c': {4, 8, 16, 24, 32},
	'm': {8}, // timedelta
	'M': {8}, // datetime
	'S': nil, // bytes
	'U': nil, // UCS-4 characters
	'V': nil, // structure or raw bytes
}

// maxItem bounds the element size of letters with any size.
const maxItem = 1 << 31

// typeSize returns the size in bytes of an element of NumPy's array-interface type
// string, for example "<f4", "|u1" or "<M8[ns]".
func typeSize(typestr string) (int64, error) {
	bad := func(why string) error {
		return refuse(ErrType, "typestr %.32q: %s", typestr, why)
	}
	if len(typestr) < 3 {
		return 0, bad("want a byte order, a letter and a size, such as <f4")
	}
	order, letter, digits := typestr[0], typestr[1], typestr[2:]
	if !strings.ContainsRune("<>|=", rune(order)) {
		return 0, bad("byte order must be <, >, | or =")
	}
	switch letter {
	case 'O':
		return 0, bad("elements are pointers to Python objects")
	case 't':
		return 0, bad("bit fields have no size in bytes")
	}
	sizes, ok := itemSizes[letter]
	if !ok {
		return 0, bad("unknown type letter " + strconv.QuoteRune(rune(letter)))
	}
	if letter == 'm' || letter == 'M' {
		// The unit follows in brackets and does not affect the size.
		if at := strings.IndexByte(digits, '['); at >= 0 {
			if !strings.HasSuffix(digits, "]") {
				return 0, bad("unit without closing bracket")
			}
			digits = digits[:at]
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > maxItem || digits[0] == '+' || digits[0] == '-' {
		return 0, bad("size must be a number of bytes")
	}
	if letter == 'U' {
		// The size counts characters of four bytes.
		n *= 4
	}
	if sizes == nil {
		return n, nil
	}
	for _, s := range sizes {
		if s == n {
			return n, nil
		}
	}
	return 0, bad("invalid size for this type letter")
}
