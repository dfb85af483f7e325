package pickled

import (
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

func TestOf(t *testing.T) {
	s, err := wire.EncodeValue(wire.FrozenSet{int64(7)}, wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Of(s, wire.DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Tree(p, pickle.Limits{})
	if got, want := pickle.Repr(tree), "frozenset({7})"; err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// Only values of the family "pickle" are pickles.
func TestOfOther(t *testing.T) {
	for _, v := range []any{[]byte("raw"), []any{"member"}} {
		s, err := wire.EncodeValue(v, wire.EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Of(s, wire.DecodeOptions{}); err == nil || !strings.Contains(err.Error(), "not a pickle") {
			t.Errorf("%T: got error %v, want one that says that it is no pickle", v, err)
		}
	}
}

func TestTreeLimits(t *testing.T) {
	s, err := wire.EncodeValue(wire.FrozenSet{int64(1), int64(2), int64(3)}, wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Of(s, wire.DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if tree, err := Tree(p, pickle.Limits{Nodes: 1}); err == nil {
		t.Errorf("got %v with a limit of one node, want an error", tree)
	}
}
