package task

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// marshaled is a type with its own encoding.
type marshaled struct{ text string }

func (m *marshaled) MarshalBinary() ([]byte, error) {
	if m.text == "bad" {
		return nil, errors.New("no form")
	}
	if m.text == "" {
		return nil, nil
	}
	return []byte("<" + m.text + ">"), nil
}

func (m *marshaled) UnmarshalBinary(b []byte) error {
	if len(b) == 0 {
		m.text = ""
		return nil
	}
	if b[0] != '<' {
		return errors.New("no text of this type")
	}
	m.text = string(b[1 : len(b)-1])
	return nil
}

// A type with MarshalBinary is encoded by it: as an argument, in containers, and as a result.
func TestMarshalers(t *testing.T) {
	for _, text := range []string{"", "a", "<>"} {
		m := marshaled{text}
		same(t, m)
		same(t, &m)
		same(t, []marshaled{m, {}})
		same(t, map[string]marshaled{"k": m}) // a value of a map is not addressable
		same(t, map[marshaled]int{m: 1})
		same(t, struct{ M marshaled }{m})
		sameSent(t, m)
		sameSent(t, []marshaled{m})
		sameSent(t, map[string]marshaled{"k": m})
	}
	var b Builder
	err := codecFor[[]marshaled]().append(&b, []marshaled{{"a"}, {"bad"}})
	wants(t, "an argument without a form", err, "at [1] cannot be serialized: no form")
	_, err = EncodeValue(struct{ M []marshaled }{[]marshaled{{"bad"}}})
	wants(t, "a result without a form", err, "at .M[0] cannot be serialized: no form")
	_, _, errs := readAs[marshaled]([]byte{0xc4, 1, 'x'})
	wants(t, "bytes of another type", errors.Join(errs[:]...), "no text of this type")
}

// nestedBy wraps a value in levels of pointers, slices, maps or structs.
type nestedBy struct {
	Next *nestedBy
	List []nestedBy
	Map  map[string]nestedBy
	Any  any
}

func init() { RegisterType[nestedBy]() }

func nestedLevels(kind string, n int) *nestedBy {
	top := new(nestedBy)
	for range n {
		next := new(nestedBy)
		switch kind {
		case "pointer":
			next.Next = top
		case "slice":
			next.List = []nestedBy{*top}
		case "map":
			next.Map = map[string]nestedBy{"k": *top}
		case "any":
			next.Any = *top
		}
		top = next
	}
	return top
}

// Nesting has a limit, the same for encoder and decoder, and consecutive levels do not add up.
func TestNestingLimit(t *testing.T) {
	for _, kind := range []string{"pointer", "slice", "map", "any"} {
		shallow := nestedLevels(kind, maxDepth/2-1)
		many := make([]*nestedBy, 3)
		for i := range many {
			many[i] = nestedLevels(kind, maxDepth/2-2)
		}
		same(t, shallow)
		same(t, many)
		var b Builder
		err := codecFor[*nestedBy]().append(&b, nestedLevels(kind, maxDepth))
		wants(t, kind, err, "nested more than 200 levels deep")
		if _, err := EncodeValue(nestedLevels(kind, maxDepth)); err == nil {
			t.Errorf("%s: a result of %d levels has frames, want an error", kind, maxDepth)
		}
		b = Builder{depth: -1000} // the encoding of a peer without the limit
		if err := codecFor[*nestedBy]().append(&b, nestedLevels(kind, maxDepth)); err != nil {
			t.Fatal(err)
		}
		_, _, errs := readAs[*nestedBy](b.args)
		wants(t, kind+" of a peer", errs[0], "nested too deeply")
	}
}

// An error has the position of its cause.
func TestErrorPaths(t *testing.T) {
	type leaf struct{ C chan int }
	type inner struct {
		Leaves map[string][]leaf
		Tagged any `task:"other"`
	}
	type outer struct {
		Rows []inner
		Two  [2]*inner
	}
	bad := inner{Leaves: map[string][]leaf{"k": {{}, {make(chan int)}}}}
	for _, c := range []struct {
		v              any
		argument, path string // of an argument and of a result
	}{
		{outer{Rows: []inner{{}, bad}}, ".Rows[1].Leaves[…][0].C", ".Rows[1].Leaves[k][0].C"},
		{outer{Two: [2]*inner{nil, &bad}}, ".Two[1].Leaves[…][0].C", ".Two[1].Leaves[k][0].C"},
		{inner{Tagged: make(chan int)}, ".other", ".other"},
		{map[[1]leaf]int{{}: 1}, "[0].C", "[0].C"},
	} {
		var b Builder
		var ee *EncodeError
		if err := planOf(reflect.TypeOf(c.v)).append(&b, reflect.ValueOf(c.v)); !errors.As(err, &ee) ||
			ee.Path != c.argument {
			t.Errorf("%T as an argument: got %v, want the path %s", c.v, err, c.argument)
		}
		if _, err := EncodeValue(c.v); !errors.As(err, &ee) || ee.Path != c.path {
			t.Errorf("%T as a result: got %v, want the path %s", c.v, err, c.path)
		}
	}
	// Errors of decoding have fields and elements.
	type row struct{ A, B []uint8 }
	var b Builder
	if err := codecFor[[]struct{ A, B []int }]().append(&b, []struct{ A, B []int }{{B: []int{1}}}); err != nil {
		t.Fatal(err)
	}
	_, _, errs := readAs[[]struct{ A, B []string }](b.args)
	if fmt.Sprint(errs[0]) == "<nil>" || !strings.HasPrefix(errs[0].Error(), "field B: ") {
		t.Errorf("%T read from other data: got %v, want the field's name", []row{}, errs[0])
	}
}

// Elements must have bytes: an announced length of elements without bytes is rejected.
func TestElementsNeedBytes(t *testing.T) {
	for _, args := range [][]byte{{0x93}, {0x93, 0xc0}, {0x92, 0xc0, 1}} {
		if _, _, errs := readAs[[]struct{}](args); errs[0] == nil {
			t.Errorf("% x is read as a slice, want an error", args)
		}
	}
	if _, _, errs := readAs[map[struct{}]struct{}]([]byte{0x81, 0xc0}); errs[0] == nil {
		t.Error("a map without its value is read, want an error")
	}
	if _, _, errs := readAs[map[any]int]([]byte{0x81, 0xa6, '[', ']', 'b', 'y', 't', 'e', 0xc0, 1}); errs[0] == nil {
		t.Error("a slice is read as the key of a map, want an error")
	}
}

func TestFieldsThatTravel(t *testing.T) {
	type embedded struct{ E int }
	type all struct {
		embedded `task:"-"`
		A        int
		B        int `task:"bee"`
		C        int `task:"-"`
		d        int `task:"-"`
	}
	fields, err := fieldsOf(reflect.TypeFor[all]())
	var got []string
	for _, f := range fields {
		got = append(got, fmt.Sprint(f.index, f.name, " ", f.plan.typ))
	}
	if want := "[1A int 2bee int]"; fmt.Sprint(got) != want || err != nil {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
	in := all{embedded{1}, 2, 3, 4, 5}
	if got, want := through(t, in), (all{A: 2, B: 3}); got != want {
		t.Errorf("as an argument: got %+v, want %+v", got, want)
	}
	if got, want := sent(t, in), (all{A: 2, B: 3}); got != want {
		t.Errorf("as a result: got %+v, want %+v", got, want)
	}
	type private struct{ a int }
	_ = private{}.a
	_, err = fieldsOf(reflect.TypeFor[private]())
	wants(t, "a field that is not exported", err, "at .a cannot be serialized")
}
