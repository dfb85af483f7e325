package pyproc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"go.millstream.dev/internal/wire/msgpack"
)

// maxFrames bounds the frames of a message, as _child.py does.
const maxFrames = 1 << 20

// firstRead is how many bytes are allocated for a frame before any of it has been received.
const firstRead = 16 << 20

// head is the content of frame 0.
type head struct {
	id       uint64
	hasID    bool
	op       string // of a call
	body     msgpack.Raw
	failed   bool
	raised   *Exception
	answered bool
}

// readMessage reads one message of at most limit bytes into new memory.
func readMessage(r *bufio.Reader, limit int64) (head, [][]byte, error) {
	var word [8]byte
	if _, err := io.ReadFull(r, word[:]); err != nil {
		return head{}, nil, err
	}
	n := binary.LittleEndian.Uint64(word[:])
	if n == 0 || n > maxFrames {
		return head{}, nil, fmt.Errorf("message of %d frames", n)
	}
	lengths := make([]uint64, 0, min(n, 1024))
	total := int64(0)
	for range n {
		if _, err := io.ReadFull(r, word[:]); err != nil {
			return head{}, nil, unexpected(err)
		}
		l := binary.LittleEndian.Uint64(word[:])
		if l > uint64(limit-total) {
			return head{}, nil, fmt.Errorf("message of more than %d bytes", limit)
		}
		total += int64(l)
		lengths = append(lengths, l)
	}
	frames := make([][]byte, n)
	for i, l := range lengths {
		var err error
		if frames[i], err = readFrame(r, int64(l)); err != nil {
			return head{}, nil, unexpected(err)
		}
	}
	h, err := parseHead(frames[0])
	return h, frames[1:], err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func readFrame(r io.Reader, n int64) ([]byte, error) {
	b := make([]byte, min(n, firstRead))
	for at := int64(0); ; {
		k, err := io.ReadFull(r, b[at:])
		if err != nil {
			return nil, err
		}
		if at += int64(k); at == n {
			return b, nil
		}
		more := make([]byte, min(n, 2*at))
		copy(more, b)
		b = more
	}
}

func parseHead(b []byte) (head, error) {
	var h head
	r := msgpack.NewReader(b)
	n, err := r.ReadMapLen()
	if err != nil {
		return h, err
	}
	for range n {
		name, err := r.ReadName()
		if err != nil {
			return h, err
		}
		switch string(name) {
		case "id":
			h.id, err = r.ReadUint()
			h.hasID = true
		case "op":
			h.op, err = r.ReadString()
		case "body":
			h.body, err = r.ReadRaw()
		case "ok":
			h.body, err = r.ReadRaw()
			h.answered = true
		case "error":
			h.raised, err = parseException(&r)
			h.failed = true
		default:
			err = r.Skip()
		}
		if err != nil {
			return h, fmt.Errorf("%q: %w", name, err)
		}
	}
	if err := r.End(); err != nil {
		return h, err
	}
	if h.op == "" && (!h.hasID || h.failed == h.answered) {
		return h, errors.New("message is neither a call nor a reply")
	}
	return h, nil
}

func parseException(r *msgpack.Reader) (*Exception, error) {
	e := &Exception{}
	n, err := r.ReadMapLen()
	if err != nil {
		return nil, err
	}
	for range n {
		name, err := r.ReadName()
		if err != nil {
			return nil, err
		}
		switch {
		case r.TryNil():
		case string(name) == "type":
			e.Type, err = r.ReadString()
		case string(name) == "message":
			e.Message, err = r.ReadString()
		case string(name) == "traceback":
			e.Traceback, err = r.ReadString()
		case string(name) == "sandbox":
			e.Sandbox, err = r.ReadBool()
		case string(name) == "exception":
			e.Pickled, err = r.ReadBytes()
		default:
			err = r.Skip()
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
	}
	return e, nil
}

// pack returns the buffers of a message. The frames are not copied.
func pack(first []byte, frames [][]byte) net.Buffers {
	prelude := make([]byte, 0, 8*(2+len(frames))+len(first))
	prelude = binary.LittleEndian.AppendUint64(prelude, uint64(1+len(frames)))
	prelude = binary.LittleEndian.AppendUint64(prelude, uint64(len(first)))
	for _, f := range frames {
		prelude = binary.LittleEndian.AppendUint64(prelude, uint64(len(f)))
	}
	out := make(net.Buffers, 0, 1+len(frames))
	out = append(out, append(prelude, first...))
	for _, f := range frames {
		if len(f) > 0 {
			out = append(out, f)
		}
	}
	return out
}

func packCall(id uint64, op string, body any, frames [][]byte) (net.Buffers, error) {
	n := 2
	if id != 0 {
		n++
	}
	b := msgpack.AppendMapHeader(nil, n)
	if id != 0 {
		b = msgpack.AppendString(b, "id")
		b = msgpack.AppendUint(b, id)
	}
	b = msgpack.AppendString(b, "op")
	b = msgpack.AppendString(b, op)
	b = msgpack.AppendString(b, "body")
	b, err := msgpack.Append(b, body)
	return pack(b, frames), err
}

func packAnswer(id uint64, body any, frames [][]byte, failure error) net.Buffers {
	b := msgpack.AppendMapHeader(nil, 2)
	b = msgpack.AppendString(b, "id")
	b = msgpack.AppendUint(b, id)
	if failure == nil {
		answer, err := msgpack.Append(msgpack.AppendString(b, "ok"), body)
		if err == nil {
			return pack(answer, frames)
		}
		failure = fmt.Errorf("reply cannot be encoded: %w", err)
	}
	b = msgpack.AppendString(b, "error")
	b = msgpack.AppendMapHeader(b, 1)
	b = msgpack.AppendString(b, "message")
	return pack(msgpack.AppendString(b, validUTF8(failure.Error())), nil)
}
