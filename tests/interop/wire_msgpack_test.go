package interop

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"go.millstream.dev/internal/testkit/wiretest"
	"go.millstream.dev/internal/wire/framing"
	"go.millstream.dev/internal/wire/msgpack"
)

func hasOpaque(s string) bool { return strings.Contains(s, "opaque") }

// TestWireMsgpackFromPython: random trees of Python mean the same to Go, and Go writes the
// same bytes.
func TestWireMsgpackFromPython(t *testing.T) {
	p := newWirePeer(t)
	a, frames := p.ask("random_msgpack", seedAndCount(wireSeed(t), 2000))
	for i, b := range frames {
		v, err := msgpack.Decode(b)
		if err != nil {
			t.Fatalf("%x: %v", b, err)
		}
		if got := wiretest.Describe(v, true); got != a.Texts[i] {
			t.Fatalf("%x: Go decoded\n%s, Python\n%s", b, got, a.Texts[i])
		}
		again, err := msgpack.Append(nil, v)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x became %x (%v)", b, again, err)
		}
	}
}

// randomTree is what msgpack has, in Go.
func randomTree(r *rand.Rand, depth int) any {
	n := 9
	if depth == 0 {
		n = 7
	}
	switch r.IntN(n) {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return int64(r.Uint64()) >> r.IntN(64)
	case 3:
		return r.Uint64() | 1<<63
	case 4:
		return math.Float64frombits(r.Uint64())
	case 5:
		return strings.Repeat("ä", r.IntN(200))
	case 6:
		return make([]byte, r.IntN(300))
	case 7:
		l := make([]any, r.IntN(20))
		for i := range l {
			l[i] = randomTree(r, depth-1)
		}
		return l
	}
	m := make(msgpack.Map, r.IntN(20))
	for i := range m {
		m[i] = msgpack.Pair{Key: []any{int64(i), "k"}, Value: randomTree(r, depth-1)}
	}
	return m
}

// TestWireMsgpackFromGo: the other way round, and bytes that are no msgpack at all.
func TestWireMsgpackFromGo(t *testing.T) {
	p := newWirePeer(t)
	seed := wireSeed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	var frames [][]byte
	var texts []string
	for range 1000 {
		v := randomTree(r, 3)
		b, err := msgpack.Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		frames, texts = append(frames, b), append(texts, wiretest.Describe(v, true))
	}
	a, again := p.ask("msgpack", frames...)
	for i, out := range a.Out {
		if out.Error != "" || out.Text != texts[i] || !bytes.Equal(again[i], frames[i]) {
			t.Fatalf("seed %d: %x: Python decoded\n%s (%s), Go\n%s", seed, frames[i], out.Text, out.Error, texts[i])
		}
	}

	// Damage: what one accepts, the other accepts and understands in the same way.
	// Extension types are the exception: Dask has none, and Go refuses them; so are maps
	// with equal keys, which Go keeps as they are.
	for i := range frames {
		if frames[i] = bytes.Clone(frames[i]); len(frames[i]) > 0 {
			frames[i][r.IntN(len(frames[i]))] = byte(r.Uint32())
		}
	}
	a, _ = p.ask("msgpack", frames...)
	agreed := 0
	for i, out := range a.Out {
		v, err := msgpack.Decode(frames[i])
		switch {
		case err == nil && out.Error != "":
			t.Fatalf("seed %d: %x: Go accepts it, Python: %s", seed, frames[i], out.Error)
		case err != nil && out.Error == "":
			if !hasOpaque(out.Text) && !strings.Contains(err.Error(), "invalid first byte") {
				t.Fatalf("seed %d: %x: Python accepts it, Go: %v", seed, frames[i], err)
			}
		case err == nil:
			agreed++
			if got := wiretest.Describe(v, true); got != out.Text && !repeats(v) {
				t.Fatalf("seed %d: %x: Go decoded\n%s, Python\n%s", seed, frames[i], got, out.Text)
			}
		}
	}
	if agreed == 0 {
		t.Error("no damaged tree was accepted: the test tests nothing")
	}
}

// number makes of a key the one of Python's equal keys that stands for all: 1, 1.0 and
// True are one.
func number(v any) any {
	switch v := v.(type) {
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return int64(v)
		}
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = number(x)
		}
		return out
	}
	return v
}

// repeats tells whether a map has keys that are one key to Python.
func repeats(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if repeats(x) {
				return true
			}
		}
	case msgpack.Map:
		seen := make(map[string]bool)
		for _, p := range v {
			k := wiretest.Describe(number(p.Key), true)
			if seen[k] || repeats(p.Value) {
				return true
			}
			seen[k] = true
		}
	}
	return false
}

// TestWirePrelude: Dask's own split of the bytes after the first length, whole and cut at
// random places.
func TestWirePrelude(t *testing.T) {
	p := newWirePeer(t)
	seed := wireSeed(t)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 300 {
		n := 1 + r.IntN(5)
		b := binary.LittleEndian.AppendUint64(nil, uint64(n))
		total := 0
		for range n {
			k := r.IntN(3) * r.IntN(20)
			total += k
			b = binary.LittleEndian.AppendUint64(b, uint64(k))
		}
		b = append(b, make([]byte, r.IntN(total+2))...)
		a, _ := p.ask("unpack", b)
		pre, err := framing.Parse(b, int64(len(b)), framing.Limits{})
		if (err != nil) != (a.Error != "") {
			t.Fatalf("seed %d: %x: Go %v, Python %s", seed, b, err, a.Error)
		}
		if err != nil {
			continue
		}
		if pre.Joined != len(a.Lengths) || len(pre.Missing()) != len(a.Missing) {
			t.Fatalf("seed %d: %x: Go has %d frames joined and %d missing, Python %d and %d", seed, b, pre.Joined,
				len(pre.Missing()), len(a.Lengths), len(a.Missing))
		}
	}
}
