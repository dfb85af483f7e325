package pickle

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strings"
	"testing"
)

var inf = math.Inf(1)

// load reads a pickle that must be good.
func load(t *testing.T, data string, buffers ...[]byte) Value {
	t.Helper()
	v, err := Load([]byte(data), buffers, Limits{})
	if err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	return v
}

func TestLoadScalars(t *testing.T) {
	huge := new(big.Int).Lsh(big.NewInt(1), 64)
	for _, c := range []struct {
		pickle string
		want   Value
	}{
		{"N.", nil},
		{"\x80\x02\x88.", true},
		{"\x80\x02\x89.", false},
		{"I01\n.", true},
		{"I00\n.", false},
		{"I-7\n.", int64(-7)},
		{"I0x10\n.", int64(16)},
		{"L18446744073709551616L\n.", huge},
		{"K\xff.", int64(255)},
		{"M\x01\x02.", int64(513)},
		{"J\xff\xff\xff\xff.", int64(-1)},
		{"\x8a\x00.", int64(0)},
		{"\x8a\x01\xff.", int64(-1)},
		{"\x8a\x02\xff\x00.", int64(255)},
		{"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.", int64(-1 << 63)},
		{"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", huge},
		{"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\xff.", int64(-1 << 63)},
		{"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\xff.", new(big.Int).Neg(huge)},
		{"\x8b\x01\x00\x00\x00\x05.", int64(5)},
		{"F1.5\n.", 1.5},
		{"F1e999\n.", inf},
		{"G?\xf8\x00\x00\x00\x00\x00\x00.", 1.5},
		{"S'a\\n\\x41\\101\\q'\n.", "a\nAA\\q"},
		{"U\x02ab.", "ab"},
		{"T\x02\x00\x00\x00ab.", "ab"},
		{"V\xe9\\u20ac\\\\u0041\\U0001f600\n.", "é€\\\\u0041😀"},
		{"V\\ud83d\n.", "\xed\xa0\xbd"},
		{"X\x02\x00\x00\x00\xc3\xa9.", "é"},
		{"\x8c\x03\xed\xa0\xbd.", "\xed\xa0\xbd"},
		{"\x8d\x01\x00\x00\x00\x00\x00\x00\x00a.", "a"},
		{"C\x01\xff.", []byte{0xff}},
		{"B\x01\x00\x00\x00\xff.", []byte{0xff}},
		{"\x8e\x01\x00\x00\x00\x00\x00\x00\x00\xff.", []byte{0xff}},
		{"\x96\x01\x00\x00\x00\x00\x00\x00\x00\xff.", &ByteArray{Data: []byte{0xff}}},
		{"cos\nsystem\n.", Global{"os", "system"}},
		{"c__builtin__\nxrange\n.", Global{"builtins", "range"}},
		{"cexceptions\nStandardError\n.", Global{"builtins", "Exception"}},
		{"c__builtin__\nset\n.", Global{"builtins", "set"}},
		{"\x80\x03c__builtin__\nset\n.", Global{"__builtin__", "set"}},
		{"\x8c\x02os\x8c\x06system\x93.", Global{"os", "system"}},
		{"P17\n.", &PersistentID{ID: "17"}},
		{"K\x11Q.", &PersistentID{ID: int64(17)}},
	} {
		if got := load(t, c.pickle); !Equal(got, c.want) {
			t.Errorf("%q: %s, want %s", c.pickle, Repr(got), Repr(c.want))
		}
	}
}

