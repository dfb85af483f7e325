package scan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	"go.millstream.dev/frame/internal/files"
	"go.millstream.dev/internal/wire/arrowipc"
)

// A file in the Arrow IPC format is a magic, a stream, and a footer with the offsets of the stream's batches. The
// footer is redundant and not trusted: indexIPC reads the messages of the stream without their bodies. The stream
// format is the same without the magic.

const (
	ipcMagic = "ARROW1"
	// maxMetadata bounds the metadata of one message: schemas of a million columns are smaller.
	maxMetadata = 256 << 20
	// maxBatches bounds the messages of one file.
	maxBatches = 1 << 24
)

// IPCIndex has the positions of the messages of a file.
type IPCIndex struct {
	// Schema is the first message.
	Schema files.Span
	// Dictionaries and Batches are in file order. A batch depends on the dictionaries before it.
	Dictionaries, Batches []files.Span
}

// indexIPC returns the index of a file of a size.
func indexIPC(r io.ReaderAt, size int64) (*IPCIndex, error) {
	w := ipcWalk{r: r, size: size}
	var head [8]byte
	if size >= int64(len(head)) {
		if err := w.read(head[:], 0); err != nil {
			return nil, err
		}
		if string(head[:6]) == ipcMagic {
			w.at = 8
		}
	}
	ix := new(IPCIndex)
	for n := 0; ; n++ {
		if n == maxBatches {
			return nil, fmt.Errorf("file has more than %d messages", maxBatches)
		}
		m, s, err := w.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if (m.Kind == ipc.MessageSchema) != (n == 0) {
			return nil, fmt.Errorf("%[2]v at byte %[1]d: the schema must come first, and once", s.From, m.Kind)
		}
		switch m.Kind {
		case ipc.MessageSchema:
			ix.Schema = s
		case ipc.MessageDictionaryBatch:
			ix.Dictionaries = append(ix.Dictionaries, s)
		case ipc.MessageRecordBatch:
			ix.Batches = append(ix.Batches, s)
		}
	}
	if ix.Schema.To == 0 {
		return nil, errors.New("no schema: neither a file nor a stream in the Arrow IPC format")
	}
	return ix, nil
}

type ipcWalk struct {
	r        io.ReaderAt
	size, at int64
}

func (w *ipcWalk) read(b []byte, at int64) error {
	if at < 0 || at > w.size-int64(len(b)) {
		return fmt.Errorf("file ends at byte %d, in the middle of a message: %w", w.size, io.ErrUnexpectedEOF)
	}
	n, err := w.r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	return err
}

// next reads the next message: a marker, the length of the metadata, the metadata, the body.
func (w *ipcWalk) next() (arrowipc.Message, files.Span, error) {
	const continuation = 0xffffffff
	var m arrowipc.Message
	from := w.at
	if from == w.size {
		return m, files.Span{}, io.EOF
	}
	var word [4]byte
	if err := w.read(word[:], w.at); err != nil {
		return m, files.Span{}, err
	}
	w.at += 4
	n := int64(binary.LittleEndian.Uint32(word[:]))
	if n == continuation {
		if err := w.read(word[:], w.at); err != nil {
			return m, files.Span{}, err
		}
		w.at += 4
		n = int64(binary.LittleEndian.Uint32(word[:]))
	}
	if n == 0 {
		return m, files.Span{}, io.EOF
	}
	if n > maxMetadata || n > w.size-w.at {
		return m, files.Span{}, fmt.Errorf("metadata at byte %d has length %d with %d bytes left: not Arrow IPC "+
			"data, or truncated", from, n, w.size-w.at)
	}
	meta := make([]byte, n)
	if err := w.read(meta, w.at); err != nil {
		return m, files.Span{}, err
	}
	w.at += n
	m, err := arrowipc.ReadMetadata(meta)
	if err != nil {
		return m, files.Span{}, fmt.Errorf("message at byte %d: %w", from, err)
	}
	if m.Body > w.size-w.at {
		return m, files.Span{}, fmt.Errorf("message at byte %d has a body of %d bytes with %d bytes left: file is "+
			"truncated", from, m.Body, w.size-w.at)
	}
	w.at += m.Body
	return m, files.Span{From: from, To: w.at}, nil
}

// spans returns the parts of the file that the batches from and to (exclusive) need, in order.
func (ix *IPCIndex) spans(from, to int) []files.Span {
	out := []files.Span{ix.Schema}
	d := 0
	for _, b := range ix.Batches[from:to] {
		for ; d < len(ix.Dictionaries) && ix.Dictionaries[d].From < b.From; d++ {
			out = append(out, ix.Dictionaries[d])
		}
		out = append(out, b)
	}
	return out
}

// readSpans returns the concatenated bytes of parts of a file: a stream.
func readSpans(r io.ReaderAt, spans []files.Span) ([]byte, error) {
	var n int64
	for _, s := range spans {
		if s.From < 0 || s.To < s.From {
			return nil, fmt.Errorf("invalid range of bytes %d to %d", s.From, s.To)
		}
		n += s.To - s.From
	}
	// The spans are within the file, so its size bounds this allocation.
	b := make([]byte, n)
	at := int64(0)
	for _, s := range spans {
		part := b[at : at+s.To-s.From]
		if n, err := r.ReadAt(part, s.From); n < len(part) {
			return nil, err
		}
		at += int64(len(part))
	}
	return b, nil
}
