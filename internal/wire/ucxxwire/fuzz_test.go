package ucxxwire

import (
	"bytes"
	"testing"
)

func FuzzPeerInfo(f *testing.F) {
	for _, v := range peerVectors {
		f.Add(unhex(f, v.wire))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := DecodePeerInfo(b); err == nil && !bytes.Equal(p.Append(nil), b) {
			t.Errorf("%x decodes to %+v, which encodes differently", b, p)
		}
	})
}

func FuzzAMHeader(f *testing.F) {
	for _, v := range amVectors {
		f.Add(unhex(f, v.wire))
	}
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := DecodeAMHeader(b)
		if err != nil {
			return
		}
		enc, err := h.Append(nil)
		if err != nil {
			t.Fatalf("%x decodes to %+v, which does not encode: %v", b, h, err)
		}
		if len(enc) != h.Size() {
			t.Errorf("Size() = %d, encoded %d bytes", h.Size(), len(enc))
		}
		// Older forms lack the tail and newer ones have more; the common part is equal.
		n := min(len(enc), len(b))
		if !bytes.Equal(enc[:n], b[:n]) {
			t.Errorf("%x encodes again to %x", b, enc)
		}
	})
}

func FuzzMultiHeader(f *testing.F) {
	f.Add(readHex(f, "multi-3.hex"))
	f.Add(readHex(f, "multi-101.hex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := MultiDecoder{Limits: MultiLimits{MaxFrames: 150, MaxBytes: 1 << 20}}
		for rest := b; ; {
			next, err := d.Add(rest[:min(len(rest), MultiHeaderSize)])
			if err != nil {
				return
			}
			rest = rest[MultiHeaderSize:]
			if !next {
				break
			}
		}
		var total int64
		for _, fr := range d.Frames() {
			if fr.Size < 0 {
				t.Fatalf("negative size %d", fr.Size)
			}
			total += fr.Size
		}
		if total != d.TotalBytes() || total > 1<<20 || len(d.Frames()) > 150 {
			t.Fatalf("%d frames, %d bytes (counted %d): over the limits", len(d.Frames()), d.TotalBytes(), total)
		}
		enc, err := AppendMultiHeaders(nil, d.Frames())
		if err != nil {
			t.Fatal(err)
		}
		var e MultiDecoder
		if err := decodeAll(&e, enc); err != nil || len(e.Frames()) != len(d.Frames()) {
			t.Fatalf("encoding of a decoded message does not decode: %v", err)
		}
	})
}
