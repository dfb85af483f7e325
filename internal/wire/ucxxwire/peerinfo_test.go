package ucxxwire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The check values come from UCXX 0.52.0's hash64bits; the last peer info was
// recorded from a running endpoint.
var peerVectors = []struct {
	tag  uint64
	wire string
}{
	{0, "0000000000000000" + "9f7f62b15609dd22"},
	{1, "0100000000000000" + "fd47573cf7fa44e7"},
	{12345, "3930000000000000" + "1b9f623cc585124d"},
	{0xdeadbeefcafebabe, "bebafecaefbeadde" + "7a8d587c04199514"},
	{math.MaxUint64, "ffffffffffffffff" + "98cb4217738fca81"},
	{0x9581793b9ae6936f, "6f93e69a3b79819547f3d38d10d34927"},
	{0x31a655df3332b337, "37b33233df55a63183454d75791c4ffc"},
}

func TestPeerInfoVectors(t *testing.T) {
	for _, v := range peerVectors {
		want := unhex(t, v.wire)
		if got := (PeerInfo{Tag: v.tag}).Append(nil); !bytes.Equal(got, want) {
			t.Errorf("tag %#x: encoded %x, want %x", v.tag, got, want)
		}
		got, err := DecodePeerInfo(want)
		if err != nil || got.Tag != v.tag {
			t.Errorf("tag %#x: decoded %+v, %v", v.tag, got, err)
		}
	}
}

func TestPeerInfoRefuses(t *testing.T) {
	good := PeerInfo{Tag: 5}.Append(nil)
	flipped := bytes.Clone(good)
	flipped[3] ^= 1
	// UCX-Py's struct "QQQ" has a tag for control messages, too.
	old := append(bytes.Clone(good), make([]byte, 8)...)
	decode := func(b []byte) error { _, err := DecodePeerInfo(b); return err }
	for _, c := range []struct {
		name     string
		decode   func([]byte) error
		in       []byte
		field    string
		checksum bool
	}{
		{"empty", decode, nil, "length", false},
		{"short", decode, good[:15], "length", false},
		{"long", decode, append(bytes.Clone(good), 0), "length", false},
		{"UCX-Py's form", decode, old, "length", false},
		{"bit flip", decode, flipped, "check", true},
		{"zeros", decode, make([]byte, 16), "check", true},
	} {
		err := c.decode(c.in)
		var fe *FieldError
		if !errors.As(err, &fe) || fe.Field != c.field {
			t.Errorf("%s: got %v, want an error on field %s", c.name, err, c.field)
			continue
		}
		if errors.Is(err, ErrChecksum) != c.checksum {
			t.Errorf("%s: ErrChecksum in %v: want %v", c.name, err, c.checksum)
		}
		if !strings.Contains(err.Error(), "peer info") || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%s: %q does not name format and field", c.name, err)
		}
	}
}

func TestUserTagVectors(t *testing.T) {
	for _, c := range []struct {
		ep   uint64
		hash int64
		want uint64
	}{
		{12345, PyHash(7), 0x3bc2652320173247},
		{12345, PyHash(-1), 0x26edba5dbe997b8b},
		{12345, PyHash(1<<61 - 1), 0x9126b61a8572d16e},
		{12345, PyHash(1 << 61), 0xc22f4e0289a28ca7},
		{12345, PyHash(math.MinInt64), 0x30eff1d7c586cf73},
		{12345, PyHashUint(math.MaxUint64), 0x3bc2652320173247}, // hash(2**64-1) == 7
		{math.MaxUint64, PyHash(-5), 0xc104db67b27268e6},
		{0x9581793b9ae6936f, PyHash(7), 0x1bae5a246f9a6572}, // recorded
	} {
		if got := UserTag(c.ep, c.hash); got != c.want {
			t.Errorf("UserTag(%#x, %d) = %#x, want %#x", c.ep, c.hash, got, c.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { UserTag(math.MaxUint64, math.MinInt64) }); n != 0 {
		t.Errorf("UserTag allocates %v times", n)
	}
}

func TestPyHash(t *testing.T) {
	for _, c := range []struct{ n, want int64 }{
		{0, 0}, {1, 1}, {-1, -2}, {-2, -2}, {7, 7}, {-7, -7},
		{1<<61 - 2, 1<<61 - 2}, {1<<61 - 1, 0}, {-(1<<61 - 1), 0}, {1 << 61, 1},
		{-(1 << 61), -2}, {math.MaxInt64, 3}, {math.MinInt64, -4},
	} {
		if got := PyHash(c.n); got != c.want {
			t.Errorf("PyHash(%d) = %d, want %d", c.n, got, c.want)
		}
	}
	if got := PyHashUint(math.MaxUint64); got != 7 {
		t.Errorf("PyHashUint(MaxUint64) = %d, want 7", got)
	}
}
