package linuxpkg

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// header is a header of an rpm: values by tag.
type header struct{ values []value }

// Types of values in a header.
const (
	typeInt16       = 3
	typeInt32       = 4
	typeString      = 6
	typeBinary      = 7
	typeStringArray = 8
	typeI18N        = 9
)

// value is an encoded entry of a header.
type value struct {
	tag, kind, count int32
	data             []byte
}

func (h *header) add(tag, kind int32, count int, data []byte) {
	h.values = append(h.values, value{tag, kind, int32(count), data})
}

func (h *header) text(tag int32, s string)       { h.add(tag, typeString, 1, append([]byte(s), 0)) }
func (h *header) translated(tag int32, s string) { h.add(tag, typeI18N, 1, append([]byte(s), 0)) }
func (h *header) binary(tag int32, b []byte)     { h.add(tag, typeBinary, len(b), b) }

func (h *header) texts(tag int32, texts ...string) {
	var b []byte
	for _, s := range texts {
		b = append(append(b, s...), 0)
	}
	h.add(tag, typeStringArray, len(texts), b)
}

func (h *header) int32(tag int32, numbers ...int32) {
	var b []byte
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	h.add(tag, typeInt32, len(numbers), b)
}

func (h *header) int16(tag int32, numbers ...int16) {
	var b []byte
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	}
	h.add(tag, typeInt16, len(numbers), b)
}

// bytes returns the header with the region tag, which covers all entries.
func (h *header) bytes(region int32) []byte {
	values := slices.Clone(h.values)
	slices.SortFunc(values, func(a, b value) int { return cmp.Compare(a.tag, b.tag) })
	n := len(values) + 1
	var index, store []byte
	entry := func(to []byte, tag, kind, offset, count int32) []byte {
		for _, v := range []int32{tag, kind, offset, count} {
			to = binary.BigEndian.AppendUint32(to, uint32(v))
		}
		return to
	}
	for _, v := range values {
		align := map[int32]int{typeInt16: 2, typeInt32: 4}[v.kind]
		for align > 0 && len(store)%align != 0 {
			store = append(store, 0)
		}
		index = entry(index, v.tag, v.kind, int32(len(store)), v.count)
		store = append(store, v.data...)
	}
	// The region is the first entry of the index; its data, at the end of the store, leads back to the index.
	first := entry(nil, region, typeBinary, int32(len(store)), 16)
	store = entry(store, region, typeBinary, int32(-16*n), 16)
	b := []byte{0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0}
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	b = binary.BigEndian.AppendUint32(b, uint32(len(store)))
	return append(append(append(b, first...), index...), store...)
}

// cpio writes the files in the "new" format of cpio and returns the number of bytes.
func cpio(w io.Writer, entries []entry, mtime int64) (int64, error) {
	var total int64
	write := func(b []byte) error {
		n, err := w.Write(append(b, make([]byte, -len(b)&3)...))
		total += int64(n)
		return err
	}
	member := func(inode int, mode uint16, links int, name string, data []byte) error {
		head := "070701"
		for _, n := range []int64{int64(inode), int64(mode), 0, 0, int64(links), mtime, int64(len(data)), 0, 0, 0, 0,
			int64(len(name) + 1), 0} {
			head += fmt.Sprintf("%08x", n)
		}
		head += name + "\x00"
		if err := write([]byte(head)); err != nil {
			return err
		}
		return write(slices.Clip(data))
	}
	for i, e := range entries {
		links := 1
		if e.folder {
			links = 2
		}
		if err := member(i+1, e.mode(), links, "./"+e.Name, e.Data); err != nil {
			return total, err
		}
	}
	return total, member(0, 0, 1, "TRAILER!!!", nil)
}
