package wire

import (
	"fmt"
	"slices"

	"go.millstream.dev/internal/wire/libcodec"
	"go.millstream.dev/internal/wire/pickle"
)

// serialize returns a value in the family that fits it: header and frames, which are borrowed. iterate is set for
// values marked with Serialize: their members are then sent one by one, whatever they are.
func (e *encoder) serialize(v any, iterate bool, depth int) (Dict, []Frame, error) {
	if depth == 0 {
		return nil, nil, fmt.Errorf("wire: collections are nested too deeply")
	}
	switch x := v.(type) {
	case Serialize:
		return e.serialize(x.Value, true, depth-1)
	case *Serialize:
		return e.serialize(x.Value, true, depth-1)
	case *Serialized:
		return e.reopen(x)
	case []byte:
		return daskHeader(classBytes, nil), []Frame{HeapFrame(x)}, nil
	case ByteArray:
		return daskHeader(classByteArray, nil), []Frame{HeapFrame(x)}, nil
	case *NDArray:
		sub, frames, err := encodeNDArray(x)
		return daskHeader(classNDArray, sub), frames, err
	case *DeviceArray:
		return encodeDevice(x)
	case *Object:
		return slices.Clone(x.Header), x.Frames, nil
	}
	if c, class := libcodec.For(v); c != nil {
		return encodeCodec(c, v, class)
	}
	if name, n, ok := collectionOf(v); ok && (iterate || inMembers(v, depth)) && keysFit(v) {
		return e.collection(v, name, n, depth)
	}
	return e.pickleFamily(v)
}

// encodeCodec returns a value encoded by a codec.
func encodeCodec(c *libcodec.Codec, v any, class pickle.Global) (Dict, []Frame, error) {
	data, err := c.Encode(v)
	if err != nil {
		return nil, nil, err
	}
	frames := make([]Frame, len(data))
	for i, b := range data {
		frames[i] = HeapFrame(b)
	}
	return daskHeader(class, nil), frames, nil
}

// collectionOf returns the Python type of a collection and the number of its members.
func collectionOf(v any) (name string, n int, ok bool) {
	switch v := v.(type) {
	case []any:
		return "list", len(v), true
	case Tuple:
		return "tuple", len(v), true
	case Set:
		return "set", len(v), true
	case Dict:
		return "dict", len(v), true
	case map[string]any:
		return "dict", len(v), true
	}
	return "", 0, false
}

// members iterates over a collection's members with their keys, until f returns false.
func members(v any, f func(key, value any) bool) {
	list := func(l []any) {
		for _, x := range l {
			if !f(nil, x) {
				return
			}
		}
	}
	switch v := v.(type) {
	case []any:
		list(v)
	case Tuple:
		list(v)
	case Set:
		list(v)
	case Dict:
		for _, p := range v {
			if !f(p.Key, p.Value) {
				return
			}
		}
	case map[string]any:
		for _, k := range sortedKeys(v) {
			if !f(k, v[k]) {
				return
			}
		}
	}
}

// inMembers reports whether the members of a nested collection are better sent in separate frames. Dask checks the
// first member; this also checks for members that no pickle can hold.
func inMembers(v any, depth int) bool {
	first, found := true, false
	members(v, func(_, x any) bool {
		found = first && daskType(x, depth-1) || opaque(x, depth-1)
		first = false
		return !found
	})
	return found
}

// daskType reports whether Dask has a function for a value, or for the first of its members.
func daskType(v any, depth int) bool {
	switch v.(type) {
	case []byte, ByteArray, *NDArray, *DeviceArray:
		return true
	}
	if _, n, ok := collectionOf(v); ok && n > 0 && depth > 0 {
		found := false
		members(v, func(_, x any) bool { found = daskType(x, depth-1); return false })
		return found
	}
	return libcodec.Has(v)
}

