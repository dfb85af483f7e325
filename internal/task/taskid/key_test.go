package taskid

import (
	"bytes"
	"reflect"
	"testing"
)

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		v, value any
		text     string
	}{
		{"x", "x", "x"},
		{5, int64(5), "5"},
		{[]any{"a", 1}, []any{"a", int64(1)}, "('a', 1)"},
		{[]any{"a"}, []any{"a"}, "('a',)"},
		{[]any{"a", []any{"b", 2.5}}, []any{"a", []any{"b", 2.5}}, "('a', ('b', 2.5))"},
		{[]byte("b"), []byte("b"), `b"b"`},
		{2.5, 2.5, "2.5"},
	} {
		k, err := KeyOf(c.v)
		if err != nil || k.String() != c.text || !reflect.DeepEqual(k.Value(), c.value) {
			t.Errorf("KeyOf(%v): got %q with the value %#v, %v; want %q, %#v", c.v, k, k.Value(), err, c.text, c.value)
		}
		again, err := ParseKey([]byte(k))
		if err != nil || again != k {
			t.Errorf("ParseKey(%x): got %x, %v; want the same", string(k), string(again), err)
		}
		if got := k.Append([]byte("ab")); string(got) != "ab"+string(k) {
			t.Errorf("Append of %q: got %x", k, got)
		}
		if !bytes.Equal(k.Raw(), []byte(k)) {
			t.Errorf("Raw of %q: got %x, want %x", k, k.Raw(), string(k))
		}
	}
}

func TestUnusualKeys(t *testing.T) {
	if k := NewKey("a\xff"); k.String() != "a\ufffd" {
		t.Errorf("key of invalid UTF-8: got %q, want the byte replaced", k)
	}
	if got := Key("").String(); got != "" {
		t.Errorf("text of no key: got %q, want none", got)
	}
	if k, err := KeyOf(struct{}{}); err == nil {
		t.Errorf("KeyOf(struct{}{}): got %q, want an error", k)
	}
	if k, err := ParseKey([]byte{0x01, 0x02}); err == nil {
		t.Errorf("ParseKey of two keys: got %q, want an error", k)
	}
	if k, err := ParseKey([]byte{0x92, 0x01}); err == nil {
		t.Errorf("ParseKey of half a tuple: got %q, want an error", k)
	}
	if k, err := ParseKey([]byte{0xd9, 1, 'x'}); err != nil || k != NewKey("x") {
		t.Errorf("ParseKey of a long form: got %x, %v; want %x", string(k), err, string(NewKey("x")))
	}
}

func TestSplitHash(t *testing.T) {
	for hash, want := range map[string][2]string{"": {}, "ab": {"ab", ""}, "ab-c": {"ab", "c"},
		"ab-c-d": {"ab", "c-d"}} {
		if functions, build := SplitHash(hash); functions != want[0] || build != want[1] {
			t.Errorf("SplitHash(%q): got %q, %q; want %q", hash, functions, build, want)
		}
	}
}