func TestLoadContainers(t *testing.T) {
	one, two := int64(1), int64(2)
	for _, c := range []struct {
		pickle string
		want   Value
	}{
		{").", Tuple{}},
		{"(t.", Tuple{}},
		{"K\x01\x85.", Tuple{one}},
		{"K\x01K\x02\x86.", Tuple{one, two}},
		{"K\x01K\x02N\x87.", Tuple{one, two, nil}},
		{"(K\x01K\x02K\x01K\x02t.", Tuple{one, two, one, two}},
		{"].", &List{}},
		{"(K\x01l.", &List{Items: []Value{one}}},
		{"]K\x01a.", &List{Items: []Value{one}}},
		{"](K\x01K\x02e(e.", &List{Items: []Value{one, two}}},
		{"}.", &Dict{}},
		{"(K\x01K\x02d.", NewDict(one, two)},
		{"}K\x01K\x02s.", NewDict(one, two)},
		{"}(K\x01K\x02\x88Nu.", NewDict(one, nil)},
		{"\x8f(K\x01\x88K\x02\x90.", &Set{Items: []Value{one, two}}},
		{"\x8f(K\x01\x90(K\x01\x90.", &Set{Items: []Value{one}}},
		{"(K\x01K\x01\x91.", &FrozenSet{Items: []Value{one}}},
		{"K\x012\x86.", Tuple{one, one}},
		{"K\x01K\x020.", one},
		{"K\x01(0.", one},
		{"K\x01(NN1.", one},
		{"K\x01\x94N0h\x00.", one},
		{"K\x01q\x07N0h\x07.", one},
		{"K\x01r\xff\xff\xff\xffN0j\xff\xff\xff\xff.", one},
		{"K\x01p12\nN0g12\n.", one},
		{"\x80\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00K\x01.", one},
		{"cm\nf\n)R.", Call(Global{"m", "f"})},
		{"cm\nC\nK\x01\x85\x81.", New(Global{"m", "C"}, one)},
		{"cm\nC\n)}\x8c\x01aK\x01s\x92.", &Object{Kind: NewObj, Func: Global{"m", "C"}, Args: Tuple{},
			Kwargs: NewDict("a", one)}},
		{"cm\nC\n)\x81K\x01b.", New(Global{"m", "C"}).WithState(one)},
		{"(im\nC\n.", New(Global{"m", "C"})},
		{"(K\x01im\nC\n.", Call(Global{"m", "C"}, one)},
		{"(cm\nC\nK\x01o.", Call(Global{"m", "C"}, one)},
		{"cm\nf\n)RK\x01a.", &Object{Func: Global{"m", "f"}, Args: Tuple{},
			Steps: []Step{{Kind: AppendItem, Value: one}}}},
		{"cm\nf\n)RK\x01K\x02s.", &Object{Func: Global{"m", "f"}, Args: Tuple{}, Steps: []Step{{SetItem, one, two}}}},
		{"cm\nf\n)R(K\x01\x90.", &Object{Func: Global{"m", "f"}, Args: Tuple{},
			Steps: []Step{{Kind: AddItem, Value: one}}}},
		{"cm\nf\n)R\x94cm\ns\nh\x00K\x01\x86R0.", &Object{Func: Global{"m", "f"}, Args: Tuple{},
			Steps: []Step{{SideCall, Global{"m", "s"}, Tuple{one}}}}},
	} {
		if got := load(t, c.pickle); !Equal(got, c.want) {
			t.Errorf("%q: %s, want %s", c.pickle, Repr(got), Repr(c.want))
		}
	}
}

func TestLoadBuffers(t *testing.T) {
	a, b := []byte("first"), []byte("second")
	v := load(t, "\x80\x05\x97\x97\x98\x86.", a, b).(Tuple)
	x, y := v[0].(*Buffer), v[1].(*Buffer)
	if &x.Data[0] != &a[0] || &y.Data[0] != &b[0] {
		t.Error("the buffers were copied")
	}
	if x.ReadOnly || !y.ReadOnly || x.Index != 0 || y.Index != 1 {
		t.Errorf("buffers %+v, %+v", x, y)
	}
	// READONLY_BUFFER makes another view; the memo keeps the first.
	v = load(t, "\x97\x94\x98h\x00\x86.", a).(Tuple)
	if !v[0].(*Buffer).ReadOnly || v[1].(*Buffer).ReadOnly {
		t.Errorf("views %s", Repr(v))
	}
	data := []byte("C\x03abc.")
	got, err := Load(data, nil, Limits{})
	if err != nil || &got.([]byte)[0] != &data[2] {
		t.Error("bytes were copied")
	}
}

func TestLoadShares(t *testing.T) {
	v := load(t, "]\x942\x86.").(Tuple)
	if v[0].(*List) != v[1].(*List) {
		t.Error("one list became two")
	}
	l := load(t, "]\x94h\x00a.").(*List)
	if l.Items[0].(*List) != l {
		t.Error("a list in itself is another list")
	}
	if got := Repr(l); got != "[...]" {
		t.Error(got)
	}
	if !Equal(l, load(t, "]\x94h\x00a.")) {
		t.Error("equal cycles are not equal")
	}
	if Equal(l, load(t, "]\x94(h\x00h\x00e.")) {
		t.Error("different cycles are equal")
	}
}

func TestLoadNext(t *testing.T) {
	data := []byte("K\x01.K\x02.")
	v, n, err := LoadNext(data, nil, Limits{})
	if v != int64(1) || n != 3 || err != nil {
		t.Fatal(v, n, err)
	}
	v, n, err = LoadNext(data[n:], nil, Limits{})
	if v != int64(2) || n != 3 || err != nil {
		t.Fatal(v, n, err)
	}
}

