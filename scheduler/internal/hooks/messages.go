package hooks

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// Stream queues a stream message of a client or worker for the plugin that handles its op. It reports whether there is
// one. It runs in the loop.
func (s *Hooks) Stream(ops *message.Ops, m *wire.Message, kind, name string) (bool, error) {
	if !s.streams[string(ops.Op())] {
		return false, nil
	}
	raw, err := ops.Raw()
	if err != nil {
		return true, err
	}
	v, err := message.DecodePart(m, raw, val.KeepClosed)
	if err != nil {
		return true, err
	}
	frames, err := encode(v)
	if err != nil {
		return true, err
	}
	s.queue.put(true, func(b []byte) []byte {
		b = msgpack.AppendString(msgpack.AppendArrayHeader(b, 4), "stream")
		b = msgpack.AppendString(msgpack.AppendString(b, kind), name)
		b = msgpack.AppendArrayHeader(b, len(frames))
		for _, f := range frames {
			b = msgpack.AppendBytes(b, f)
		}
		return b
	})
	return true, nil
}

// encode returns the frames of a Dask message, in memory of their own.
func encode(v any) ([][]byte, error) {
	m, err := wire.Encode(v, wire.EncodeOptions{})
	if err != nil {
		return nil, err
	}
	defer m.Release()
	out := make([][]byte, len(m.Frames))
	for i, f := range m.Frames {
		out[i] = slices.Clone(f.Bytes())
	}
	return out, nil
}

// request passes a request to the plugin that handles it. Events that were queued before are delivered first.
func (s *Hooks) request(ctx context.Context, r *rpc.Request) (any, error) {
	defer s.calls.Add(-1)
	if s.calls.Add(1) > maxCalls {
		return nil, &rpc.Exception{Type: "RuntimeError", Message: fmt.Sprintf("scheduler plugins handle %d requests; "+
			"%s is rejected", maxCalls, r.Op)}
	}
	args, err := r.Values()
	if err != nil {
		return nil, err
	}
	frames, err := encode(args)
	if err != nil {
		return nil, err
	}
	s.Flush(ctx)
	m, err := s.Call(ctx, "plugin-request", msgpack.MapOf("op", r.Op), frames)
	if err != nil {
		return nil, err
	}
	return helpers.Message(m.Frames)
}

// Removable returns those of some workers that plugins allow to be closed (valid_workers_downscaling). Without such a
// plugin, and if plugins fail or take too long, it returns nil and false: all may be closed.
func (s *Hooks) Removable(ctx context.Context, addresses []string) (allowed map[string]bool, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	m, err := s.Call(ctx, "valid-workers", addresses, nil)
	var list []string
	if err == nil {
		var v any
		if v, err = msgpack.Decode(m.Body); err == nil {
			list, err = val.Texts(v)
		}
	}
	if err != nil {
		s.Log.Warn("valid_workers_downscaling of scheduler plugins failed; ignoring it", "error", err)
		return nil, false
	}
	allowed = map[string]bool{}
	for _, address := range list {
		allowed[string([]byte(address))] = true
	}
	return allowed, true
}
