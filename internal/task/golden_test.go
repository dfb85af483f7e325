package task

import (
	"context"
	"encoding/hex"
	"testing"

	"go.millstream.dev/wire"
)

// The bytes of version 1: a release that reads it must go on reading them.
const (
	goldenSpec = "4d5301a5742e696e6390010029"
	goldenHead = "83a17601a56e6f64657302ab616e6e6f746174696f6e739181a77265747269657303"
)

func TestGoldenSpec(t *testing.T) {
	if got := hex.EncodeToString(specOf(t, incF, Val(41))); got != goldenSpec {
		t.Errorf("a call is written as %s, want %s", got, goldenSpec)
	}
	b, err := hex.DecodeString(goldenSpec)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseCall(b)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := c.Run(context.Background(), nil); v != 42 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
}

func TestGoldenGraph(t *testing.T) {
	var w GraphWriter
	at := w.Annotations(&Annotations{Retries: 3})
	w.Spec(NewKey("a"), specOf(t, incF, Val(41)), nil, at, 0)
	w.Spec(NewKey("b"), nil, []Key{NewKey("a")}, None, None)
	s := w.SerializedFor("r")
	const (
		header = "84aa73657269616c697a6572b06d696c6c73747265616d2d6772617068a17601a87265676973747279a172ae6e756d2d7375622d6672616d657302"
		nodes  = "95a161c40d" + goldenSpec + "900000" + "95a162c091a161c0c0"
	)
	for i, want := range []string{header, goldenHead, nodes} {
		got := s.Header
		if i > 0 {
			got = s.Frames[i-1].Bytes()
		}
		if hex.EncodeToString(got) != want {
			t.Errorf("part %d is written as %x, want %s", i, got, want)
		}
	}
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	got, g, err := readAll(&wire.Serialized{Header: unhex(header),
		Frames: []wire.Frame{wire.HeapFrame(unhex(goldenHead)), wire.HeapFrame(unhex(nodes))}})
	if err != nil || len(got) != 2 || got[1].Deps[0] != "a" || g.Annotations[0].Retries != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}
