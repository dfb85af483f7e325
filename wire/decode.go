package wire

import (
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/internal/wire/bridge"
	"go.millstream.dev/internal/wire/compress"
	"go.millstream.dev/internal/wire/msgpack"
)

// Decode returns the value of a message. It borrows from the message's frames: it is valid until the message is
// released; Clone detaches it.
//
// Arrays of the body become []any and maps Dict; see the list of types at Dict.
func Decode(m *Message, opt DecodeOptions) (any, error) {
	if len(m.Frames) == 0 {
		return nil, fmt.Errorf("wire: message without a body")
	}
	if m.Frames[0].OnDevice() {
		return nil, fmt.Errorf("wire: body of a message is in GPU memory")
	}
	d, err := newDecoder(m.Frames, opt)
	if err != nil {
		return nil, err
	}
	body := msgpack.Decoder{Share: true, Hook: d.hook}
	v, err := body.Decode(m.Body())
	if err != nil {
		return nil, fmt.Errorf("wire: body: %w", err)
	}
	return v, nil
}

// decoder is the state of one Decode.
type decoder struct {
	opt     DecodeOptions
	frames  []Frame
	used    []bool // frames that belong to a group, allocated on first use
	inflate compress.Inflater

	budgeted bool // inflate has its budget
}

func newDecoder(frames []Frame, opt DecodeOptions) (*decoder, error) {
	if len(frames) > maxFrames {
		return nil, fmt.Errorf("wire: %d frames, the limit is %d", len(frames), maxFrames)
	}
	return &decoder{opt: opt, frames: frames}, nil
}

func init() {
	bridge.DecodePart = func(m any, raw []byte, opt any) (any, error) {
		return decodePart(m.(*Message), raw, *opt.(*DecodeOptions))
	}
}

// decodePart decodes a value of the body of m, given as msgpack, with the frames that it refers to.
func decodePart(m *Message, raw []byte, opt DecodeOptions) (any, error) {
	d, err := newDecoder(m.Frames, opt)
	if err != nil {
		return nil, err
	}
	body := msgpack.Decoder{Share: true, Hook: d.hook}
	return body.Decode(raw)
}

// hook replaces the markers of the body by their values.
func (d *decoder) hook(m Dict) (any, error) {
	// Markers have one entry, or are sets or enumerations: a quick check avoids a search of other maps, which are the
	// vast majority.
	if len(m) == 0 || len(m) > 4 {
		return m, nil
	}
	if at, ok := marker(m, msgpack.Serialized); ok {
		header, frames, err := d.take(at)
		if err != nil {
			return nil, fmt.Errorf(msgpack.Serialized+": %w", err)
		}
		if d.opt.Keep {
			return &Serialized{Header: header, Frames: frames}, nil
		}
		return d.group(header, frames)
	}
	if at, ok := marker(m, msgpack.Pickled); ok {
		header, frames, err := d.take(at)
		if err != nil {
			return nil, fmt.Errorf(msgpack.Pickled+": %w", err)
		}
		return d.pickled(header, frames)
	}
	return plainMarker(m)
}

// plainMarker handles the markers that need no frames.
func plainMarker(m Dict) (any, error) {
	if m.Has(msgpack.Set) {
		list, _ := m.Get(msgpack.SetItems)
		items, ok := list.([]any)
		if !ok {
			return nil, fmt.Errorf("%s has no list %q", msgpack.Set, msgpack.SetItems)
		}
		return Set(items), nil
	}
	if m.Has("__Enum__") {
		e := Enum{Module: m.GetString("__module__"), Class: m.GetString("__name__"), Name: m.GetString("name")}
		if e.Module == "" || e.Class == "" || e.Name == "" {
			return nil, fmt.Errorf("__Enum__ without module, class or name")
		}
		return e, nil
	}
	return m, nil
}

// marker returns the frame that a marker refers to.
func marker(m Dict, name string) (int64, bool) {
	v, ok := m.Get(name)
	if !ok {
		return 0, false
	}
	at, ok := v.(int64)
	return at, ok && at > 0
}

// take returns the header and the frames of the group at a frame. A frame belongs to one group: otherwise a body could
// refer to it many times at many times its cost.
func (d *decoder) take(at int64) (header []byte, frames []Frame, err error) {
	if at >= int64(len(d.frames)) {
		return nil, nil, fmt.Errorf("frame %d of %d", at, len(d.frames))
	}
	f := d.frames[at]
	if f.OnDevice() {
		return nil, nil, fmt.Errorf("header in frame %d is in GPU memory", at)
	}
	header = f.Bytes()
	n, err := subFrames(header)
	if err != nil {
		return nil, nil, fmt.Errorf("frame %d: %w", at, err)
	}
	if n >= int64(len(d.frames))-at {
		return nil, nil, fmt.Errorf("frame %d is a header of %d frames, and %d follow", at, n,
			int64(len(d.frames))-at-1)
	}
	if d.used == nil {
		d.used = make([]bool, len(d.frames))
	}
	for i := at; i <= at+n; i++ {
		if d.used[i] {
			return nil, nil, fmt.Errorf("frame %d is used by two values", i)
		}
		d.used[i] = true
	}
	return header, d.frames[at+1 : at+1+n : at+1+n], nil
}

// subFrames reads num-sub-frames from a header.
func subFrames(header []byte) (int64, error) {
	r := msgpack.NewReader(header)
	n, err := r.ReadMapLen()
	if err != nil {
		return 0, err
	}
	count := int64(-1)
	for range n {
		if r.Kind() != msgpack.Str {
			if err := skip2(&r); err != nil {
				return 0, err
			}
			continue
		}
		k, err := r.ReadStringBytes()
		if err != nil {
			return 0, err
		}
		if string(k) != "num-sub-frames" {
			if err := r.Skip(); err != nil {
				return 0, err
			}
			continue
		}
		if count, err = r.ReadInt(); err != nil {
			return 0, err
		}
		if count < 0 {
			return 0, fmt.Errorf("wire: num-sub-frames is %d", count)
		}
	}
	if count < 0 {
		return 0, fmt.Errorf("wire: header without num-sub-frames")
	}
	return count, r.End()
}

