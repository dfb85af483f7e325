package pickle

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxRepr and reprDepth bound the output of Repr for a tree that may be infinite.
const (
	maxRepr   = 8 << 10
	reprDepth = 64
)

// Repr formats a tree like Python's repr, for display and logs. It is truncated after 8 KiB, and has "..." where a
// container is inside itself.
func Repr(v Value) string {
	r := repr{open: make(map[any]struct{})}
	r.value(v, 0)
	s := r.b.String()
	if r.full() {
		cut := maxRepr
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		return s[:cut] + "…"
	}
	return s
}

// String returns Repr of the node.
func (o *Object) String() string { return Repr(o) }

// String returns Repr of the node.
func (d *Dict) String() string { return Repr(d) }

// String returns Repr of the node.
func (l *List) String() string { return Repr(l) }

// String returns Repr of the node.
func (t Tuple) String() string { return Repr(t) }

// String returns Repr of the node.
func (s *Set) String() string { return Repr(s) }

// String returns Repr of the node.
func (s *FrozenSet) String() string { return Repr(s) }

// String returns Repr of the node.
func (b *ByteArray) String() string { return Repr(b) }

// String returns Repr of the node.
func (b *Buffer) String() string { return Repr(b) }

// String returns Repr of the node.
func (p *PersistentID) String() string { return Repr(p) }

type repr struct {
	b    strings.Builder
	open map[any]struct{} // containers that the current place is inside of
}

func (r *repr) full() bool { return r.b.Len() > maxRepr }

func (r *repr) value(v Value, depth int) {
	if r.full() {
		return
	}
	switch x := v.(type) {
	case nil:
		r.b.WriteString("None")
	case bool:
		if x {
			r.b.WriteString("True")
		} else {
			r.b.WriteString("False")
		}
	case int64:
		r.b.WriteString(strconv.FormatInt(x, 10))
	case *big.Int:
		if x.BitLen() > 4096 { // decimal takes time that grows with the square
			fmt.Fprintf(&r.b, "<int of %d bits>", x.BitLen())
		} else {
			r.b.WriteString(x.String())
		}
	case float64:
		r.b.WriteString(floatRepr(x))
	case string:
		r.quoted("", x)
	case []byte:
		r.quoted("b", x)
	case Global:
		r.b.WriteString(x.String())
	case *ByteArray:
		r.b.WriteString("bytearray(")
		r.quoted("b", x.Data)
		r.b.WriteString(")")
	case *Buffer:
		fmt.Fprintf(&r.b, "<buffer %d of %d bytes>", x.Index, len(x.Data))
	case *List, Tuple, *Dict, *Set, *FrozenSet, *Object, *PersistentID:
		id, ok := identity(v)
		if _, inside := r.open[id]; ok && inside || depth > reprDepth {
			r.b.WriteString("...")
			return
		}
		if ok {
			r.open[id] = struct{}{}
			defer delete(r.open, id)
		}
		r.container(v, depth+1)
	default:
		fmt.Fprintf(&r.b, "%v", v)
	}
}

// floatRepr has a point or an exponent, to be distinguishable from an int.
func floatRepr(x float64) string {
	switch {
	case math.IsNaN(x):
		return "nan"
	case math.IsInf(x, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(x, 'g', -1, 64), "+"))
	}
	format := byte('f')
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= 1e16) {
		format = 'e'
	}
	s := strconv.FormatFloat(x, format, -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// quoted writes the start of a string or of bytes, in quotes.
func (r *repr) quoted(prefix string, v any) {
	var s string
	long := false
	switch x := v.(type) {
	case string:
		if long = len(x) > maxRepr; long {
			x = x[:maxRepr]
		}
		s = x
	case []byte:
		if long = len(x) > maxRepr; long {
			x = x[:maxRepr]
		}
		s = string(x)
	}
	r.b.WriteString(prefix + "'")
	if prefix == "" {
		q := strconv.Quote(s)
		r.b.WriteString(strings.ReplaceAll(strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`), "'", `\'`))
	} else {
		for i := range len(s) {
			switch c := s[i]; {
			case c == '\\' || c == '\'':
				r.b.WriteString(`\` + string(rune(c)))
			case c >= ' ' && c < 0x7f:
				r.b.WriteByte(c)
			default:
				fmt.Fprintf(&r.b, `\x%02x`, c)
			}
		}
	}
	if long {
		r.b.WriteString("…")
	}
	r.b.WriteString("'")
}

func (r *repr) container(v Value, depth int) {
	switch x := v.(type) {
	case *List:
		r.items("[", x.Items, "]", depth)
	case Tuple:
		if len(x) == 1 {
			r.items("(", x, ",)", depth)
		} else {
			r.items("(", x, ")", depth)
		}
	case *Set:
		if len(x.Items) == 0 {
			r.b.WriteString("set()")
		} else {
			r.items("{", x.Items, "}", depth)
		}
	case *FrozenSet:
		if len(x.Items) == 0 {
			r.b.WriteString("frozenset()")
		} else {
			r.items("frozenset({", x.Items, "})", depth)
		}
	case *Dict:
		r.b.WriteString("{")
		for i, it := range x.Items() {
			if i > 0 {
				r.b.WriteString(", ")
			}
			r.value(it.Key, depth)
			r.b.WriteString(": ")
			r.value(it.Value, depth)
			if r.full() {
				return
			}
		}
		r.b.WriteString("}")
	case *PersistentID:
		r.items("<persistent id ", []Value{x.ID}, ">", depth)
	case *Object:
		r.object(x, depth)
	}
}

func (r *repr) items(begin string, items []Value, end string, depth int) {
	r.b.WriteString(begin)
	for i, v := range items {
		if i > 0 {
			r.b.WriteString(", ")
		}
		r.value(v, depth)
		if r.full() {
			return
		}
	}
	r.b.WriteString(end)
}

// object writes a call, followed by its steps after a bar.
func (r *repr) object(o *Object, depth int) {
	r.value(o.Func, depth)
	if o.Kind == NewObj {
		r.b.WriteString(".__new__")
	}
	r.items("(", o.Args, "", depth)
	if o.Kwargs.Len() > 0 {
		r.b.WriteString(", **")
		r.value(o.Kwargs, depth)
	}
	r.b.WriteString(")")
	for _, s := range o.Steps {
		if r.full() {
			return
		}
		switch s.Kind {
		case Build:
			r.b.WriteString(" | state ")
		case AppendItem, AddItem:
			r.b.WriteString(" | item ")
		case SetItem, SideCall:
			r.b.WriteString(" | ")
			r.value(s.Key, depth)
			r.b.WriteString(": ")
		}
		r.value(s.Value, depth)
	}
}
