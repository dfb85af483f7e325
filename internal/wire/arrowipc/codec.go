package arrowipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/internal/wire/libcodec"
	"go.millstream.dev/internal/wire/pickle"
)

// The Python classes of tables and record batches, which are sent as one frame: an Arrow IPC stream.
var (
	classTable       = pickle.Global{Module: "pyarrow.lib", Name: "Table"}
	classRecordBatch = pickle.Global{Module: "pyarrow.lib", Name: "RecordBatch"}
)

func init() {
	libcodec.Register(&libcodec.Codec{
		Types:   []reflect.Type{reflect.TypeFor[arrow.Table](), reflect.TypeFor[arrow.RecordBatch]()},
		Classes: []pickle.Global{classTable, classRecordBatch},
		ClassOf: classOf,
		Encode:  encode,
		Decode:  decode,
		Prepare: prepare,
	})
}

func classOf(v any) (pickle.Global, bool) {
	switch v.(type) {
	case arrow.Table:
		return classTable, true
	case arrow.RecordBatch:
		return classRecordBatch, true
	}
	return pickle.Global{}, false
}

// encode encodes the stream, which copies the data once.
func encode(v any) ([][]byte, error) {
	var out strings.Builder // unlike bytes.Buffer, it does not clear memory that is written next
	var err error
	switch v := v.(type) {
	case arrow.RecordBatch:
		out.Grow(sizeOf(v))
		w := ipc.NewWriter(&out, ipc.WithSchema(v.Schema()))
		err = errors.Join(w.Write(v), w.Close())
	case arrow.Table:
		w := ipc.NewWriter(&out, ipc.WithSchema(v.Schema()))
		r := array.NewTableReader(v, 0)
		for r.Next() && err == nil {
			err = w.Write(r.RecordBatch())
		}
		err = errors.Join(err, r.Err(), w.Close())
		r.Release()
	}
	if err != nil {
		return nil, fmt.Errorf("arrowipc: %w", err)
	}
	return [][]byte{unsafe.Slice(unsafe.StringData(out.String()), out.Len())}, nil
}

// sizeOf returns the size of the stream of a batch, or nearly: that of nested columns is not counted.
func sizeOf(b arrow.RecordBatch) int {
	size := int64(1<<10 + 256*b.NumCols())
	for _, c := range b.Columns() {
		n := int64(c.Len())
		size += 192 + n/8 // three buffers, which are padded
		switch c := c.(type) {
		case array.BinaryLike:
			if size += n * offsetSize(c.DataType()); n > 0 {
				size += int64(len(c.ValueBytes()))
			}
		default:
			if t, ok := c.DataType().(arrow.FixedWidthDataType); ok {
				size += n * int64(t.BitWidth()) / 8
			}
		}
	}
	return int(size)
}

// offsetSize returns the size of the offsets of a type of texts or bytes.
func offsetSize(t arrow.DataType) int64 {
	if id := t.ID(); id == arrow.LARGE_STRING || id == arrow.LARGE_BINARY {
		return 8
	}
	return 4
}

// decode decodes a stream. The arrays share the frame's memory.
func decode(class pickle.Global, frames [][]byte) (any, error) {
	table := class == classTable
	if len(frames) == 0 {
		return nil, errors.New("arrowipc: Arrow stream without a frame")
	}
	most := 1
	if table {
		most = -1
	}
	schema, batches, err := read(frames[0], most)
	if err != nil {
		return nil, err
	}
	for _, b := range batches {
		Prepare(b) // tasks share it
	}
	if table {
		defer releaseBatches(batches)
		return array.NewTableFromRecords(schema, batches), nil
	}
	if len(batches) == 0 {
		return nil, errors.New("arrowipc: Arrow stream without a record batch")
	}
	return batches[0], nil
}

// Read decodes an untrusted Arrow IPC stream: its schema and its record batches, which the caller releases. They share
// the memory of b. Allocations are bounded by the length of the stream, and every batch is validated.
func Read(b []byte) (*arrow.Schema, []arrow.RecordBatch, error) { return read(b, -1) }