func skip2(r *msgpack.Reader) error {
	if err := r.Skip(); err != nil {
		return err
	}
	return r.Skip()
}

// decodeHeader decodes the header of a group.
func decodeHeader(b []byte) (Dict, error) {
	dec := msgpack.Decoder{Share: true}
	v, err := dec.Decode(b)
	if err != nil {
		return nil, fmt.Errorf("wire: header: %w", err)
	}
	h, ok := v.(Dict)
	if !ok {
		return nil, fmt.Errorf("wire: header is a %T, want a map", v)
	}
	return h, nil
}

// group decodes a serialized value.
func (d *decoder) group(header []byte, frames []Frame) (any, error) {
	h, err := decodeHeader(header)
	if err != nil {
		return nil, err
	}
	if frames, err = d.decompress(h, frames); err != nil {
		return nil, err
	}
	if frames, err = rejoin(h, frames); err != nil {
		return nil, err
	}
	return d.deserialize(h, frames, maxCollectionDepth)
}

// pickled decodes a value that was sent as ToPickle.
func (d *decoder) pickled(header []byte, frames []Frame) (any, error) {
	h, err := decodeHeader(header)
	if err != nil {
		return nil, err
	}
	v, _ := h.Get("pickled-obj")
	data, ok := v.([]byte)
	if !ok {
		return nil, headerError("pickled-obj", v, "bytes")
	}
	names, err := compressions(h, frames)
	if err != nil {
		return nil, err
	}
	if d.opt.KeepPickled {
		return &Pickled{Data: data, Buffers: frames, Compression: names}, nil
	}
	if frames, err = d.inflateFrames(names, frames); err != nil {
		return nil, err
	}
	bufs, err := hostBuffers(frames)
	if err != nil {
		return nil, err
	}
	v, known, err := d.unpickle(data, bufs)
	if err != nil || known {
		return v, err
	}
	return &Pickled{Data: data, Buffers: frames}, nil
}

// decompress replaces compressed frames. Its argument is not modified.
func (d *decoder) decompress(h Dict, frames []Frame) ([]Frame, error) {
	names, err := compressions(h, frames)
	if err != nil {
		return nil, err
	}
	return d.inflateFrames(names, frames)
}

// compressions returns the compression of each frame of a header, "" for none; nil if none is compressed.
func compressions(h Dict, frames []Frame) ([]string, error) {
	v, ok := h.Get("compression")
	if !ok || v == nil {
		return nil, nil
	}
	names, ok := v.([]any)
	if !ok {
		return nil, headerError("compression", v, "a list")
	}
	// Python pairs names and frames and drops those without a partner.
	if len(names) != len(frames) {
		return nil, fmt.Errorf("wire: header has %d compressions for %d frames", len(names), len(frames))
	}
	var out []string
	for i, name := range names {
		if name == nil || name == false {
			continue
		}
		s, ok := name.(string)
		if !ok {
			return nil, headerError("compression", v, "a list of names")
		}
		if frames[i].OnDevice() {
			return nil, fmt.Errorf("wire: compressed frame is in GPU memory")
		}
		if !slices.Contains(compress.Names(), s) {
			return nil, fmt.Errorf("%w %.40q: unknown compression", ErrDecompress, s)
		}
		if out == nil {
			out = make([]string, len(frames))
		}
		out[i] = strings.Clone(s) // it may outlive the header
	}
	return out, nil
}

// inflateFrames decompresses the frames that have a name. Its argument is not modified.
func (d *decoder) inflateFrames(names []string, frames []Frame) ([]Frame, error) {
	if names == nil {
		return frames, nil
	}
	if len(names) != len(frames) {
		return nil, fmt.Errorf("wire: %d compressions for %d frames", len(names), len(frames))
	}
	if !d.budgeted { // most messages have no compressed frames
		d.budgeted = true
		d.inflate = compress.NewInflater(d.opt.budget(framesSize(d.frames)))
	}
	out := slices.Clone(frames)
	for i, name := range names {
		if name == "" {
			continue
		}
		b, err := d.inflate.Decompress(name, frames[i].Bytes())
		if err != nil {
			return nil, err
		}
		out[i] = HeapFrame(b)
	}
	return out, nil
}

// rejoin merges the shards of large frames.
func rejoin(h Dict, frames []Frame) ([]Frame, error) {
	counts, ok, err := ints(h, "split-num-sub-frames")
	if err != nil || !ok {
		return frames, err
	}
	offsets, _, err := ints(h, "split-offsets")
	if err != nil {
		return nil, err
	}
	if len(counts) != len(offsets) {
		return nil, fmt.Errorf("wire: header has %d split-num-sub-frames and %d split-offsets", len(counts),
			len(offsets))
	}
	whole := len(counts) == len(frames)
	at := 0
	for i, n := range counts {
		// Shards in any other order would let a small header copy frames many times.
		if offsets[i] != at || n > len(frames)-at {
			return nil, fmt.Errorf("wire: shards %d of %d at %d, where %d of %d frames are taken", i, n, offsets[i], at,
				len(frames))
		}
		at += n
		whole = whole && n == 1
	}
	if whole {
		return frames, nil
	}
	out := make([]Frame, len(counts))
	for i, n := range counts {
		if out[i], err = merge(frames[offsets[i] : offsets[i]+n]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
