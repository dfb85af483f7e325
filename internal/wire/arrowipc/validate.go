package arrowipc

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// validate checks all values of a batch, whose data may be invalid. It may panic.
func validate(rec arrow.RecordBatch) error {
	for _, c := range rec.Columns() {
		if s, ok := c.(*array.String); ok && validTexts(s) {
			continue
		}
		if err := array.ValidateFull(c); err != nil {
			return err
		}
	}
	return nil
}

// validTexts reports whether texts are valid: as bytes, and all together as UTF-8, which is much faster than one by
// one. If it returns false, some may be valid after all, such as texts between which there are other bytes.
func validTexts(s *array.String) bool {
	d := s.Data()
	data := array.NewData(arrow.BinaryTypes.Binary, d.Len(), d.Buffers(), nil, d.NullN(), d.Offset())
	defer data.Release()
	b := array.NewBinaryData(data)
	defer b.Release()
	if array.ValidateFull(b) != nil {
		return false
	}
	if s.Len() == 0 {
		return true
	}
	text := s.ValueBytes()
	if ascii(text) {
		return true
	}
	if !utf8.Valid(text) {
		return false
	}
	offsets := s.ValueOffsets()
	for _, o := range offsets {
		if at := int(o - offsets[0]); at < len(text) && !utf8.RuneStart(text[at]) {
			return false
		}
	}
	return true
}

// ascii reports whether all bytes are less than 128.
func ascii(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b)&0x8080808080808080 != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
