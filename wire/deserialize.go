package wire

import (
	"fmt"
	"strings"

	"go.millstream.dev/internal/wire/libcodec"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
)

// deserialize decodes a value in one of the families.
func (d *decoder) deserialize(h Dict, frames []Frame, depth int) (any, error) {
	if h.Has("is-collection") {
		return d.collection(h, frames, depth)
	}
	family := h.GetString("serializer")
	if !d.opt.allows(family) {
		return nil, fmt.Errorf("wire: data in family %.40q, only %q are allowed (DecodeOptions.Deserializers)",
			family, d.opt.Deserializers)
	}
	switch family {
	case "pickle":
		return d.pickleFamily(h, frames)
	case "dask":
		return d.daskFamily(h, frames)
	case "msgpack":
		b, err := joined(frames)
		if err != nil {
			return nil, err
		}
		dec := msgpack.Decoder{Share: true}
		v, err := dec.Decode(b)
		if err != nil {
			return nil, fmt.Errorf("wire: family msgpack: %w", err)
		}
		return tuples(v), nil
	case "error":
		var text []string
		for _, f := range frames {
			b, err := joined([]Frame{f})
			if err != nil {
				return nil, err
			}
			text = append(text, strings.ToValidUTF8(string(b), "\ufffd"))
		}
		return nil, fmt.Errorf("wire: sender could not serialize a value: %w",
			pickle.NewException("builtins", "TypeError", strings.Join(text, "\n")))
	case "cuda":
		return d.cudaFamily(h, frames)
	}
	// A family registered in Python: it can be passed on.
	return object(h, frames), nil
}

// object keeps a value encoded.
func object(h Dict, frames []Frame) *Object {
	o := &Object{Type: h.GetString("type"), Frames: frames}
	for _, p := range h {
		switch p.Key {
		// They describe the frames as sent.
		case "compression", "split-num-sub-frames", "split-offsets", "num-sub-frames", "key":
			continue
		}
		o.Header = append(o.Header, p)
	}
	return o
}

// joined returns the frames' memory in one piece.
func joined(frames []Frame) ([]byte, error) {
	if len(frames) == 0 {
		return []byte{}, nil
	}
	f, err := merge(frames)
	if err != nil {
		return nil, err
	}
	if f.OnDevice() {
		return nil, fmt.Errorf("wire: frame is in GPU memory, want host memory")
	}
	if b := f.Bytes(); b != nil {
		return b, nil
	}
	return []byte{}, nil
}

// tuples converts the arrays of a msgpack tree to tuples, as Python does.
func tuples(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = tuples(v[i])
		}
		return Tuple(v)
	case Dict:
		for i := range v {
			v[i].Key, v[i].Value = tuples(v[i].Key), tuples(v[i].Value)
		}
	}
	return v
}

// collection decodes a list, tuple, set or dict that was serialized member by member.
func (d *decoder) collection(h Dict, frames []Frame, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("wire: collections are nested too deeply")
	}
	v, _ := h.Get("sub-headers")
	headers, ok := v.([]any)
	if !ok {
		return nil, headerError("sub-headers", v, "a list")
	}
	lengths, _, err := ints(h, "frame-lengths")
	if err != nil {
		return nil, err
	}
	if len(lengths) != len(headers) {
		return nil, fmt.Errorf("wire: collection has %d sub-headers and %d frame-lengths", len(headers), len(lengths))
	}
	kind := h.GetString("type-serialized")
	items := make([]any, len(headers))
	var dict Dict
	if kind == "dict" {
		dict = make(Dict, len(headers))
	}
	for i, sub := range headers {
		sh, ok := sub.(Dict)
		if !ok {
			return nil, headerError("sub-headers", sub, "a list of maps")
		}
		n := lengths[i]
		if n > len(frames) {
			return nil, fmt.Errorf("wire: member %d of a collection has %d frames, and %d are left", i, n, len(frames))
		}
		if items[i], err = d.deserialize(sh, frames[:n:n], depth-1); err != nil {
			return nil, fmt.Errorf("member %d: %w", i, err)
		}
		frames = frames[n:]
		if dict != nil {
			key, ok := sh.Get("key")
			if !ok {
				return nil, fmt.Errorf("wire: member %d of a dict has no key", i)
			}
			dict[i] = Pair{Key: tuples(key), Value: items[i]}
		}
	}
	switch kind {
	case "list":
		return items, nil
	case "tuple":
		return Tuple(items), nil
	case "set":
		return Set(items), nil
	case "dict":
		return dict, nil
	}
	return nil, headerError("type-serialized", kind, "list, tuple, set or dict")
}

// pickleFamily decodes a pickle that has only types that Go supports.
func (d *decoder) pickleFamily(h Dict, frames []Frame) (any, error) {
	if len(frames) == 0 {
		return nil, fmt.Errorf("wire: family pickle without a frame")
	}
	bufs, err := hostBuffers(frames)
	if err != nil {
		return nil, err
	}
	v, known, err := d.unpickle(bufs[0], bufs[1:])
	if err != nil {
		return nil, err
	}
	if known {
		return v, nil
	}
	return object(h, frames), nil
}

// class returns the class in type-serialized.
func (d *decoder) class(h Dict) (pickle.Global, error) {
	v, _ := h.Get("type-serialized")
	b, ok := v.([]byte)
	if !ok {
		return pickle.Global{}, headerError("type-serialized", v, "bytes")
	}
	if g, ok := knownClasses()[string(b)]; ok {
		return g, nil
	}
	t, err := pickle.Load(b, nil, d.opt.Pickle)
	if err != nil {
		return pickle.Global{}, fmt.Errorf("wire: type-serialized: %w", err)
	}
	g, _ := t.(pickle.Global) // classes of __main__ are more than a name
	return g, nil
}

// daskFamily decodes values of classes that Dask has functions for.
func (d *decoder) daskFamily(h Dict, frames []Frame) (any, error) {
	g, err := d.class(h)
	if err != nil {
		return nil, err
	}
	v, _ := h.Get("sub-header")
	sub, ok := v.(Dict)
	if !ok {
		return object(h, frames), nil
	}
	switch g {
	case classBytes:
		return joined(frames)
	case classByteArray:
		b, err := joined(frames)
		return ByteArray(b), err
	case classNDArray:
		a, err := decodeNDArray(sub, frames)
		if err != nil || a != nil {
			return a, err
		}
	case classCuPy, classNumba, classRMM:
		return decodeDevice(g, "dask", sub, frames)
	}
	if c := libcodec.Of(g); c != nil {
		data, err := hostBuffers(frames)
		if err != nil {
			return nil, err
		}
		return c.Decode(g, data)
	}
	return object(h, frames), nil
}

// cudaFamily decodes arrays of GPUs.
func (d *decoder) cudaFamily(h Dict, frames []Frame) (any, error) {
	g, err := d.class(h)
	if err != nil {
		return nil, err
	}
	v, _ := h.Get("sub-header")
	sub, ok := v.(Dict)
	if ok && (g == classCuPy || g == classNumba || g == classRMM) {
		return decodeDevice(g, "cuda", sub, frames)
	}
	return object(h, frames), nil
}
