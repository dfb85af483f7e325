package rpc

import (
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// encode encodes a value as negotiated in the comm's handshake. A *wire.Message is sent as it is. The caller releases
// the result.
func encode(v any, info comm.Info) (*wire.Message, error) {
	if m, ok := v.(*wire.Message); ok {
		return m, nil
	}
	return wire.Encode(outgoing(v), info.EncodeOptions())
}

// Values decodes the whole map, without the keys of the protocol itself: op, reply, close and serializers. The result
// borrows from the message.
func (b *Body) Values() (msgpack.Map, error) {
	all, err := b.decode()
	if err != nil {
		return nil, err
	}
	out := make(msgpack.Map, 0, len(all))
	for _, p := range all {
		if k, ok := p.Key.(string); !ok || !control(k) {
			out = append(out, p)
		}
	}
	return out, nil
}

// decode decodes the whole map once: argument by argument, a frame that several of them refer to would be decompressed
// several times.
func (b *Body) decode() (msgpack.Map, error) {
	if b.all != nil {
		return b.all, nil
	}
	view := wire.Message{Frames: []wire.Frame{wire.HeapFrame(b.raw)}}
	if b.msg != nil && len(b.msg.Frames) > 1 {
		view.Frames = append(view.Frames, b.msg.Frames[1:]...)
	}
	v, err := wire.Decode(&view, b.opts)
	if err != nil {
		return nil, err
	}
	m, ok := v.(msgpack.Map)
	if !ok {
		return nil, &ProtocolError{"expected a map, got " + kindOf(v)}
	}
	b.all = m
	return m, nil
}
