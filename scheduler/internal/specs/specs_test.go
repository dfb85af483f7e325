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
				t.Errorf("%d bytes, at most %d were said", len(spec), Size(c.pickle, c.buffers))
			}
			p, err := Read(spec)
			if err != nil || !bytes.Equal(p.Pickle, c.pickle) || p.flags != c.flags {
				t.Fatalf("%+v, %v", p, err)
			}
			var got [][]byte
			p.Buffers(func(b []byte) { got = append(got, b) })
			if !slices.EqualFunc(got, c.buffers, bytes.Equal) {
				t.Errorf("buffers %q", got)
			}
			needs, producer, err := Needs(spec)
			if needs != c.needs || producer != c.producer || err != nil {
				t.Errorf("needs %v, producer %v, %v", needs, producer, err)
			}
			for i := range spec {
				if i > 0 && spec[0] == specMore {
					if _, err := Read(spec[:i]); err == nil {
						t.Errorf("cut at %d it is read", i)
					}
				}
			}
		})
	}
	if _, _, err := Needs([]byte("anything")); err == nil {
		t.Error("a spec of nobody's is taken")
	}
	whole, err := Read(AppendWhole(nil, []byte("\x80\x05"), Append(nil, Go, []byte("N."), [][]byte{{7}}, true)))
	if err != nil || string(whole.Pickle) != "\x80\x05N." || whole.N != 1 || whole.flags != Go {
		t.Errorf("put together: %+v, %v", whole, err)
	}
}
