package wire

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
	for _, name := range Compressions() {
		for _, b := range [][]byte{nil, bytes.Repeat([]byte("x"), 300), bytes.Repeat([]byte("abc"), 50_000),
			noise(70_000), make([]byte, 1<<20)} {
			c, err := compressor{name: name}.compress(b)
			if err != nil {
				t.Fatal(err)
			}
			d := inflater{left: 1 << 30, limit: 1 << 30}
			got, err := d.decompress(name, c)
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
	for _, name := range Compressions() {
		c := compressor{name: name}
		for _, tc := range []struct {
			what string
			b    []byte
			want string
		}{
			{"text", text, name},
			{"text of the least length", text[:compressMin], name},
			{"text too short", text[:compressMin-1], ""},
			{"noise", noise(50_000), ""},
			{"mostly noise", half, ""},
			{"nothing", nil, ""},
		} {
			got, out, err := c.maybe(tc.b)
			if err != nil || got != tc.want {
				t.Errorf("%s of %s: %q, %v, want %q", name, tc.what, got, err, tc.want)
			}
			if got == "" && !bytes.Equal(out, tc.b) {
				t.Errorf("%s of %s: not compressed, and changed", name, tc.what)
			}
		}
	}
	if name, _, err := (compressor{}).maybe(text); name != "" || err != nil {
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

func TestCompressionName(t *testing.T) {
	for in, want := range map[string]string{"": "", "false": "", "auto": LZ4, "lz4": LZ4, "zstd": Zstd,
		"snappy": Snappy, "zlib": Zlib} {
		if got, err := CompressionName(in); err != nil || got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	if _, err := CompressionName("gzip"); err == nil {
		t.Error("gzip is accepted")
	}
}

func TestZstdLevels(t *testing.T) {
	text := bytes.Repeat([]byte("level "), 10_000)
	for level := range 23 {
		c, err := compressor{name: Zstd, level: level}.compress(text)
		if err != nil {
			t.Fatal(err)
		}
		d := inflater{left: 1 << 20}
		if got, err := d.decompress(Zstd, c); err != nil || !bytes.Equal(got, text) {
			t.Errorf("level %d: %v", level, err)
		}
	}
}

func TestMerge(t *testing.T) {
	whole := noise(1000)
	at := func(from, to int) Frame { return HeapFrame(whole[from:to]) }
	for _, tc := range []struct {
		name   string
		shards []Frame
		shared bool
	}{
		{"neighbours", []Frame{at(0, 100), at(100, 500), at(500, 1000)}, true},
		{"empty between", []Frame{at(0, 100), {}, at(100, 1000)}, true},
		{"one", []Frame{at(0, 1000)}, true},
		{"wrong order", []Frame{at(500, 1000), at(0, 500)}, false},
		{"gap", []Frame{at(0, 100), at(101, 500)}, false},
		{"capped", []Frame{HeapFrame(whole[0:100:100]), at(100, 200)}, false},
		{"capped in the middle", []Frame{HeapFrame(whole[0:100:200]), at(100, 200), at(200, 300)}, false},
		{"copies", []Frame{HeapFrame(bytes.Clone(whole[:100])), at(100, 200)}, false},
	} {
		var want []byte
		for _, s := range tc.shards {
			want = append(want, s.Bytes()...)
		}
		got, err := merge(tc.shards)
		if err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: %v, or other bytes", tc.name, err)
			continue
		}
		if shared := &got.Bytes()[0] == &tc.shards[0].Bytes()[0]; shared != tc.shared {
			t.Errorf("%s: shares memory: %t", tc.name, shared)
		}
		if cap(got.Bytes()) != len(want) {
			t.Errorf("%s: an append would reach %d bytes of others", tc.name, cap(got.Bytes())-len(want))
		}
	}
	if f, err := merge(nil); err != nil || f.Len() != 0 {
		t.Errorf("nothing: %d bytes, %v", f.Len(), err)
	}
	for _, size := range []int{1, 7, 999, 1000, 1001} {
		shards := split(nil, HeapFrame(whole), size)
		if len(shards) != (1000+size-1)/size {
			t.Errorf("%d shards of %d", len(shards), size)
		}
		if f, err := merge(shards); err != nil || !bytes.Equal(f.Bytes(), whole) {
			t.Errorf("shards of %d: %v", size, err)
		}
	}
}
