package msgpack

// First bytes of values, as the MessagePack specification names them.
const (
	codeFixMap   = 0x80
	codeFixArray = 0x90
	codeFixStr   = 0xa0
	codeNil      = 0xc0
	codeFalse    = 0xc2
	codeTrue     = 0xc3
	codeBin8     = 0xc4
	codeBin16    = 0xc5
	codeBin32    = 0xc6
	codeFloat32  = 0xca
	codeFloat64  = 0xcb
	codeUint8    = 0xcc
	codeUint16   = 0xcd
	codeUint32   = 0xce
	codeUint64   = 0xcf
	codeInt8     = 0xd0
	codeInt16    = 0xd1
	codeInt32    = 0xd2
	codeInt64    = 0xd3
	codeStr8     = 0xd9
	codeStr16    = 0xda
	codeStr32    = 0xdb
	codeArray16  = 0xdc
	codeArray32  = 0xdd
	codeMap16    = 0xde
	codeMap32    = 0xdf
	codeNegFix   = 0xe0
)

// Kind is the kind of a value.
type Kind uint8

// Kinds of values. Invalid is also that of extension types, which Dask does not use.
const (
	Invalid Kind = iota
	Nil
	Bool
	Int
	Float
	Str
	Bin
	Array
	MapKind
)

var kindNames = [...]string{"nothing valid", "nil", "a bool", "an int", "a float", "a string", "bytes", "an array",
	"a map"}

// String returns the kind with its article, for messages.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Invalid]
}

// kinds maps a first byte to its value's kind.
var kinds = func() (t [256]Kind) {
	for c := range t {
		switch {
		case c < codeFixMap || c >= codeNegFix:
			t[c] = Int
		case c < codeFixArray:
			t[c] = MapKind
		case c < codeFixStr:
			t[c] = Array
		case c < codeNil:
			t[c] = Str
		}
	}
	t[codeNil] = Nil
	t[codeFalse], t[codeTrue] = Bool, Bool
	t[codeBin8], t[codeBin16], t[codeBin32] = Bin, Bin, Bin
	t[codeFloat32], t[codeFloat64] = Float, Float
	for c := codeUint8; c <= codeInt64; c++ {
		t[c] = Int
	}
	t[codeStr8], t[codeStr16], t[codeStr32] = Str, Str, Str
	t[codeArray16], t[codeArray32] = Array, Array
	t[codeMap16], t[codeMap32] = MapKind, MapKind
	return t
}()
