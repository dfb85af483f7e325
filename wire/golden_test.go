package wire_test

import (
	"bytes"
	"testing"

	"go.millstream.dev/internal/testkit/wiretest"
	"go.millstream.dev/wire"
)

// golden are the messages that the real packages wrote.
func golden(t testing.TB) []wiretest.Case {
	t.Helper()
	cases, err := wiretest.Load("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// text decodes a message and describes what came out.
func text(m *wire.Message, c *wiretest.Case) (any, string, error) {
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		return nil, "", err
	}
	return v, wiretest.Describe(v, c.Loose()), nil
}

// TestGolden decodes what Python encoded, and what it encodes itself out of that.
func TestGolden(t *testing.T) {
	for _, c := range golden(t) {
		t.Run(c.Name, func(t *testing.T) {
			v, got, err := text(c.Message(), &c)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.Text {
				t.Fatalf("got  %s\nwant %s", got, c.Text)
			}
			if got := wiretest.Describe(wire.Clone(v), c.Loose()); got != c.Text {
				t.Errorf("clone: %s", got)
			}
			for _, opt := range []wire.EncodeOptions{
				{}, {ShardSize: 1000, PickleProtocol: 4}, {Compression: "lz4"},
				{Compression: "zstd", ShardSize: 20000},
				{Compression: "snappy"}, {Compression: "zlib"},
			} {
				if c.Kind == "value" {
					v = wire.Serialize{Value: v}
				}
				m, err := wire.Encode(v, opt)
				if err != nil {
					t.Fatalf("%+v: encode: %v", opt, err)
				}
				back, got, err := text(m, &c)
				if err != nil {
					t.Fatalf("%+v: decode again: %v", opt, err)
				}
				if got != c.Text {
					t.Errorf("%+v: came back as %s, want %s", opt, got, c.Text)
				}
				v = back
			}
		})
	}
}

// TestGoldenKept passes everything on unopened: the frames that leave are those that came.
func TestGoldenKept(t *testing.T) {
	for _, c := range golden(t) {
		m := c.Message()
		v, err := wire.Decode(m, wire.DecodeOptions{Keep: true, KeepPickled: true})
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		out, err := wire.Encode(v, wire.EncodeOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if len(out.Frames) != len(m.Frames) {
			t.Errorf("%s: %d frames became %d", c.Name, len(m.Frames), len(out.Frames))
			continue
		}
		for i := range m.Frames {
			if !bytes.Equal(m.Frames[i].Bytes(), out.Frames[i].Bytes()) {
				t.Errorf("%s: frame %d changed:\n%q\n%q", c.Name, i, m.Frames[i].Bytes(), out.Frames[i].Bytes())
			}
		}
	}
}
