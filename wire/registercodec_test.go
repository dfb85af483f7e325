package wire

import (
	"errors"
	"reflect"
	"testing"

	"go.millstream.dev/internal/wire/libcodec"
	"go.millstream.dev/internal/wire/pickle"
)

// thing is a value that only the codec of a library knows.
type thing struct{ text string }

var (
	classThing = pickle.Global{Module: "library", Name: "Thing"}
	classOther = pickle.Global{Module: "library", Name: "Other"}
)

var thingCodec = &libcodec.Codec{
	Classes: []pickle.Global{classOther, classThing},
	ClassOf: func(v any) (pickle.Global, bool) {
		_, ok := v.(thing)
		return classThing, ok
	},
	Encode: func(v any) ([][]byte, error) {
		if v.(thing).text == "" {
			return nil, errors.New("library: empty")
		}
		return [][]byte{[]byte(v.(thing).text)}, nil
	},
	Decode: func(class pickle.Global, frames [][]byte) (any, error) {
		if class != classThing || len(frames) != 1 {
			return nil, errors.New("library: not a thing")
		}
		return thing{string(frames[0])}, nil
	},
}

func registerThings(t *testing.T) {
	t.Helper()
	t.Cleanup(libcodec.Register(thingCodec))
}

// roundTrip sends a value and returns what arrives.
func roundTrip(t *testing.T, v any) any {
	t.Helper()
	m, err := Encode(Serialize{v}, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(m, DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return Clone(got)
}

func TestRegisterCodec(t *testing.T) {
	registerThings(t)
	for _, v := range []any{
		thing{"a"},
		[]any{thing{"a"}, int64(1), thing{"b"}},
		NewDict("x", []any{int64(1), thing{"b"}}),
	} {
		if got := roundTrip(t, v); !reflect.DeepEqual(got, v) {
			t.Errorf("got %#v, want %#v", got, v)
		}
	}
	if _, err := Encode(Serialize{thing{}}, EncodeOptions{}); err == nil {
		t.Error("a value that its codec does not encode: got nil, want an error")
	}
	if got := Clone(thing{}); got != (thing{}) {
		t.Errorf("clone of a value that its codec does not encode: got %#v, want the value", got)
	}
	header := daskHeader(classOther, nil)
	if v, err := new(decoder).daskFamily(header, nil); err == nil {
		t.Errorf("a value that its codec refuses: got %#v, want an error", v)
	}
}

// Without its codec a value arrives closed and can be sent on.
func TestWithoutCodec(t *testing.T) {
	header := daskHeader(classThing, nil)
	v, err := new(decoder).daskFamily(header, []Frame{HeapFrame([]byte("a"))})
	o, ok := v.(*Object)
	if err != nil || !ok || o.Type != typeName(classThing) {
		t.Fatalf("got %#v, %v; want an Object of %s", v, err, typeName(classThing))
	}
	registerThings(t)
	if got := roundTrip(t, o); got != (thing{"a"}) {
		t.Errorf("sent on: got %#v, want the value", got)
	}
}
