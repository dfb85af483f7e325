package collective

import (
	"bytes"
	"testing"
)

func FuzzParsePart(f *testing.F) {
	b := make([]byte, headerLen+16+3)
	h := header{code: AllToAllV, kind: Int8, vec: 2, data: 3, flags: flagInline}
	h.put(b)
	f.Add(b)
	f.Add(b[:headerLen])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		parts := make([]part, 2)
		n, err := parsePart(b, &parts[0])
		if err != nil {
			return
		}
		if n > len(b) || len(parts[0].inline) > len(b) {
			t.Fatalf("%d of %d bytes", n, len(b))
		}
		parts[1] = parts[0]
		if validate(parts) == nil && agree(parts) == nil && allInline(parts) && parts[0].code != Barrier {
			for r := range parts {
				if uint64(len(parts[r].inline)) != parts[r].contribution(r, 2) {
					t.Fatal("inline data of another length than agreed on")
				}
			}
		}
	})
}

func FuzzParseEnvelope(f *testing.F) {
	f.Add((&envelope{kind: envEager, tag: 1 << 63, length: 2, data: []byte("ab")}).append(nil))
	f.Add((&envelope{kind: envRequest, slot: 255, length: 1 << 40}).append(nil))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseEnvelope(b)
		if err != nil {
			return
		}
		again, err := parseEnvelope(e.append(nil))
		if err != nil || again.tag != e.tag || again.length != e.length || !bytes.Equal(again.data, e.data) {
			t.Fatalf("%+v became %+v, %v", e, again, err)
		}
	})
}
