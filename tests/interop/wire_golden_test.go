package interop

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"go.millstream.dev/internal/testkit/wiretest"
	"go.millstream.dev/internal/wire/compress"
	"go.millstream.dev/wire"
)

// goldenCases are those of the packages that are installed.
func goldenCases(t *testing.T, p *wirePeer) []wiretest.Case {
	a, frames := p.ask("golden")
	var out []wiretest.Case
	for _, c := range a.Cases {
		out = append(out, wiretest.Case{Name: c.Name, Kind: c.Kind, Text: c.Text, Frames: frames[:c.N]})
		frames = frames[c.N:]
	}
	if len(out) < 150 || len(frames) != 0 {
		t.Fatalf("%d golden cases, %d frames left", len(out), len(frames))
	}
	return out
}

// TestWireGolden: Python encodes, Go decodes; Go encodes, Python decodes and compares with
// the original.
func TestWireGolden(t *testing.T) {
	p := newWirePeer(t)
	cases := goldenCases(t, p)
	for _, c := range cases {
		v, err := wire.Decode(c.Message(), wire.DecodeOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if got := wiretest.Describe(v, c.Loose()); got != c.Text {
			t.Errorf("%s: Go decoded\n%s, Python\n%s", c.Name, got, c.Text)
			continue
		}
		if c.Kind == "value" {
			v = wire.Serialize{Value: v}
		}
		for _, opt := range []wire.EncodeOptions{
			{}, {PickleProtocol: 4, ShardSize: 100}, {Compression: compress.LZ4},
			{Compression: compress.Zstd, ShardSize: 15000},
			{Compression: compress.Snappy}, {Compression: compress.Zlib},
		} {
			m, err := wire.Encode(v, opt)
			if err != nil {
				t.Errorf("%s: encode: %v", c.Name, err)
				break
			}
			if a, _ := p.ask("check", append([][]byte{[]byte(c.Name)}, asBytes(m)...)...); !a.Same {
				t.Errorf("%s, %+v: Python decodes what Go encoded as\n%s, want\n%s", c.Name, opt, a.Text, c.Text)
				break
			}
		}
	}
}

// TestWireGoldenFile: what is captured in the repository says the same as the packages do
// today.
func TestWireGoldenFile(t *testing.T) {
	captured, err := wiretest.Load("../../wire/testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	today := goldenCases(t, newWirePeer(t))
	for _, c := range captured {
		i := slices.IndexFunc(today, func(d wiretest.Case) bool { return d.Name == c.Name })
		if i < 0 {
			t.Errorf("%s is captured and not made any more: run wire_golden.py again", c.Name)
			continue
		}
		if c.Text != today[i].Text || c.Kind != today[i].Kind {
			t.Errorf("%s: captured as\n%s, today\n%s", c.Name, c.Text, today[i].Text)
		}
	}
	if len(captured) != len(today) {
		t.Errorf("%d cases are captured, %d are made: run wire_golden.py again", len(captured), len(today))
	}
}

// wireSeed is the same in every run, unless MILLSTREAM_WIRE_SEED asks for other cases.
func wireSeed(t *testing.T) uint64 {
	text := os.Getenv("MILLSTREAM_WIRE_SEED")
	if text == "" {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

func seedAndCount(seed uint64, n int) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, seed), uint64(n))
}

// TestWireRandomMessages: random messages of all kinds of values, in both directions.
func TestWireRandomMessages(t *testing.T) {
	p := newWirePeer(t)
	a, frames := p.ask("random_messages", seedAndCount(wireSeed(t), 300))
	for i, c := range a.Cases {
		m := asMessage(frames[:c.N])
		frames = frames[c.N:]
		v, err := wire.Decode(m, wire.DecodeOptions{})
		if err != nil {
			t.Fatalf("message %d: %v\n%s", i, err, c.Text)
		}
		if got := wiretest.Describe(v, true); got != c.Text {
			t.Fatalf("message %d: Go decoded\n%s, Python\n%s", i, got, c.Text)
		}
		back, err := wire.Encode(v, wire.EncodeOptions{ShardSize: 1000,
			Compression: []string{"", compress.LZ4, compress.Zstd}[i%3]})
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if b, _ := p.ask("describe", append([][]byte{[]byte("loose")}, asBytes(back)...)...); b.Text != c.Text {
			t.Fatalf("message %d: Python decodes what Go encoded as\n%s, want\n%s", i, b.Text, c.Text)
		}
		// And passed on unopened.
		kept, err := wire.Decode(m, wire.DecodeOptions{Keep: true, KeepPickled: true})
		if err != nil {
			t.Fatal(err)
		}
		if back, err = wire.Encode(kept, wire.EncodeOptions{}); err != nil {
			t.Fatal(err)
		}
		if b, _ := p.ask("describe", append([][]byte{[]byte("loose")}, asBytes(back)...)...); b.Text != c.Text {
			t.Fatalf("message %d: passed on, Python decodes\n%s, want\n%s", i, b.Text, c.Text)
		}
	}
}

// TestWireDamagedMessages: frames with a byte changed. What Go accepts means the same to
// Python, unless Python refuses it; Go may refuse more.
func TestWireDamagedMessages(t *testing.T) {
	p := newWirePeer(t)
	seed := wireSeed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	a, frames := p.ask("random_messages", seedAndCount(seed, 60))
	accepted, both := 0, 0
	for _, c := range a.Cases {
		group := frames[:c.N]
		frames = frames[c.N:]
		for range 8 {
			damaged := slices.Clone(group)
			k := r.IntN(len(damaged))
			if len(damaged[k]) == 0 {
				continue
			}
			damaged[k] = slices.Clone(damaged[k])
			damaged[k][r.IntN(len(damaged[k]))] ^= 1 << r.IntN(8)
			v, err := wire.Decode(asMessage(damaged), wire.DecodeOptions{})
			if err != nil {
				continue
			}
			accepted++
			got := wiretest.Describe(v, true)
			b, _ := p.ask("loads", damaged...)
			if b.Error != "" {
				continue
			}
			both++
			if b.Text != got && !hasOpaque(got) && !hasOpaque(b.Text) {
				t.Fatalf("seed %d: damaged frame %d %q: Go decoded\n%s, Python\n%s", seed, k, damaged[k], got, b.Text)
			}
		}
	}
	if accepted == 0 || both == 0 {
		t.Errorf("of all damaged messages Go accepted %d and both %d: the test tests nothing", accepted, both)
	}
	t.Logf("Go accepted %d damaged messages, Python %d of them", accepted, both)
}
