package wire

import (
	"fmt"

	"go.millstream.dev/internal/wire/compress"
	"go.millstream.dev/internal/wire/msgpack"
)

// Encode returns the message of a value: usually a map with "op" and its arguments, or a list of such maps. Values
// without a msgpack form are sent in separate frames, as specified by their marker (Serialize, ToPickle) or their type.
//
// The message borrows the memory of arrays, bytes and heap frames, which must not change before it is sent, and holds a
// reference to counted buffers until its Release.
func Encode(v any, opt EncodeOptions) (*Message, error) {
	e, err := newEncoder(opt)
	if err != nil {
		return nil, err
	}
	e.m.Frames = append(e.m.Frames, Frame{}) // the body, set at the end
	enc := msgpack.Encoder{Default: e.other}
	body, err := enc.Append(nil, v)
	if err != nil {
		e.m.Release()
		return nil, fmt.Errorf("wire: encode: %w", err)
	}
	e.m.Frames[0] = HeapFrame(body)
	return &e.m, nil
}

// EncodeValue serializes one value as a message would carry it: to keep it, or to pass it on without encoding it again.
// It holds references to counted buffers until its Release.
func EncodeValue(v any, opt EncodeOptions) (*Serialized, error) {
	d, _ := v.(*DeviceArray)
	if s := d.known(); s != nil {
		return s, nil
	}
	e, err := newEncoder(opt)
	if err != nil {
		return nil, err
	}
	if _, err := e.serialized(v); err != nil {
		e.m.Release()
		return nil, fmt.Errorf("wire: encode: %w", err)
	}
	d.learn(e.m.Frames[0].Bytes())
	return &Serialized{Header: e.m.Frames[0].Bytes(), Frames: e.m.Frames[1:]}, nil
}

// encoder is the state of one Encode.
type encoder struct {
	opt  EncodeOptions
	comp compress.Compressor
	m    Message // owns the references of its frames
}

func newEncoder(opt EncodeOptions) (*encoder, error) {
	name, err := compress.Parse(opt.Compression)
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	if opt.ShardSize <= 0 {
		opt.ShardSize = defaultShardSize
	}
	if opt.PickleProtocol <= 0 || opt.PickleProtocol > 5 {
		opt.PickleProtocol = 5
	}
	if opt.PickleProtocol < 4 {
		return nil, fmt.Errorf("wire: pickle protocol %d is too old, want 4 or 5", opt.PickleProtocol)
	}
	return &encoder{opt: opt, comp: compress.Compressor{Name: name, Level: opt.ZstdLevel}}, nil
}

// other returns the form in the body of a value without a msgpack form.
func (e *encoder) other(v any) (any, error) {
	switch v := v.(type) {
	case Tuple:
		return []any(v), nil
	case Set:
		return NewDict(msgpack.Set, true, msgpack.SetItems, []any(v)), nil
	case Enum:
		return NewDict("__Enum__", true, "name", v.Name, "__module__", v.Module, "__name__", v.Class), nil
	case Serialize:
		return e.serialized(v.Value)
	case *Serialize:
		return e.serialized(v.Value)
	case *Serialized:
		at := len(e.m.Frames)
		e.m.Frames = append(e.m.Frames, HeapFrame(v.Header))
		e.m.Frames = append(e.m.Frames, retainFrames(v.Frames)...)
		return mark(msgpack.Serialized, at), nil
	case ToPickle:
		return e.toPickle(v.Value)
	case *ToPickle:
		return e.toPickle(v.Value)
	case *Pickled:
		return e.pickled(v.Data, v.Buffers, v.Compression)
	}
	if pickledInBody(v) {
		return e.toPickle(v)
	}
	if serializedInBody(v) {
		return e.serialized(v)
	}
	return v, nil // encoded by its kind, or rejected
}

func mark(name string, at int) Dict { return NewDict(name, int64(at)) }

