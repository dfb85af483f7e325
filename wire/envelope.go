package wire

import (
	"fmt"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
)

// Serialize marks a value of a message that is sent in separate frames, in the family that fits it: Dask's
// to_serialize. A scheduler passes it on encoded; workers and clients get the value itself.
type Serialize struct {
	Value any
}

// Serialized is an encoded value with its frames: the result of DecodeOptions.Keep for a value that was sent as
// Serialize. Encoding it again sends the same bytes.
//
// It borrows its frames from the message; Retain makes it independent.
type Serialized struct {
	// Header is the group's header, as msgpack.
	Header []byte
	// Frames are the frames as received: sharded and compressed according to the header.
	Frames []Frame
}

// Retain returns a Serialized with its own references, which outlives the message.
func (s *Serialized) Retain() *Serialized {
	return &Serialized{Header: s.Header, Frames: retainFrames(s.Frames)}
}

// Release releases the references of Retain.
func (s *Serialized) Release() { releaseFrames(s.Frames) }

// Size returns the length in bytes of header and frames.
func (s *Serialized) Size() int64 { return int64(len(s.Header)) + framesSize(s.Frames) }

// Decode decodes the value.
func (s *Serialized) Decode(opt DecodeOptions) (any, error) {
	d, err := newDecoder(s.Frames, opt)
	if err != nil {
		return nil, err
	}
	return d.group(s.Header, s.Frames)
}

// Object returns the value encoded, whatever it is: its frames are merged and decompressed. It borrows from the frames.
func (s *Serialized) Object(opt DecodeOptions) (*Object, error) {
	d, err := newDecoder(s.Frames, opt)
	if err != nil {
		return nil, err
	}
	h, err := decodeHeader(s.Header)
	if err != nil {
		return nil, err
	}
	frames, err := d.decompress(h, s.Frames)
	if err != nil {
		return nil, err
	}
	if frames, err = rejoin(h, frames); err != nil {
		return nil, err
	}
	return object(h, frames), nil
}

// ToPickle marks a value of a message that is sent pickled. The peer, even a scheduler, gets the value itself.
type ToPickle struct {
	Value any
}

// Pickled is a pickle in a message that was not decoded, because DecodeOptions.KeepPickled is set or because it has
// objects that Go does not support. Encoding it again sends the same pickle. It borrows from its message; Clone makes
// it independent.
type Pickled struct {
	// Data is the pickle, protocol 5 or less.
	Data []byte
	// Buffers are its out-of-band buffers, compressed according to Compression.
	Buffers []Frame
	// Compression has the name of each buffer's compression, "" for none; nil if none is compressed. Open decompresses
	// them.
	Compression []string
}

// Open returns the pickle with its buffers decompressed, within the budget of opt. It borrows from p and is p itself if
// nothing is compressed.
func (p *Pickled) Open(opt DecodeOptions) (*Pickled, error) {
	if p.Compression == nil {
		return p, nil
	}
	d, err := newDecoder(p.Buffers, opt)
	if err != nil {
		return nil, err
	}
	frames, err := d.inflateFrames(p.Compression, p.Buffers)
	if err != nil {
		return nil, err
	}
	return &Pickled{Data: p.Data, Buffers: frames}, nil
}

// tree parses the pickle into an inert tree: nothing in it is executed.
func (p *Pickled) tree(lim pickle.Limits) (pickle.Value, error) {
	p, err := p.Open(DecodeOptions{})
	if err != nil {
		return nil, err
	}
	bufs, err := hostBuffers(p.Buffers)
	if err != nil {
		return nil, err
	}
	return pickle.Load(p.Data, bufs, lim)
}

// Object is a Python object without a Go type, in the frames of its family. It borrows from its message; Clone makes it
// independent.
type Object struct {
	// Type is the class name if the family has it, such as "pandas.core.frame.DataFrame"; for debugging.
	Type string
	// Header is the family's header: serializer, type-serialized, sub-header, ….
	Header Dict
	// Frames are the family's, merged and decompressed.
	Frames []Frame
}

// tree parses an object of the pickle family into an inert tree: nothing in it is executed.
func (o *Object) tree(lim pickle.Limits) (pickle.Value, error) {
	if family := o.Header.GetString("serializer"); family != "pickle" || len(o.Frames) == 0 {
		return nil, fmt.Errorf("wire: object is in family %q, only pickle has a tree", family)
	}
	bufs, err := hostBuffers(o.Frames)
	if err != nil {
		return nil, err
	}
	return pickle.Load(bufs[0], bufs[1:], lim)
}

// hostBuffers returns the frames' memory, if the CPU may read it.
func hostBuffers(frames []Frame) ([][]byte, error) {
	out := make([][]byte, len(frames))
	for i, f := range frames {
		if f.OnDevice() {
			return nil, fmt.Errorf("wire: frame %d is in GPU memory, want host memory", i)
		}
		out[i] = f.Bytes()
	}
	return out, nil
}

func retainFrames(frames []Frame) []Frame {
	out := make([]Frame, len(frames))
	for i, f := range frames {
		out[i] = f.Retain()
	}
	return out
}

func releaseFrames(frames []Frame) {
	for _, f := range frames {
		f.Release()
	}
}

func framesSize(frames []Frame) (n int64) {
	for _, f := range frames {
		n += int64(f.Len())
	}
	return n
}

// ints decodes a header's list of small non-negative numbers.
func ints(h msgpack.Map, key string) ([]int, bool, error) {
	v, ok := h.Get(key)
	if !ok || v == nil {
		return nil, false, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, false, headerError(key, v, "a list of numbers")
	}
	out := make([]int, len(list))
	for i, x := range list {
		n, ok := x.(int64)
		if !ok || n < 0 || n > maxFrames {
			return nil, false, headerError(key, v, "a list of numbers of frames")
		}
		out[i] = int(n)
	}
	return out, true, nil
}

func headerError(key string, v any, want string) error {
	return fmt.Errorf("wire: %q of a header is %.60v, want %s", key, v, want)
}
