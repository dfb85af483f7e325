package compress

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// noise does not compress.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestCompressRoundTrip(t *testing.T) {
	for _, name := range Names() {
		for _, b := range [][]byte{nil, bytes.Repeat([]byte("x"), 300), bytes.Repeat([]byte("abc"), 50_000),
			noise(70_000), make([]byte, 1<<20)} {
			c, err := Compressor{Name: name}.Compress(b)
			if err != nil {
				t.Fatal(err)
			}
			d := NewInflater(1 << 30)
			got, err := d.Decompress(name, c)
			if err != nil || !bytes.Equal(got, b) {
				t.Errorf("%s of %d bytes: %d came back, %v", name, len(b), len(got), err)
			}
			if d.left != 1<<30-int64(len(b)) {
				t.Errorf("%s of %d bytes: the budget has %d left", name, len(b), d.left)
			}
		}
	}
}

func TestMaybeCompress(t *testing.T) {
	text := bytes.Repeat([]byte("abcdefgh"), 10_000)
	half := append(bytes.Clone(text), noise(10*len(text))...) // samples see mostly noise
	for _, name := range Names() {
		c := Compressor{Name: name}
		for _, tc := range []struct {
			what string
			b    []byte
			want string
		}{
			{"text", text, name},
			{"text of the least length", text[:minSize], name},
			{"text too short", text[:minSize-1], ""},
			{"noise", noise(50_000), ""},
			{"mostly noise", half, ""},
			{"nothing", nil, ""},
		} {
			got, out, err := c.Maybe(tc.b)
			if err != nil || got != tc.want {
				t.Errorf("%s of %s: %q, %v, want %q", name, tc.what, got, err, tc.want)
			}
			if got == "" && !bytes.Equal(out, tc.b) {
				t.Errorf("%s of %s: not compressed, and changed", name, tc.what)
			}
		}
	}
	if name, _, err := (Compressor{}).Maybe(text); name != "" || err != nil {
		t.Errorf("no compression compressed: %q, %v", name, err)
	}
}

func TestByteSample(t *testing.T) {
	b := make([]byte, 100_000)
	for i := range b {
		b[i] = byte(i >> 8)
	}
	for range 100 {
		s := byteSample(b, sampleSize, samples)
		if len(s) < sampleSize || len(s) > sampleSize*samples {
			t.Fatalf("a sample of %d bytes", len(s))
		}
	}
	if s := byteSample(b[:sampleSize], sampleSize, samples); !bytes.Equal(s, b[:sampleSize]) {
		t.Errorf("the sample of %d bytes has %d", sampleSize, len(s))
	}
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{"": "", "false": "", "auto": LZ4, "lz4": LZ4, "zstd": Zstd,
		"snappy": Snappy, "zlib": Zlib} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	if _, err := Parse("gzip"); err == nil {
		t.Error("gzip is accepted")
	}
}

func TestZstdLevels(t *testing.T) {
	text := bytes.Repeat([]byte("level "), 10_000)
	for level := range 23 {
		c, err := Compressor{Name: Zstd, Level: level}.Compress(text)
		if err != nil {
			t.Fatal(err)
		}
		d := NewInflater(1 << 20)
		if got, err := d.Decompress(Zstd, c); err != nil || !bytes.Equal(got, text) {
			t.Errorf("level %d: %v", level, err)
		}
	}
}
