package specs

import (
	"bytes"
	"slices"
	"testing"

	"go.millstream.dev/internal/engine/scheduler/state"
)

func TestSpecs(t *testing.T) {
	pickle := []byte("\x80\x05N.")
	for name, c := range map[string]struct {
		flags    byte
		pickle   []byte
		buffers  [][]byte
		shared   bool
		needs    state.Can
		producer bool
	}{
		"bare":     {0, pickle, nil, false, state.Python, false},
		"buffers":  {0, pickle, [][]byte{[]byte("one"), {}, []byte("three")}, false, state.Python, false},
		"go":       {Go, pickle, nil, false, state.Go, false},
		"producer": {Producer, pickle, [][]byte{{1}}, false, state.Python, true},
		"shared":   {0, []byte("N."), nil, true, state.Python, false},
	} {
		t.Run(name, func(t *testing.T) {
			spec := Append(nil, c.flags, c.pickle, c.buffers, c.shared)
			if len(spec) > Size(c.pickle, c.buffers) {
				t.Errorf("length: got %d, want at most %d", len(spec), Size(c.pickle, c.buffers))
			}
			p, err := Read(spec)
			if err != nil || !bytes.Equal(p.Pickle, c.pickle) || p.flags != c.flags {
				t.Fatalf("spec: got %+v, error %v", p, err)
			}
			var got [][]byte
			p.Buffers(func(b []byte) { got = append(got, b) })
			if !slices.EqualFunc(got, c.buffers, bytes.Equal) {
				t.Errorf("buffers: got %q", got)
			}
			needs, producer, err := Needs(spec)
			if needs != c.needs || producer != c.producer || err != nil {
				t.Errorf("got needs %v, producer %v, error %v", needs, producer, err)
			}
			for i := range spec {
				if i > 0 && spec[0] == specMore {
					if _, err := Read(spec[:i]); err == nil {
						t.Errorf("truncated at %d: got no error", i)
					}
				}
			}
		})
	}
	if _, _, err := Needs([]byte("anything")); err == nil {
		t.Error("invalid spec: got no error")
	}
	whole, err := Read(AppendWhole(nil, []byte("\x80\x05"), Append(nil, Go, []byte("N."), [][]byte{{7}}, true)))
	if err != nil || string(whole.Pickle) != "\x80\x05N." || whole.N != 1 || whole.flags != Go {
		t.Errorf("whole spec: got %+v, error %v", whole, err)
	}
}

// Every spec is read as it was written: flags × shared part × buffers. Missing and additional bytes, and lengths beyond
// the end, are errors.
func TestSpecsAreExact(t *testing.T) {
	for _, flags := range []byte{0, Go, Producer, Go | Producer} {
		for _, shared := range []bool{false, true} {
			for _, buffers := range [][][]byte{nil, {{}}, {[]byte("a")}, {{}, []byte("bc"), {}},
				{bytes.Repeat([]byte{7}, 300)}} {
				pickle := []byte("\x80\x05N.")
				if shared {
					pickle = pickle[2:]
				}
				spec := Append([]byte("before"), flags, pickle, buffers, shared)
				if string(spec[:6]) != "before" {
					t.Fatalf("prefix: got %q, want it unchanged", spec[:6])
				}
				spec = spec[6:]
				p, err := Read(spec)
				if err != nil || p.flags != flags || p.N != len(buffers) || !bytes.Equal(p.Pickle, pickle) {
					t.Errorf("flags %d, shared %v, %d buffers: got %+v, error %v", flags, shared, len(buffers), p, err)
				}
				if whole := AppendWhole(nil, []byte("\x80\x05"), Append(nil, flags, []byte("N."), buffers,
					true)); !bytes.Equal(whole,
					Append(nil, flags, []byte("\x80\x05N."), buffers, false)) {
					t.Errorf("flags %d, %d buffers: got whole spec %q", flags, len(buffers), whole)
				}
				if spec[0] == Pickle {
					continue // the reader checks the end of the pickle
				}
				for _, bad := range [][]byte{append(bytes.Clone(spec), 0), append(bytes.Clone(spec), "tail"...),
					spec[:len(spec)-1]} {
					if p, err := Read(bad); err == nil {
						t.Errorf("%q: got %+v, want an error", bad, p)
					}
				}
			}
		}
	}
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}
	for _, spec := range [][]byte{nil, {}, {specMore}, {specMore, 0}, {specMore, 0, 0}, append([]byte{specMore, 0},
		huge...),
		append([]byte{specMore, 0, 0}, huge...), append([]byte{specMore, 0, 1, 0}, huge...), {specMore, 0, 2, 0, 0}, {2,
			0, 0, 0},
		{specMore, 0, 0, 1}, {specMore, 0, 1, 0, 5, 1}} {
		if p, err := Read(spec); err == nil {
			t.Errorf("% x: got %+v, want an error", spec, p)
		}
		if got := AppendWhole(nil, []byte("shared"), spec); !bytes.Equal(got, spec) {
			t.Errorf("% x with its shared part: got % x, want it unchanged", spec, got)
		}
	}
	for _, spec := range [][]byte{nil, []byte("MS\x01\xa1f")} { // a known key, and a call of a Go client
		if needs, producer, err := Needs(spec); needs != 0 || producer || err != nil {
			t.Errorf("%q: got %v, %v, %v, want no needs", spec, needs, producer, err)
		}
	}
}
