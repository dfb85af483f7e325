package pygraph

import (
	"strings"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
)

// Keys are strings, bytes, numbers and tuples of them, in the form in which the scheduler compares them; keys with two
// forms in Python, and those that are too long or nested too deeply, are left to Python.
func TestKeys(t *testing.T) {
	nested := func(levels int) pickle.Value {
		v := pickle.Value("x")
		for range levels {
			v = pickle.Tuple{v}
		}
		return v
	}
	for _, c := range []struct {
		v    pickle.Value
		want string // "" if it is not accepted
	}{
		{"x", "x"}, {"", "\"\""}, {int64(5), "5"}, {int64(-5), "-5"}, {2.5, "2.5"}, {pickle.Tuple{"x", int64(1)},
			"('x', 1)"},
		{pickle.Tuple{"x", pickle.Tuple{int64(1), 2.5}}, "('x', (1, 2.5))"}, {2.0, ""}, {true, ""}, {nil, ""}, {"\xff",
			""},
		{&pickle.List{Items: []pickle.Value{"x"}}, ""}, {pickle.Tuple{"x", true}, ""}, {strings.Repeat("x", keyBytes+1),
			""},
		{make([]byte, keyBytes+1), ""}, {nested(keyDepth), ""},
	} {
		b, ok := appendKey(nil, c.v, keyDepth)
		if ok != (c.want != "") {
			t.Errorf("%.60s: got %q, %v, want it taken: %v", pickle.Repr(c.v), b, ok, c.want != "")
		}
		if !ok || c.want == `""` {
			continue
		}
		if k, err := task.ParseKey(b); err != nil || k.String() != c.want || string(k) != string(b) {
			t.Errorf("%.60s: got %v, %v, want %s in its canonical form", pickle.Repr(c.v), k, err, c.want)
		}
	}
	if _, ok := appendKey(nil, strings.Repeat("x", keyBytes), keyDepth); !ok {
		t.Errorf("string of %d bytes: not accepted", keyBytes)
	}
	if _, ok := appendKey(nil, nested(keyDepth-1), keyDepth); !ok {
		t.Errorf("%d levels: not accepted", keyDepth-1)
	}
}
