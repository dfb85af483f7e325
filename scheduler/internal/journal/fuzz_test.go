package journal

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzScan reads any bytes as a segment: it never panics, never allocates by a length in the bytes, and accepted input
// reads the same again.
func FuzzScan(f *testing.F) {
	head := header{typ: typeLog, epoch: 1, number: 1, salt: 5}.encode()
	good := appendOwn(append([]byte(nil), head...), 5, kindMark, headerSize)
	good = appendFrame(good, 5, 1, []byte("hello"))
	f.Add([]byte{})
	f.Add(head)
	f.Add(good)
	f.Add(appendOwn(append([]byte(nil), good...), 5, kindMark, uint64(len(good))))
	f.Add(appendOwn(append([]byte(nil), good...), 5, kindSeal, 1))
	f.Add(append(append([]byte(nil), good...), 0xFF, 0xFF, 0xFF, 0x7F, 0, 0, 0, 0, 1))
	broken := appendOwn(append([]byte(nil), good...), 5, kindMark, uint64(len(good)))
	broken[headerSize+markSize+10] ^= 1
	f.Add(broken)
	f.Fuzz(func(t *testing.T, data []byte) {
		var sum int
		s, err := scan("fuzz", bytes.NewReader(data), int64(len(data)), 1<<20, func(r Record) error {
			sum += frameSize + len(r.Data)
			return nil
		})
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("error: got %v, want ErrCorrupt", err)
			}
			return
		}
		if s.end+s.torn != int64(len(data)) || int64(sum) > s.end {
			t.Fatalf("got %+v of %d bytes, %d in records", s, len(data), sum)
		}
		cut := data[:s.end]
		again, err := scan("fuzz", bytes.NewReader(cut), int64(len(cut)), 1<<20, func(Record) error { return nil })
		if err != nil || again.records != s.records || again.torn != 0 || again.end != s.end {
			t.Fatalf("got %+v, without the torn end %+v, error %v", s, again, err)
		}
	})
}