// serialized adds the group of a value and returns its marker.
func (e *encoder) serialized(v any) (any, error) {
	h, frames, err := e.serialize(v, true, maxCollectionDepth)
	if err != nil {
		if !e.opt.ErrorAsMessage {
			return nil, err
		}
		h = NewDict("serializer", "error")
		frames = []Frame{HeapFrame(fmt.Appendf(nil, "Could not serialize object of type %T", v)),
			HeapFrame([]byte(err.Error()))}
	}
	at := len(e.m.Frames)
	e.m.Frames = append(e.m.Frames, Frame{})
	names, err := frameCompressions(h, len(frames))
	if err != nil {
		return nil, err
	}
	h.Delete("compression")
	counts, offsets := make([]int, len(frames)), make([]int, len(frames))
	var compression []any
	for i, f := range frames {
		first := len(e.m.Frames)
		offsets[i] = first - at - 1
		if names[i] != nil || f.CUDA() {
			e.m.Frames = append(e.m.Frames, f.Retain())
			compression = append(compression, names[i])
		} else if compression, err = e.addShards(f, compression); err != nil {
			return nil, err
		}
		counts[i] = len(e.m.Frames) - first
	}
	h = append(h, Pair{Key: "split-num-sub-frames", Value: counts}, Pair{Key: "split-offsets", Value: offsets},
		Pair{Key: "compression", Value: compression}, Pair{Key: "num-sub-frames", Value: len(e.m.Frames) - at - 1})
	header, err := msgpack.Append(nil, h)
	if err != nil {
		return nil, err
	}
	e.m.Frames[at] = HeapFrame(header)
	return mark(msgpack.Serialized, at), nil
}

// frameCompressions returns the compressions that a family's header already has for its frames: false for those of
// GPUs, which are not compressed.
func frameCompressions(h Dict, n int) ([]any, error) {
	v, _ := h.Get("compression")
	list, ok := v.([]any)
	if !ok {
		return make([]any, n), nil
	}
	if len(list) != n {
		return nil, fmt.Errorf("wire: header has %d compressions for %d frames", len(list), n)
	}
	return list, nil
}

// addShards adds a frame in pieces, compressed if worthwhile.
func (e *encoder) addShards(f Frame, compression []any) ([]any, error) {
	first := len(e.m.Frames)
	if f.Len() <= e.opt.ShardSize {
		e.m.Frames = append(e.m.Frames, f.Retain())
	} else {
		e.m.Frames = split(e.m.Frames, f, e.opt.ShardSize)
	}
	return e.compress(e.m.Frames[first:], compression)
}

// compress compresses frames of the message if worthwhile and appends the names.
func (e *encoder) compress(frames []Frame, names []any) ([]any, error) {
	for i, f := range frames {
		if e.comp.Name == "" {
			names = append(names, nil)
			continue
		}
		name, b, err := e.comp.Maybe(f.Bytes())
		if err != nil {
			return nil, err
		}
		if name == "" {
			names = append(names, nil)
			continue
		}
		f.Release()
		frames[i] = HeapFrame(b)
		names = append(names, name)
	}
	return names, nil
}

// toPickle adds the group of a pickled value.
func (e *encoder) toPickle(v any) (any, error) {
	// The negotiated protocol is for the pickle family only; here Dask always uses the highest.
	data, bufs, err := pickleValue(v, 5)
	if err != nil {
		return nil, err
	}
	return e.pickled(data, bufs, nil)
}

// pickled adds the group of a pickle. Buffers that are already compressed, according to compression, are sent as they
// are.
func (e *encoder) pickled(data []byte, bufs []Frame, compression []string) (any, error) {
	at := len(e.m.Frames)
	e.m.Frames = append(e.m.Frames, Frame{})
	e.m.Frames = append(e.m.Frames, retainFrames(bufs)...)
	names := make([]any, 0, len(bufs))
	var err error
	if compression == nil {
		if names, err = e.compress(e.m.Frames[at+1:], names); err != nil {
			return nil, err
		}
	}
	for _, name := range compression {
		if name == "" {
			names = append(names, nil)
		} else {
			names = append(names, name)
		}
	}
	h := NewDict("pickled-obj", data, "compression", names, "num-sub-frames", len(bufs))
	header, err := msgpack.Append(nil, h)
	if err != nil {
		return nil, err
	}
	e.m.Frames[at] = HeapFrame(header)
	return mark(msgpack.Pickled, at), nil
}