// read reads at most most batches, all if it is negative.
func read(b []byte, most int) (schema *arrow.Schema, batches []arrow.RecordBatch, err error) {
	// The reader panics on some invalid input.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("arrowipc: invalid Arrow stream: %v", p)
		}
		if err != nil {
			releaseBatches(batches)
			schema, batches = nil, nil
		}
	}()
	mem := &boundedAllocator{left: expansion*int64(len(b)) + 1<<20}
	r, err := ipc.NewReaderFromMessageReader(&messages{b: b}, ipc.WithAllocator(mem))
	if err != nil {
		return nil, nil, fmt.Errorf("arrowipc: %w", err)
	}
	defer r.Release()
	for (most < 0 || len(batches) < most) && r.Next() {
		rec := r.RecordBatch()
		// Invalid offsets would make later reads panic.
		if err := validate(rec); err != nil {
			return nil, batches, fmt.Errorf("arrowipc: invalid Arrow stream: %w", err)
		}
		rec.Retain()
		batches = append(batches, rec)
	}
	if err := r.Err(); err != nil && !errors.Is(err, io.EOF) {
		return nil, batches, fmt.Errorf("arrowipc: %w", err)
	}
	return r.Schema(), batches, nil
}

func releaseBatches(batches []arrow.RecordBatch) {
	for _, b := range batches {
		b.Release()
	}
}

// Message is the metadata of one message of an Arrow IPC stream.
type Message struct {
	// Kind is ipc.MessageSchema, MessageDictionaryBatch or MessageRecordBatch.
	Kind ipc.MessageType
	// Body is the length of the body, which follows the metadata, in bytes.
	Body int64
}

// ReadMetadata decodes the untrusted metadata of one message, for callers that iterate over a stream without reading
// its bodies.
func ReadMetadata(meta []byte) (m Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			m, err = Message{}, errMetadata
		}
	}()
	if err := verify(meta); err != nil {
		return Message{}, err
	}
	msg := ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(nil))
	defer msg.Release()
	m = Message{Kind: msg.Type(), Body: msg.BodyLen()}
	if m.Body < 0 {
		return Message{}, errMetadata
	}
	return m, nil
}

// messages splits an IPC stream into messages without copying their bodies.
type messages struct {
	b []byte
}

func (*messages) Retain()  {}
func (*messages) Release() {}

// Message returns the next message: a marker, the length of the metadata, the metadata, which has the length of the
// body, and the body.
func (m *messages) Message() (*ipc.Message, error) {
	const continuation = 0xffffffff
	if len(m.b) == 0 {
		return nil, io.EOF
	}
	n, err := m.u32()
	if err == nil && n == continuation {
		n, err = m.u32()
	}
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	meta, err := m.take(int64(n))
	if err != nil {
		return nil, err
	}
	info, err := ReadMetadata(meta)
	if err != nil {
		return nil, err
	}
	body, err := m.take(info.Body)
	if err != nil {
		return nil, err
	}
	return ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(body)), nil
}

func (m *messages) u32() (uint32, error) {
	b, err := m.take(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (m *messages) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(m.b)) {
		return nil, fmt.Errorf("stream announces %d bytes and has %d: %w", n, len(m.b), io.ErrUnexpectedEOF)
	}
	b := m.b[:n:n]
	m.b = m.b[n:]
	return b, nil
}

// expansion bounds the reader's allocations, for compressed bodies and big-endian ones, by the stream's length.
const expansion = 256

// boundedAllocator ends a stream that needs more memory than its length allows. It belongs to one reader.
type boundedAllocator struct {
	memory.GoAllocator
	left int64
}

func (a *boundedAllocator) charge(n int) {
	if a.left -= int64(n); a.left < 0 {
		panic("needs more memory than its length allows")
	}
}

// Allocate implements memory.Allocator.
func (a *boundedAllocator) Allocate(size int) []byte {
	a.charge(size)
	return a.GoAllocator.Allocate(size)
}

// Reallocate implements memory.Allocator.
func (a *boundedAllocator) Reallocate(size int, b []byte) []byte {
	a.charge(max(0, size-len(b)))
	return a.GoAllocator.Reallocate(size, b)
}
