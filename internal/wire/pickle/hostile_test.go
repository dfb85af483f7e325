package pickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"
)

// bomb builds a pickle from parts.
func bomb(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch x := p.(type) {
		case string:
			b = append(b, x...)
		case []byte:
			b = append(b, x...)
		case byte:
			b = append(b, x)
		}
	}
	return append(b, '.')
}

func repeat(s string, n int) []byte { return bytes.Repeat([]byte(s), n) }

// chain is nesting that is built from the outside in, by way of the memo: no part of it is
// deep when it is made.
func chain(n int) []byte {
	b := []byte("]\x94")
	for i := range n {
		b = append(b, "]\x94a"...) // append the new list to the last one …
		b = append(b, '0')         // … which is not needed any more
		b = binary.LittleEndian.AppendUint32(append(b, 'j'), uint32(i+1))
	}
	return append(b, "0h\x00."...)
}

func TestHostile(t *testing.T) {
	const n = 1 << 17
	for name, c := range map[string]struct {
		data  []byte
		lim   Limits
		limit string // in the error; "" if it must load
	}{
		"nested lists":         {bomb(repeat("]", n), repeat("a", n-1)), Limits{}, "Depth"},
		"nested tuples":        {bomb("N", repeat("\x85", n)), Limits{}, "Depth"},
		"nested by memo":       {chain(5000), Limits{}, "Depth"},
		"nested, allowed":      {bomb("N", repeat("\x85", 2000)), Limits{}, ""},
		"nested, more allowed": {bomb("N", repeat("\x85", 5000)), Limits{Depth: 6000}, ""},
		"nested objects":       {bomb("cm\nf\n\x94N", repeat("\x85h\x00\x94R", 10)), Limits{}, "cannot be called"},
		"marks":                {repeat("(", n), Limits{}, "Depth"},
		"wide":                 {bomb("(", repeat("N", n), "t"), Limits{}, ""},
		"too wide":             {bomb("(", repeat("N", n), "t"), Limits{Nodes: n - 1}, "Nodes"},
		"references":           {bomb("(]\x94", repeat("h\x00", n), "t"), Limits{Nodes: n}, "Nodes"},
		"doubled":              {bomb("N\x85", repeat("2\x86", 1000)), Limits{}, ""},
		"memo":                 {bomb("N", repeat("\x94", n)), Limits{Memo: n - 1}, "Memo"},
		"memo far away":        {bomb("Nr\xff\xff\xff\xff", repeat("\x94", n)), Limits{Memo: n}, "Memo"},
		"int":                  {bomb("\x8b\x00\x00\x02\x00", make([]byte, 1<<17)), Limits{}, "IntBytes"},
		"strings": {bomb("X\x00\x00\x01\x00", make([]byte, 1<<16), "X\x00\x00\x01\x00",
			make([]byte, 1<<16)), Limits{StringBytes: 100_000}, "StringBytes"},
		"lines":            {bomb("c", repeat("m", 1000), "\nn\n"), Limits{StringBytes: 1000}, "StringBytes"},
		"keys that double": {bomb("}N\x85", repeat("2\x86", 40), "Ns"), Limits{}, ""},
		"long keys": {bomb("X\x00\x00\x10\x00", make([]byte, 1<<20), "\x94(", repeat("h\x00N", 1<<16), "d"), Limits{},
			"comparison of keys"},
		// Seven keys of 2^15 items, and an eighth that is set again and again.
		"few long keys": {bomb("}", sevenKeys(), repeat("K\x01Ns", 1<<16)), Limits{}, ""},
		"long keys in a set": {bomb("X\x00\x00\x10\x00", make([]byte, 1<<20), "\x94\x8f", repeat("(h\x00\x90", 1<<16)),
			Limits{},
			"comparison of keys"},
	} {
		v, err := Load(c.data, nil, c.lim)
		if c.limit == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			use(v)
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.limit) {
			t.Errorf("%s: %v, want %s", name, err, c.limit)
		}
		if c.limit[0] >= 'A' && c.limit[0] <= 'Z' && !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v is not ErrLimit", name, err)
		}
	}
}

func sevenKeys() []byte {
	var b []byte
	for i := range 7 {
		b = append(append(append(b, '(', 'K', byte(i)), repeat("N", 1<<15)...), "tNs"...)
	}
	return b
}

// use does with a tree all that the package can do with one: none of it may panic or hang.
func use(v Value) {
	_ = Repr(v)
	_ = TypeName(v)
	Equal(v, v)
	Walk(v, func(Value) bool { return true })
	_, _ = Decode(v)
	AsTask(v)
	References(v)
	AsException(v)
	AsGraph(v)
	FuncName(v)
	Traceback(v)
	_, _ = Append(nil, v, Options{})
}

// TestPromises wants memory for what is there, not for what is promised.
func TestPromises(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, data := range []string{
		"\x8d\x00\x00\x00\x00\x01\x00\x00\x00", "\x8e\x00\x00\x00\x00\x01\x00\x00\x00",
		"\x96\x00\x00\x00\x00\x01\x00\x00\x00",
		"\x95\x00\x00\x00\x00\x01\x00\x00\x00", "X\xff\xff\xff\xff", "B\xff\xff\xff\xff", "T\xff\xff\xff\x7f",
		"\x8b\xff\xff\xff\x7f",
		"Nr\xff\xff\xff\xff.", "Np9223372036854775807\n.",
	} {
		_, _ = Load([]byte(data), nil, Limits{})
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d bytes for promises", got)
	}
}

func TestLargeSet(t *testing.T) {
	// As Python writes it, in parts of 1,000: the parts must not be compared over and over.
	b := []byte("\x8f")
	const n = 200_000
	for i := range n {
		if i%1000 == 0 {
			b = append(b, '(')
		}
		b = binary.LittleEndian.AppendUint32(append(b, 'J'), uint32(i))
		if i%1000 == 999 {
			b = append(b, 0x90)
		}
	}
	v, err := Load(append(b, '.'), nil, Limits{})
	if err != nil || len(v.(*Set).Items) != n {
		t.Fatal(err)
	}
}

// TestDepthOfGraphs: the depth of what is shared or cyclic is that of its longest way.
func TestDepthOfGraphs(t *testing.T) {
	ladder := bomb("N\x85", repeat("2\x86", 99)) // 100 levels, 2^99 ways
	ring := bomb("]\x94", repeat("]", 99), repeat("a", 98), "h\x00a")
	// A part that is deep by itself is met a second time further down.
	twice := bomb("(N", repeat("\x85", 60), "\x94h\x00", repeat("\x85", 60), "t")
	for name, c := range map[string]struct {
		data  []byte
		depth int
	}{"ladder": {ladder, 100}, "ring": {ring, 99}, "twice": {twice, 121}} {
		if _, err := Load(c.data, nil, Limits{Depth: c.depth}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Load(c.data, nil, Limits{Depth: c.depth - 1}); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