func TestLoadErrors(t *testing.T) {
	for _, c := range []struct {
		pickle string
		is     error
		says   string
	}{
		{"", io.ErrUnexpectedEOF, "at byte 0: the pickle ends without STOP"},
		{"N", io.ErrUnexpectedEOF, "at byte 1"},
		{".", nil, "STOP at byte 0: nothing is left"},
		{"N(.", nil, "STOP at byte 2: nothing is left"},
		{"\x80\x06N.", nil, "PROTO at byte 0: protocol 6"},
		{"\x8c\x05ab.", io.ErrUnexpectedEOF, "SHORT_BINUNICODE at byte 0: 5 bytes, 3 are left"},
		{"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", io.ErrUnexpectedEOF, "BINUNICODE8 at byte 0: " +
			"18446744073709551615 bytes"},
		{"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", io.ErrUnexpectedEOF, "BINBYTES8"},
		{"\x96\xff\xff\xff\xff\x00\x00\x00\x00.", io.ErrUnexpectedEOF, "BYTEARRAY8"},
		{"B\xff\xff\xff\xff.", io.ErrUnexpectedEOF, "BINBYTES"},
		{"\x95\xff\xff\xff\xff\xff\xff\xff\xff.", io.ErrUnexpectedEOF, "FRAME"},
		{"\x8b\xff\xff\xff\xff.", nil, "negative"},
		{"\x8b\xff\xff\xff\x7f.", ErrLimit, "IntBytes"},
		{"T\xff\xff\xff\xff.", io.ErrUnexpectedEOF, "BINSTRING"},
		{"\x8c\x01\xff.", nil, "not UTF-8"},
		{"U\x01\xff.", nil, "not ASCII"},
		{"S'\\xff'\n.", nil, "not ASCII"},
		{"Sx\n.", nil, "quotes"},
		{"S'\\x1'\n.", nil, "digits"},
		{"V\\u12\n.", nil, "escape"},
		{"V\\U00110000\n.", nil, "escape"},
		{"I1x\n.", nil, `INT at byte 0: "1x" is not an int`},
		{"I\n.", nil, "not an int"},
		{"L" + strings.Repeat("9", 5000) + "L\n.", ErrLimit, "5000 digits"},
		{"F0x1p3\n.", nil, "not a float"},
		{"Fx\n.", nil, "not a float"},
		{"I1", io.ErrUnexpectedEOF, "unterminated line"},
		{"N\x85\x86.", nil, "TUPLE2 at byte 2"},
		{"K\x01t.", nil, "no mark"},
		{"N(K\x01\x86.", nil, "TUPLE2"},
		{"h\x00.", nil, "BINGET at byte 0: the memo has no entry 0"},
		{"g-1\n.", nil, `invalid memo index "-1"`},
		{"\x94.", nil, "MEMOIZE at byte 0: nothing is left"},
		{"(\x94.", nil, "nothing is left"},
		{"NNa.", nil, "a None cannot be appended to"},
		{"NNNs.", nil, "a None has no items"},
		{"}(Nu.", nil, "key without a value"},
		{"(Nd.", nil, "key without a value"},
		{"}]Ns.", nil, "a list is not hashable"},
		{"N(N\x90.", nil, "cannot be added to"},
		{"(]\x91.", nil, "not hashable"},
		{"NN\x93.", nil, "not str"},
		{"c\n\n.", nil, "without module"},
		{"N)R.", nil, "a None cannot be called"},
		{"cm\nf\nNR.", nil, "the arguments are a None, not a tuple"},
		{"cm\nf\n)N\x92.", nil, "keyword arguments"},
		{"]Nb]b.", nil, "BUILD at byte 4: a list has no state to set"},
		{"(o.", nil, "OBJ"},
		{"\x97.", nil, "buffer 0 is out of band, and 0 were given"},
		{"N\x98.", nil, "a None is not a buffer"},
		{"\x82\x01.", nil, "EXT1 at byte 0: extension codes"},
		{"\x83\x01\x00.", nil, "extension codes"},
		{"\x84\x01\x00\x00\x00.", nil, "extension codes"},
		{"\xff.", nil, "opcode 0xff at byte 0: not an opcode"},
	} {
		_, err := Load([]byte(c.pickle), nil, Limits{})
		if err == nil {
			t.Errorf("%.40q was read", c.pickle)
			continue
		}
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%.40q: %v, want %q", c.pickle, err, c.says)
		}
	}
}

func ExampleLoad() {
	data := []byte("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x08rm -rf /\x85R.")
	v, err := Load(data, nil, Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	call := v.(*Object)
	fmt.Println(call.Func, call.Args[0])
	// Output: os.system rm -rf /
}
