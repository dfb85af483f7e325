package rawmem

import (
	"testing"
	"unsafe"
)

func TestAlloc(t *testing.T) {
	for _, n := range []int{0, 1, rawFrom - 1, rawFrom, hugeFrom - 1, hugeFrom, hugeFrom + 1, 9 << 20} {
		b := Alloc(n)
		if len(b) != n {
			t.Fatalf("Alloc(%d): got %d bytes, want %d", n, len(b), n)
		}
		for i := range b {
			b[i] = byte(i)
		}
		for i := range b {
			if b[i] != byte(i) {
				t.Fatalf("Alloc(%d): byte %d: got %d, want %d", n, i, b[i], byte(i))
			}
		}
	}
}

// Advice concerns whole huge pages, no more than contain the block.
func TestHugePages(t *testing.T) {
	block := make([]byte, 4*hugePage)
	for _, skip := range []int{0, 1, 4096, hugePage - 1} {
		b := block[skip : skip+hugeFrom]
		from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		first, size := hugePages(b)
		if first%hugePage != 0 || size%hugePage != 0 {
			t.Errorf("offset %d: got %d bytes at %#x, want whole huge pages", skip, size, first)
		}
		end, last := from+hugeFrom, first+size
		if first > from || first+hugePage <= from || last < end || last-hugePage >= end {
			t.Errorf("offset %d: got %d bytes at %#x, want the pages of %d bytes at %#x", skip, size, first, hugeFrom,
				from)
		}
	}
}
