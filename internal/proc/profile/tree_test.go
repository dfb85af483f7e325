package profile

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
)

// stackOf returns frames with the given names, outermost first.
func stackOf(names ...string) []*Frame {
	out := make([]*Frame, len(names))
	for i, n := range names {
		out[i] = &Frame{ID: n + ";" + n + ".go;1", Name: n, File: n + ".go", Line: i + 1, Text: "main." + n}
	}
	return out
}

// text returns a tree in one line: name:count(children).
func text(t *Tree) string {
	var b strings.Builder
	var add func(v *View)
	add = func(v *View) {
		fmt.Fprintf(&b, "%s:%d", v.Name, v.Count)
		if len(v.Children) == 0 {
			return
		}
		b.WriteByte('(')
		for i, c := range v.Children {
			if i > 0 {
				b.WriteByte(' ')
			}
			add(c)
		}
		b.WriteByte(')')
	}
	add(t.View())
	return b.String()
}

func TestTree(t *testing.T) {
	var a, b, empty Tree
	a.Add(stackOf("f", "g"), 3)
	a.Add(stackOf("f", "h"), 5)
	a.Add(stackOf("f"), 1)
	b.Add(stackOf("k"), 2)
	b.Add(stackOf("f", "h", "i"), 2)
	if got, want := text(&a), ":9(f:9(h:5 g:3))"; got != want {
		t.Errorf("tree: got %s, want %s", got, want)
	}
	a.Merge(&b)
	a.Merge(&empty)
	want := ":13(f:11(h:7(i:2) g:3) k:2)"
	if got := text(&a); got != want {
		t.Errorf("merged: got %s, want %s", got, want)
	}
	a.seal()
	var c Tree
	if err := c.Read(a.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if got := text(&c); got != want {
		t.Errorf("read: got %s, want %s", got, want)
	}
	c.Add(stackOf("k", "l"), 1) // after it was sealed, too
	a.Add(stackOf("k", "l"), 1)
	if got, want := text(&a), text(&c); got != want || a.Count() != 14 || a.Len() != 6 {
		t.Errorf("added: got %s, want %s", got, want)
	}
	if got, want := text(&empty), ":0"; got != want {
		t.Errorf("empty: got %s, want %s", got, want)
	}
}

func TestPrune(t *testing.T) {
	var a Tree
	a.Add(stackOf("f", "g"), 90)
	a.Add(stackOf("f", "h"), 9)
	a.Add(stackOf("i"), 1)
	v := a.View()
	v.Prune(10)
	b, err := json.Marshal(v)
	if got := string(b); err != nil || !strings.Contains(got, `"g"`) || strings.Contains(got, `"h"`) ||
		strings.Contains(got, `"i"`) || !strings.Contains(got, `"count":100`) {
		t.Errorf("got %s, %v, want the nodes with 10 samples and more", got, err)
	}
}

// The encoded form is that of distributed.profile: every node has the same four fields.
func TestForm(t *testing.T) {
	var empty, one Tree
	got, err := msgpack.Decode(empty.Append(nil))
	want := msgpack.MapOf("count", 0, "children", msgpack.Map{}, "identifier", "root", "description",
		msgpack.MapOf("filename", "", "name", "", "line_number", 0, "line", ""))
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("empty: got %v, %v, want %v", got, err, want)
	}
	one.Add(stackOf("f"), 4)
	got, err = msgpack.Decode(one.Encoded())
	want = msgpack.MapOf("count", 4, "children", msgpack.MapOf("f;f.go;1", msgpack.MapOf("count", 4, "children",
		msgpack.Map{}, "identifier", "f;f.go;1", "description", msgpack.MapOf("filename", "f.go", "name", "f",
			"line_number", 1, "line", "main.f"))), "identifier", "root", "description",
		msgpack.MapOf("filename", "", "name", "", "line_number", 0, "line", ""))
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("one frame: got %v, %v, want %v", got, err, want)
	}
	b, err := json.Marshal(one.View())
	if want := `{"name":"","file":"","line":0,"count":4,"children":[{"name":"f","file":"f.go","line":1,` +
		`"text":"main.f","count":4,"children":[]}]}`; err != nil || string(b) != want {
		t.Errorf("view: got %s, %v, want %s", b, err, want)
	}
}

