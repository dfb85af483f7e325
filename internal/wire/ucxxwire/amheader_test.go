package ucxxwire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// Recorded from UCXX 0.52.0: the first from Python's am_send, the others from a
// program against its C++ library, which is the only one that can set a callback
// or a user header.
var amVectors = []struct {
	name string
	hdr  AMHeader
	wire string
}{
	{"host", AMHeader{User: []byte{}}, "0000000000000000000000000000"},
	{"CUDA with user header", AMHeader{MemoryType: 1, User: []byte("abc")},
		"01000000" + "00" + "00" + "0300000000000000" + "616263"},
	{"callback", AMHeader{
		HasCallback: true, Owner: "TestApp", ID: 0x1122334455667788,
		Policy: AMErrorOnUnsupported, User: []byte("hello"),
	}, "00000000" + "01" + "54657374417070" + strings.Repeat("00", 57) + "8877665544332211" +
		"01" + "0500000000000000" + "68656c6c6f"},
}

func TestAMHeaderVectors(t *testing.T) {
	for _, v := range amVectors {
		want := unhex(t, v.wire)
		got, err := v.hdr.Append([]byte{7})
		if err != nil || !bytes.Equal(got[1:], want) {
			t.Errorf("%s: encoded %x, %v, want 07%x", v.name, got, err, want)
		}
		if v.hdr.Size() != len(want) {
			t.Errorf("%s: Size() = %d, want %d", v.name, v.hdr.Size(), len(want))
		}
		h, err := DecodeAMHeader(want)
		if err != nil || !reflect.DeepEqual(h, v.hdr) {
			t.Errorf("%s: decoded %+v, %v, want %+v", v.name, h, err, v.hdr)
		}
	}
}

func TestAMHeaderForms(t *testing.T) {
	full := unhex(t, amVectors[2].wire)
	for _, c := range []struct {
		name string
		in   []byte
		want AMHeader
	}{
		{"UCX-Py", []byte{1, 0, 0, 0}, AMHeader{MemoryType: 1, Legacy: true}},
		{"ends after callback flag", []byte{2, 0, 0, 0, 0}, AMHeader{MemoryType: 2}},
		{"ends after callback", full[:5+72], AMHeader{HasCallback: true, Owner: "TestApp", ID: 0x1122334455667788}},
		{"ends after policy", []byte{0, 0, 0, 0, 0, 1}, AMHeader{Policy: AMErrorOnUnsupported}},
		{"later fields", append(bytes.Clone(full), 1, 2, 3), amVectors[2].hdr},
	} {
		got, err := DecodeAMHeader(c.in)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	legacy := AMHeader{MemoryType: 1, Legacy: true}
	if b, err := legacy.Append(nil); err != nil || !bytes.Equal(b, []byte{1, 0, 0, 0}) || legacy.Size() != 4 {
		t.Errorf("UCX-Py's form encodes to %x, %v, size %d", b, err, legacy.Size())
	}
}

func TestAMHeaderUserIsPartOfInput(t *testing.T) {
	in := unhex(t, amVectors[1].wire)
	h, err := DecodeAMHeader(in)
	if err != nil {
		t.Fatal(err)
	}
	if &h.User[0] != &in[14] || cap(h.User) != 3 {
		t.Errorf("User is not the tail of the input, or can be appended into it (cap %d)", cap(h.User))
	}
}

func TestDecodeAMHeaderRefuses(t *testing.T) {
	full := unhex(t, amVectors[2].wire)
	change := func(at int, c byte) []byte {
		b := bytes.Clone(full)
		b[at] = c
		return b
	}
	huge := bytes.Clone(full)
	binary.NativeEndian.PutUint64(huge[5+72+1:], 1<<63+5)
	for _, c := range []struct {
		name, field string
		in          []byte
	}{
		{"empty", "memory type", nil},
		{"three bytes", "memory type", full[:3]},
		{"negative", "memory type", change(3, 0xff)},
		{"flag", "has callback", change(4, 2)},
		{"no owner", "owner", full[:5]},
		{"cut owner", "owner", full[:5+63]},
		{"unterminated owner", "owner", append(bytes.Clone(full[:5]), bytes.Repeat([]byte{'x'}, 80)...)},
		{"dirty owner", "owner", change(5+63, 1)},
		{"cut id", "callback id", full[:5+64+7]},
		{"policy", "policy", change(5+72, 2)},
		{"cut length", "user length", full[:5+72+1+7]},
		{"cut user", "user header", full[:len(full)-1]},
		{"huge user", "user header", huge},
	} {
		h, err := DecodeAMHeader(c.in)
		var fe *FieldError
		if !errors.As(err, &fe) || fe.Field != c.field || !reflect.DeepEqual(h, AMHeader{}) {
			t.Errorf("%s: got %+v, %v, want an error on field %s", c.name, h, err, c.field)
		}
	}
}

func TestAppendAMHeaderRefuses(t *testing.T) {
	for _, c := range []struct {
		name, field string
		h           AMHeader
	}{
		{"negative type", "memory type", AMHeader{MemoryType: -1}},
		{"long owner", "owner", AMHeader{HasCallback: true, Owner: strings.Repeat("x", 64)}},
		{"zero in owner", "owner", AMHeader{HasCallback: true, Owner: "a\x00b"}},
		{"owner without flag", "owner", AMHeader{Owner: "a"}},
		{"id without flag", "owner", AMHeader{ID: 1}},
		{"policy", "policy", AMHeader{Policy: 2}},
		{"legacy with user header", "length", AMHeader{Legacy: true, User: []byte{1}}},
	} {
		b, err := c.h.Append([]byte{1})
		var fe *FieldError
		if !errors.As(err, &fe) || fe.Field != c.field {
			t.Errorf("%s: got %v, want an error on field %s", c.name, err, c.field)
		}
		if len(b) != 1 {
			t.Errorf("%s: wrote %d bytes before it failed", c.name, len(b)-1)
		}
	}
	longest := AMHeader{HasCallback: true, Owner: strings.Repeat("x", MaxAMOwnerLen), User: []byte{}}
	b, err := longest.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := DecodeAMHeader(b); err != nil || !reflect.DeepEqual(h, longest) {
		t.Errorf("longest owner: %+v, %v", h, err)
	}
}
