package arrowipc

import (
	"encoding/binary"
	"errors"
)

// The metadata of Arrow's messages are flatbuffers, and the reader trusts every length and offset in them: a few bytes
// make it allocate without bound, or recurse until the stack overflows, which ends the process. So the parts by which
// it sizes memory, or descends, are checked first. Other invalid data makes it panic, from which read recovers.

var errMetadata = errors.New("arrowipc: invalid metadata of an Arrow stream")

// Kinds of messages, and the checked fields of their tables.
const (
	fbSchema, fbDictionary, fbRecord = 1, 2, 3

	fbMessageHeaderType, fbMessageHeader = 1, 2
	fbSchemaFields, fbSchemaMetadata     = 1, 2
	fbFieldChildren, fbFieldMetadata     = 5, 6
	fbDictionaryData                     = 1
	fbRecordNodes, fbRecordBuffers       = 1, 2
	fbRecordVariadic                     = 4
)

// maxDepth bounds nested types, as the reader itself does for data.
const maxDepth = 64

// verify checks the metadata of one message.
func verify(meta []byte) error {
	f := flat{b: meta, tables: len(meta)/8 + 1}
	root, ok := f.indirect(0)
	if !ok {
		return errMetadata
	}
	kind, ok := f.byte(root, fbMessageHeaderType)
	if !ok {
		return errMetadata
	}
	header, there := f.table(root, fbMessageHeader)
	if !there {
		return errMetadata
	}
	switch kind {
	case fbSchema:
		ok = f.fields(header, fbSchemaFields, maxDepth) && f.vector(header, fbSchemaMetadata, 4)
	case fbDictionary:
		data, there := f.table(header, fbDictionaryData)
		ok = there && f.record(data)
	case fbRecord:
		ok = f.record(header)
	default:
		ok = false // tensors, which are not supported
	}
	if !ok {
		return errMetadata
	}
	return nil
}

// flat is an untrusted flatbuffer.
type flat struct {
	b      []byte
	tables int // tables that may still be visited: sharing lets few bytes be many
}

func (f *flat) u32(at int) (int, bool) {
	if at < 0 || at > len(f.b)-4 {
		return 0, false
	}
	return int(binary.LittleEndian.Uint32(f.b[at:])), true
}

func (f *flat) u16(at int) (int, bool) {
	if at < 0 || at > len(f.b)-2 {
		return 0, false
	}
	return int(binary.LittleEndian.Uint16(f.b[at:])), true
}

// indirect follows an offset.
func (f *flat) indirect(at int) (int, bool) {
	n, ok := f.u32(at)
	return at + n, ok && n > 0 && at+n <= len(f.b)-4
}

// slot returns the position of a table's n-th field, 0 if it has none.
func (f *flat) slot(table, n int) (int, bool) {
	d, ok := f.u32(table)
	if !ok {
		return 0, false
	}
	vtable := table - int(int32(d))
	size, ok := f.u16(vtable)
	if !ok {
		return 0, false
	}
	if entry := 4 + 2*n; entry < size { // the same test as the reader's, odd sizes included
		off, ok := f.u16(vtable + entry)
		if !ok || off == 0 {
			return 0, ok
		}
		return table + off, table+off < len(f.b)
	}
	return 0, true
}

func (f *flat) byte(table, n int) (byte, bool) {
	at, ok := f.slot(table, n)
	if !ok || at == 0 {
		return 0, false
	}
	return f.b[at], true
}

// table follows a field that is a table.
func (f *flat) table(table, n int) (int, bool) {
	at, ok := f.slot(table, n)
	if !ok || at == 0 {
		return 0, false
	}
	return f.indirect(at)
}

// length returns the length of a field that is a vector, and the position of its elements; 0 for none.
func (f *flat) length(table, n, size int) (count, at int, ok bool) {
	at, ok = f.slot(table, n)
	if !ok || at == 0 {
		return 0, 0, ok
	}
	if at, ok = f.indirect(at); !ok {
		return 0, 0, false
	}
	count, ok = f.u32(at)
	return count, at + 4, ok && count <= (len(f.b)-at-4)/size
}

func (f *flat) vector(table, n, size int) bool {
	_, _, ok := f.length(table, n, size)
	return ok
}

// fields checks a vector of fields and their children.
func (f *flat) fields(table, n, depth int) bool {
	count, at, ok := f.length(table, n, 4)
	if !ok || depth == 0 {
		return false
	}
	for i := range count {
		if f.tables--; f.tables < 0 {
			return false
		}
		field, ok := f.indirect(at + 4*i)
		if !ok || !f.vector(field, fbFieldMetadata, 4) || !f.fields(field, fbFieldChildren, depth-1) {
			return false
		}
	}
	return true
}

// record checks a record batch: its vectors, and the numbers of buffers of views.
func (f *flat) record(table int) bool {
	if !f.vector(table, fbRecordNodes, 16) {
		return false
	}
	buffers, _, ok := f.length(table, fbRecordBuffers, 16)
	if !ok {
		return false
	}
	count, at, ok := f.length(table, fbRecordVariadic, 8)
	if !ok {
		return false
	}
	for i := range count {
		if binary.LittleEndian.Uint64(f.b[at+8*i:]) > uint64(buffers) {
			return false
		}
	}
	return true
}
