package task

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
)

// Each reference of a call is listed once and in the order of first use, for any number: the builder changes from a
// list to an index in between.
func TestReferencesOnce(t *testing.T) {
	for _, n := range []int{0, 1, 2, 15, 16, 17, 18, 19, 33, 200} {
		var b Builder
		for round := range 2 { // the second call must not see the keys of the first
			b.Begin(incF)
			var want []Key
			for i := range n {
				k := NewKey(fmt.Sprint("round", round, "-", i))
				want = append(want, k)
				for _, again := range []Key{k, want[0], want[i/2], k} {
					from := len(b.args)
					b.Ref(again)
					r := msgpack.NewReader(b.args[from+1:])
					at, err := r.ReadUint()
					if err != nil || want[at] != again {
						t.Fatalf("%d keys: reference to %v is number %d, %v", n, again, at, err)
					}
				}
			}
			if !slices.Equal(b.Deps(), want) {
				t.Errorf("%d keys, call %d: got %v, want %v", n, round, b.Deps(), want)
			}
		}
	}
}

func TestReadSpecInfo(t *testing.T) {
	tuple, err := KeyOf([]any{"x", 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, deps := range [][]Key{nil, {NewKey("a")}, {tuple, NewKey("b"), NewKey("")}} {
		var args []Arg[int]
		for _, k := range deps {
			args = append(args, RefTo[int](k))
		}
		var b Builder
		b.Begin(incF)
		if err := NewParam[[]int]().Arg(&b, List(args...)); err != nil {
			t.Fatal(err)
		}
		spec := b.Append([]byte("before"))
		if !strings.HasPrefix(string(spec), "before") {
			t.Fatalf("Append has overwritten %q", spec[:6])
		}
		spec = spec[6:]
		got, err := ReadSpecInfo(spec)
		if want := (SpecInfo{"t.inc", deps}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		for end := range len(spec) - len(b.args) - 1 { // it can be decoded without its number of arguments
			if got, err := ReadSpecInfo(spec[:end]); err == nil {
				t.Errorf("%d of %d bytes: got %+v, want an error", end, len(spec), got)
			}
		}
		for end := range len(spec) - len(b.args) {
			var se *SpecError
			if _, err := ParseCall(spec[:end]); !errors.As(err, &se) {
				t.Errorf("a call of %d of %d bytes: got %v, want a SpecError", end, len(spec), err)
			}
		}
	}
}

func TestHostileSpecs(t *testing.T) {
	head := "MS\x01\xa5t.inc"
	for name, c := range map[string]struct{ spec, want string }{
		"one byte":          {"M", "not a call of a Go function"},
		"magic alone":       {"MS\x01", "not a call of a Go function"},
		"no name":           {"MS\x01\x01", "call without a name"},
		"name too long":     {"MS\x01\xdb\xff\xff\xff\xff", "call without a name"},
		"keys promised":     {head + "\xdd\xff\xff\xff\xff", "without its references"},
		"a map as key":      {head + "\x91\x80\x01", "malformed key"},
		"no count":          {head + "\x90", "without its number of arguments"},
		"negative count":    {head + "\x90\xff", "without its number of arguments"},
		"too many":          {head + "\x90\x02\x00\x01\x00\x01", "2 arguments, want 1"},
		"unknown long name": {"MS\x01\xda\x08\x00" + strings.Repeat("y", 2048) + "\x90\x00", "is not registered"},
	} {
		_, err := ParseCall([]byte(c.spec))
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > MaxName+300 {
			t.Errorf("%s: got %.200v, want %q", name, err, c.want)
		}
	}
	for name, c := range map[string]struct{ args, want string }{
		"no node":             {"", "argument 0 of t.inc (int)"},
		"unknown node":        {"\x04\x00", "unknown kind of argument 4"},
		"list for an int":     {"\x02\x00", "a list or map of arguments"},
		"reference to none":   {"\x01\x01", "reference 1 of 1"},
		"reference far off":   {"\x01\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "of 1"},
		"reference is a text": {"\x01\xa1x", "argument 0 of t.inc"},
		"text for an int":     {"\x00\xa1x", "argument 0 of t.inc"},
		"list too long":       {"\x02\xce\xff\xff\xff\xff", "list of 4294967295 arguments in 0 bytes"},
	} {
		call := Call{Func: incF, Deps: []Key{NewKey("k")}, args: []byte(c.args)}
		got, err := call.Run(t.Context(), []*Value{NewValue(1)})
		var pe *PanicError
		if err == nil || errors.As(err, &pe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v, want %q", name, got, err, c.want)
		}
	}
}

func TestIsSpec(t *testing.T) {
	for spec, want := range map[string]bool{
		"": false, "M": false, "MS": false, "MS\x01": false, "MS\x01\xa1f": true, "MS\x02\xa1f": true,
		"NS\x01\xa1f":    false,
		"\x80\x05K\x01.": false,
	} {
		if got := IsSpec([]byte(spec)); got != want {
			t.Errorf("%q: got %v, want %v", spec, got, want)
		}
	}
}
