package pyspec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

func TestAppend(t *testing.T) {
	pickle := []byte("\x80\x05N.")
	for _, buffers := range [][]string{nil, {""}, {"abc", "", strings.Repeat("x", 1000)}} {
		p := &wire.Pickled{Data: pickle}
		for _, b := range buffers {
			p.Buffers = append(p.Buffers, wire.HeapFrame([]byte(b)))
		}
		spec, err := Append(nil, p)
		if err != nil || !Is(spec) || task.IsSpec(spec) {
			t.Fatalf("%d buffers: %v", len(buffers), err)
		}
		parts, err := Split(spec)
		if err != nil || len(parts) != 1+len(buffers) || !bytes.Equal(parts[0], pickle) {
			t.Fatalf("%d buffers: %q %v", len(buffers), parts, err)
		}
		for i, b := range buffers {
			if string(parts[1+i]) != b {
				t.Errorf("buffer %d: got %q, want %q", i, parts[1+i], b)
			}
		}
	}
	if _, err := Append(nil, &wire.Pickled{Data: []byte("no")}); err == nil {
		t.Error("Is: got true for bytes that are not a pickle")
	}
}

func FuzzSplitSpec(f *testing.F) {
	good, err := Append(nil, &wire.Pickled{Data: []byte("\x80\x05N."),
		Buffers: []wire.Frame{wire.HeapFrame([]byte("abc"))}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte("\x80\x05N."))
	f.Add([]byte(packMagic + "\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, spec []byte) {
		parts, err := Split(spec)
		if err != nil {
			return
		}
		n := 0
		for _, p := range parts {
			n += len(p)
		}
		if len(parts) == 0 || n > len(spec) {
			t.Errorf("%d parts of %d bytes out of %d", len(parts), n, len(spec))
		}
	})
}

func TestSplitRejects(t *testing.T) {
	word := func(b string, n ...uint64) []byte {
		out := []byte(b)
		for _, v := range n {
			out = binary.LittleEndian.AppendUint64(out, v)
		}
		return out
	}
	for name, spec := range map[string][]byte{
		"empty":            nil,
		"a task of Go":     []byte("MS\x01"),
		"no number":        []byte(packMagic),
		"one part":         append(word(packMagic, 1, 1), 'x'),
		"too many":         word(packMagic, maxBuffers+2),
		"more than fit":    word(packMagic, 3, 1, 1),
		"too long a part":  append(word(packMagic, 2, 1, 5), "xy"...),
		"a sum beyond int": append(word(packMagic, 2, 1, 1<<63), "xy"...),
		"bytes left over":  append(word(packMagic, 2, 1, 1), "xyz"...),
	} {
		if parts, err := Split(spec); !errors.Is(err, errSpec) {
			t.Errorf("%s: got %q, %v", name, parts, err)
		}
	}
}

// The run_spec of a message is packed, or the error is returned.
func TestFromMessage(t *testing.T) {
	large := bytes.Repeat([]byte("grain"), 1000)
	for _, v := range []any{wire.ToPickle{Value: "x"}, wire.ToPickle{Value: large}} {
		m, err := wire.Encode(v, wire.EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		spec, err := FromMessage(m, &message.Object{Raw: m.Body()})
		if err != nil || !Is(spec) {
			t.Fatalf("%T: %q, %v", v, spec, err)
		}
		if parts, err := Split(spec); err != nil || parts[0][0] != 0x80 {
			t.Errorf("%T: %q, %v", v, parts, err)
		}
	}
	m, err := wire.Encode("text", wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if spec, err := FromMessage(m, &message.Object{Raw: m.Body()}); !errors.Is(err, errSpec) ||
		!strings.Contains(err.Error(), "string") {
		t.Errorf("text: got %q, %v, want an error", spec, err)
	}
}