// opaque reports whether a value, or a member of it, has no form in a pickle of this package.
func opaque(v any, depth int) bool {
	switch v := v.(type) {
	case *Object, *Serialized, *DeviceArray, Serialize, *Serialize:
		return true
	case *NDArray:
		return v.broadcast() // a pickle would contain all repeated elements
	}
	if depth <= 0 || libcodec.Has(v) {
		return libcodec.Has(v)
	}
	found := false
	members(v, func(_, x any) bool { found = opaque(x, depth-1); return !found })
	return found
}

// keysFit reports whether msgpack has a form for all keys of a dict.
func keysFit(v any) bool {
	d, ok := v.(Dict)
	if !ok {
		return true
	}
	for _, p := range d {
		if !keyFits(p.Key, 8) {
			return false
		}
	}
	return true
}

func keyFits(k any, depth int) bool {
	switch k := k.(type) {
	case nil, bool, string, []byte, int64, int, uint64, float64:
		return true
	case Tuple:
		return depth > 0 && !slices.ContainsFunc(k, func(x any) bool { return !keyFits(x, depth-1) })
	case []any:
		return depth > 0 && !slices.ContainsFunc(k, func(x any) bool { return !keyFits(x, depth-1) })
	}
	return false
}

// collection serializes members one by one.
func (e *encoder) collection(v any, name string, n, depth int) (Dict, []Frame, error) {
	headers, lengths := make([]any, 0, n), make([]int, 0, n)
	var frames []Frame
	var compression []any
	var failed error
	members(v, func(key, x any) bool {
		h, f, err := e.serialize(x, false, depth-1)
		if err != nil {
			failed = err
			return false
		}
		names, err := frameCompressions(h, len(f))
		if err != nil {
			failed = err
			return false
		}
		compression = append(compression, names...)
		if name == "dict" {
			h = append(h, Pair{Key: "key", Value: plain(key)})
		}
		headers = append(headers, h)
		lengths = append(lengths, len(f))
		frames = append(frames, f...)
		return true
	})
	if failed != nil {
		return nil, nil, failed
	}
	h := NewDict("sub-headers", headers, "is-collection", true, "frame-lengths", lengths, "type-serialized", name)
	if slices.ContainsFunc(compression, func(c any) bool { return c != nil }) {
		h = append(h, Pair{Key: "compression", Value: compression})
	}
	return h, frames, nil
}

// plain converts tuples to a form that msgpack can encode.
func plain(k any) any {
	if t, ok := k.(Tuple); ok {
		out := make([]any, len(t))
		for i, x := range t {
			out[i] = plain(x)
		}
		return out
	}
	return k
}

// reopen makes an encoded value a member of a collection: its frames as they are, with their shards joined, because a
// member's header has no fields for them.
func (e *encoder) reopen(s *Serialized) (Dict, []Frame, error) {
	h, err := decodeHeader(s.Header)
	if err != nil {
		return nil, nil, err
	}
	d, err := newDecoder(s.Frames, DecodeOptions{})
	if err != nil {
		return nil, nil, err
	}
	frames, err := d.decompress(h, s.Frames)
	if err != nil {
		return nil, nil, err
	}
	if frames, err = rejoin(h, frames); err != nil {
		return nil, nil, err
	}
	if h.GetString("serializer") != "cuda" {
		h.Delete("compression")
	}
	for _, k := range []string{"split-num-sub-frames", "split-offsets", "num-sub-frames"} {
		h.Delete(k)
	}
	return h, frames, nil
}

// pickleFamily encodes all other values.
func (e *encoder) pickleFamily(v any) (Dict, []Frame, error) {
	data, bufs, err := pickleValue(v, e.opt.PickleProtocol)
	if err != nil {
		return nil, nil, err
	}
	writeable := make([]any, len(bufs))
	for i := range writeable {
		writeable[i] = true
	}
	return NewDict("serializer", "pickle", "writeable", writeable), append([]Frame{HeapFrame(data)}, bufs...), nil
}

// sortedKeys returns a map's keys in order, so that equal values have equal bytes.
func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