// nested returns an encoded tree of the given depth.
func nested(depth int) []byte {
	var b []byte
	for range depth {
		b = append(msgpack.AppendMapHeader(b, 2), msgpack.AppendInt(msgpack.AppendString(nil, "count"), 1)...)
		b = msgpack.AppendString(msgpack.AppendMapHeader(msgpack.AppendString(b, "children"), 1), "f")
	}
	return msgpack.AppendMapHeader(b, 0)
}

// wide returns an encoded tree whose root has n children, with texts of size bytes.
func wide(n, size int) []byte {
	b := msgpack.AppendMapHeader(nil, 1)
	b = msgpack.AppendMapHeader(msgpack.AppendString(b, "children"), n)
	long := strings.Repeat("ä", size/2)
	for i := range n {
		b = msgpack.AppendString(b, fmt.Sprint(i, long))
		b = msgpack.AppendMapHeader(b, 1)
		b = msgpack.AppendMapHeader(msgpack.AppendString(b, "description"), 1)
		b = msgpack.AppendString(msgpack.AppendString(b, "name"), long)
	}
	return b
}

// Trees of peers do not exceed the limits of a tree, whatever they contain.
func TestHostileTrees(t *testing.T) {
	for name, data := range map[string][]byte{
		"deep": nested(1_000_000), "wide": wide(maxNodes+20_000, 0), "long": wide(4, 1<<20),
		"both": wide(12_000, 1<<10),
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var tree Tree
		for range 2 { // the second time nothing is new
			if err := tree.Read(data); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 64<<20 {
			t.Errorf("%s: got %d MiB in use, want at most 64", name, used>>20)
		}
		if tree.Len() > maxNodes || tree.bytes > maxBytes+maxID+3*maxText {
			t.Errorf("%s: got %d nodes and %d bytes, want at most %d and %d", name, tree.Len(), tree.bytes, maxNodes,
				maxBytes)
		}
		for _, n := range tree.nodes {
			if n.depth > MaxDepth || len(n.frame.ID) > maxID || len(n.frame.Name) > maxText {
				t.Fatalf("%s: got depth %d, texts of %d and %d bytes", name, n.depth, len(n.frame.ID),
					len(n.frame.Name))
			}
		}
		var back Tree
		if err := back.Read(tree.Append(nil)); err != nil || back.Len() != tree.Len() {
			t.Errorf("%s: got %d nodes back, %v, want %d", name, back.Len(), err, tree.Len())
		}
	}
}

func TestHostileCounts(t *testing.T) {
	for _, v := range []any{int64(math.MinInt64), int64(math.MaxInt64), uint64(math.MaxUint64), math.NaN(), math.Inf(1),
		math.Inf(-1), "many", nil, []any{1}} {
		data, err := msgpack.Append(nil, msgpack.MapOf("count", v, "children", msgpack.MapOf("f",
			msgpack.MapOf("description", "text", "count", v))))
		if err != nil {
			t.Fatal(err)
		}
		var tree Tree
		for range 3 {
			if err := tree.Read(data); err != nil {
				t.Errorf("%v: %v", v, err)
			}
		}
		var sum Tree
		sum.Merge(&tree)
		sum.Merge(&tree)
		if n := sum.Count(); n < 0 || n > maxCount {
			t.Errorf("%v: got a count of %d, want 0 to %d", v, n, int64(maxCount))
		}
	}
	for _, data := range [][]byte{nil, {0xc0}, {0x90}, {0x81}, msgpack.AppendString(nil, "x"), append(nested(3), 1)} {
		var tree Tree
		if err := tree.Read(data); err == nil {
			t.Errorf("% x: got no error", data)
		}
	}
}

func FuzzRead(f *testing.F) {
	var a Tree
	a.Add(stackOf("f", "g"), 3)
	a.Add(stackOf("f", "h"), 5)
	f.Add(a.Append(nil), a.Append(nil))
	f.Add(nested(120), wide(3, 2000))
	f.Fuzz(func(t *testing.T, x, y []byte) {
		var one, two Tree
		_ = one.Read(x) // the rest of a broken tree is dropped
		_ = two.Read(y)
		one.Merge(&two)
		var back Tree
		if err := back.Read(one.Append(nil)); err != nil {
			t.Fatalf("own encoding: %v", err)
		}
		if got, want := text(&back), text(&one); got != want {
			t.Fatalf("read back: got %s, want %s", got, want)
		}
	})
}
