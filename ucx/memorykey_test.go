package ucx

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/gob"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/mem"
)

var (
	_ encoding.BinaryMarshaler   = MemoryKey{}
	_ encoding.BinaryUnmarshaler = (*MemoryKey)(nil)
)

// plainKey is a key that UCX did not make: two memory domains of 3 and 0 bytes.
func plainKey() MemoryKey {
	packed := binary.NativeEndian.AppendUint64(nil, 0b101)
	packed = append(packed, 0, 3, 'a', 'b', 'c', 0)
	return MemoryKey{addr: 0x7f00_0000_1000, size: 4096, kind: mem.Host, lib: [2]uint8{1, 13}, packed: packed}
}

func marshal(t testing.TB, k MemoryKey) []byte {
	t.Helper()
	b, err := k.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func equalKeys(a, b MemoryKey) bool {
	return a.addr == b.addr && a.size == b.size && a.kind == b.kind && a.readOnly == b.readOnly && a.lib == b.lib &&
		bytes.Equal(a.packed, b.packed)
}

// TestSerialization: a key survives its bytes, alone and inside other formats.
func TestSerialization(t *testing.T) {
	for _, k := range []MemoryKey{plainKey(), {addr: 1, size: 1, kind: mem.Device, readOnly: true,
		packed: make([]byte, 9)}} {
		var got MemoryKey
		if err := got.UnmarshalBinary(marshal(t, k)); err != nil {
			t.Fatal(err)
		}
		if !equalKeys(got, k) {
			t.Errorf("%+v became %+v", k, got)
		}
		var wire bytes.Buffer
		if err := gob.NewEncoder(&wire).Encode(k); err != nil {
			t.Fatal(err)
		}
		got = MemoryKey{}
		if err := gob.NewDecoder(&wire).Decode(&got); err != nil || !equalKeys(got, k) {
			t.Errorf("by gob: %+v became %+v, %v", k, got, err)
		}
	}
	if _, err := (MemoryKey{}).MarshalBinary(); err == nil {
		t.Error("an empty key has bytes")
	}
}

// TestSerializationGolden pins the form: bytes of version 1 stay readable.
func TestSerializationGolden(t *testing.T) {
	const golden = "MSMK\x01\x01\x00\x00" + "\x00\x10\x00\x00\x00\x7f\x00\x00" + "\x00\x10\x00\x00\x00\x00\x00\x00" +
		"\x01\x15\x09\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "\x84\xc3\xd6\x5e\x86\xfc\xec\xcb"
	k := MemoryKey{addr: 0x7f00_0000_1000, size: 4096, readOnly: true, lib: [2]uint8{1, 21}, packed: make([]byte, 9)}
	if b := marshal(t, k); string(b) != golden {
		t.Errorf("got %q", b)
	}
	var got MemoryKey
	if err := got.UnmarshalBinary([]byte(golden)); err != nil || !equalKeys(got, k) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestCorruptedSerializedData: each single wrong bit and each longer form is refused.
func TestCorruptedSerializedData(t *testing.T) {
	good := marshal(t, plainKey())
	before := plainKey()
	for i := range len(good) * 8 {
		b := slices.Clone(good)
		b[i/8] ^= 1 << (i % 8)
		got := before
		if err := got.UnmarshalBinary(b); err == nil {
			t.Errorf("bit %d of byte %d may be wrong", i%8, i/8)
		}
		if !equalKeys(got, before) {
			t.Fatal("a refused key was changed all the same")
		}
	}
	var k MemoryKey
	if err := k.UnmarshalBinary(append(slices.Clone(good), 0)); err == nil {
		t.Error("a byte more is not noticed")
	}
	if err := k.UnmarshalBinary(append([]byte("GARB"), good[4:]...)); err == nil ||
		!strings.Contains(err.Error(), "not a memory key") {
		t.Errorf("other magic: %v", err)
	}
	newer := slices.Clone(good)
	newer[4] = 2
	if err := k.UnmarshalBinary(newer); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("other version: %v", err)
	}
}

func TestTruncatedSerializedData(t *testing.T) {
	good := marshal(t, plainKey())
	for n := range good {
		var k MemoryKey
		if err := k.UnmarshalBinary(good[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken for a key", n, len(good))
		}
	}
}

// resign gives altered bytes a right checksum: what is left is the meaning.
func resign(b []byte) []byte {
	body := b[:len(b)-8]
	return append(slices.Clone(body), checksum(body)...)
}

// TestImpossibleKeys: keys that are whole but cannot be meant.
func TestImpossibleKeys(t *testing.T) {
	alter := func(f func(k *MemoryKey)) MemoryKey {
		k := plainKey()
		f(&k)
		return k
	}
	packed := func(b ...byte) MemoryKey { return alter(func(k *MemoryKey) { k.packed = b }) }
	for name, k := range map[string]MemoryKey{
		"no bytes":              alter(func(k *MemoryKey) { k.size = 0 }),
		"beyond memory":         alter(func(k *MemoryKey) { k.size = 1 << 63 }),
		"around the end":        alter(func(k *MemoryKey) { k.addr = ^uint64(0) - 10 }),
		"unknown kind":          alter(func(k *MemoryKey) { k.kind = 9 }),
		"empty":                 packed([]byte{}...),
		"short":                 packed(0, 0, 0, 0, 0, 0, 0, 0),
		"no domain":             packed(1, 0, 0, 0, 0, 0, 0, 0, 0),
		"domain cut off":        packed(1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 7),
		"second domain missing": packed(3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7),
		"unknown memory type":   packed(0, 0, 0, 0, 0, 0, 0, 0, 77),
		"too long":              alter(func(k *MemoryKey) { k.packed = append(k.packed, make([]byte, maxPacked)...) }),
	} {
		if _, err := k.MarshalBinary(); err == nil {
			t.Errorf("%s: has bytes", name)
		}
		b := marshal(t, plainKey())
		b = slices.Concat(b[:26], binary.LittleEndian.AppendUint16(nil, uint16(len(k.packed))), k.packed,
			make([]byte, 8))
		b[6] = byte(k.kind)
		binary.LittleEndian.PutUint64(b[8:], k.addr)
		binary.LittleEndian.PutUint64(b[16:], k.size)
		var got MemoryKey
		if err := got.UnmarshalBinary(resign(b)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	b := marshal(t, plainKey())
	b[5] = 2
	var got MemoryKey
	if err := got.UnmarshalBinary(resign(b)); err == nil || !strings.Contains(err.Error(), "flags") {
		t.Errorf("unknown flag: %v", err)
	}
}

func FuzzMemoryKey(f *testing.F) {
	f.Add(marshal(f, plainKey()))
	f.Add([]byte(keyMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, signed(b)} {
			var k MemoryKey
			if err := k.UnmarshalBinary(b); err != nil {
				continue
			}
			if again := marshal(t, k); !bytes.Equal(again, b) {
				t.Errorf("%x became %x", b, again)
			}
			if err := checkPacked(k.packed); err != nil {
				t.Error(err)
			}
		}
	})
}

// signed gives fuzzed bytes a right checksum, so that the fuzzer gets behind it.
func signed(b []byte) []byte {
	if len(b) < keyHeader+8 {
		return b
	}
	return resign(b)
}
