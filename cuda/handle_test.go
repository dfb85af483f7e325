package cuda

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func sampleHandle() MemHandle {
	h := MemHandle{offset: 4096, length: 1 << 20}
	for i := range h.native {
		h.native[i] = byte(i)
	}
	for i := range h.uuid {
		h.uuid[i] = 0xf0 | byte(i)
	}
	return h
}

// TestHandleGolden: processes of different releases exchange these bytes.
func TestHandleGolden(t *testing.T) {
	const golden = "4d53434d01000000" + // MSCM, version 1
		"f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff" +
		"0010000000000000" + "0000100000000000" +
		"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" +
		"202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
	h := sampleHandle()
	b, err := h.MarshalBinary()
	if err != nil || hex.EncodeToString(b) != golden {
		t.Errorf("%v\n got %x\nwant %s", err, b, golden)
	}
	if h.Len() != 1<<20 || h.UUID() != "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff" {
		t.Errorf("%d %s", h.Len(), h.UUID())
	}
	text, err := h.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var back MemHandle
	if err := back.UnmarshalText(text); err != nil || back != h {
		t.Errorf("%v %+v", err, back)
	}
	if err := back.UnmarshalText([]byte("not base64!")); err == nil {
		t.Error("bad base64 accepted")
	}
}

func TestHandleRefused(t *testing.T) {
	good, _ := sampleHandle().MarshalBinary()
	for name, change := range map[string]func([]byte) []byte{
		"empty":        func([]byte) []byte { return nil },
		"short":        func(b []byte) []byte { return b[:len(b)-1] },
		"long":         func(b []byte) []byte { return append(b, 0) },
		"magic":        func(b []byte) []byte { b[0]++; return b },
		"version":      func(b []byte) []byte { b[4]++; return b },
		"reserved":     func(b []byte) []byte { b[7]++; return b },
		"large offset": func(b []byte) []byte { b[31] = 0xff; return b },
		"large length": func(b []byte) []byte { b[39] = 0xff; return b },
	} {
		h := sampleHandle()
		if err := h.UnmarshalBinary(change(bytes.Clone(good))); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if h != sampleHandle() {
			t.Errorf("%s: a refused encoding changed the handle", name)
		}
	}
}

func FuzzMemHandle(f *testing.F) {
	good, _ := sampleHandle().MarshalBinary()
	f.Add(good)
	f.Add([]byte("MSCM"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h MemHandle
		if h.UnmarshalBinary(b) != nil {
			return
		}
		if h.Len() < 0 {
			t.Errorf("negative length %d", h.Len())
		}
		if back, err := h.MarshalBinary(); err != nil || !bytes.Equal(back, b) {
			t.Errorf("%v\n got %x\nwant %x", err, back, b)
		}
	})
}
