package rpc

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Handle sets a handler with typed arguments: In is a struct whose fields are the
// arguments of the op, by their tags.
//
//	type get struct {
//		Keys []string      `rpc:"keys"`
//		Who  string        `rpc:"who,optional"`
//		Wait time.Duration `rpc:"timeout,optional"` // Dask's times are seconds
//	}
//	rpc.Handle(s, "get_data", func(ctx context.Context, r *rpc.Request, in get) (msgpack.Map, error) { … })
//
// A field without a tag has its own name in snake case. Pointers are optional too, and msgpack.Raw gets the encoded
// bytes. As in Python an argument that is missing or unknown is an error, a TypeError there. Decoded values borrow from
// the request's message: wire.Clone those that outlive the handler.
func Handle[In, Out any](s *Server, op string, f func(ctx context.Context, r *Request, in In) (Out, error)) {
	s.Handle(op, func(ctx context.Context, r *Request) (any, error) {
		var in In
		if err := r.Args(&in); err != nil {
			return nil, err
		}
		return f(ctx, r, in)
	})
}

// HandleStream sets the handler of an op on streams that begin with connection_stream. Handlers that take over a comm
// with another op call ServeStream themselves.
func (s *Server) HandleStream(op string, h StreamHandler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[op] = h
}

func (s *Server) streamTable() map[string]StreamHandler {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.streams)
}

// addCommon sets the handlers that every Dask server has.
func (s *Server) addCommon() {
	s.handlers["identity"] = func(_ context.Context, _ *Request) (any, error) { return s.Identity(), nil }
	s.handlers["echo"] = echo
	s.handlers["dump_state"] = func(_ context.Context, r *Request) (any, error) { return s.dumpState(r) }
	s.handlers["connection_stream"] = func(ctx context.Context, r *Request) (any, error) {
		r.Takeover()
		return NoReply, ServeStream(ctx, r.Comm, StreamConfig{Handlers: s.streamTable(), Decode: s.cfg.Decode})
	}
}

// echo returns its argument undecoded, including frames.
func echo(_ context.Context, r *Request) (any, error) {
	reply := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(msgpack.AppendNil(nil))}}
	for name, raw := range r.Fields() {
		switch {
		case name == "data":
			// The body's memory is reused with the request; its other frames are reference-counted.
			reply.Frames[0] = wire.HeapFrame(bytes.Clone(raw))
		case !control(name):
			return nil, &ArgumentError{r.Op, name, "unexpected keyword argument"}
		}
	}
	for _, f := range r.Message().Frames[1:] {
		reply.Frames = append(reply.Frames, f.Retain())
	}
	return reply, nil
}

// Identity returns the answer to identity: type, id and the fields of Config.Identity.
func (s *Server) Identity() msgpack.Map {
	m := msgpack.Map{{Key: "type", Value: s.cfg.Type}, {Key: "id", Value: s.id}}
	if s.cfg.Identity != nil {
		for _, p := range s.cfg.Identity() {
			if k, ok := p.Key.(string); ok {
				m.Set(k, p.Value)
			} else {
				m = append(m, p)
			}
		}
	}
	return m
}

// dumpState returns the state for debugging, like Dask's: identity, addresses, counts.
func (s *Server) dumpState(r *Request) (any, error) {
	var in struct {
		Exclude []string `rpc:"exclude,optional"`
	}
	if err := r.Args(&in); err != nil {
		return nil, err
	}
	m := s.Identity()
	stats := s.Stats()
	m.Set("address", r.Comm.LocalAddr())
	m.Set("status", "running")
	if s.stopping() {
		m.Set("status", "closing")
	}
	m.Set("uptime", time.Since(s.started).Seconds())
	m.Set("incoming_comms_open", stats.Comms)
	m.Set("incoming_comms_active", stats.Running)
	m.Set("streams", stats.Streams)
	m.Set("requests", stats.Requests)
	if s.cfg.State != nil {
		for _, p := range s.cfg.State() {
			m.Set(p.Key.(string), p.Value)
		}
	}
	return Exclude(m, in.Exclude), nil
}

// Exclude returns a map without the entries that have one of some names, at any depth.
func Exclude(m msgpack.Map, names []string) msgpack.Map {
	if len(names) == 0 {
		return m
	}
	out := make(msgpack.Map, 0, len(m))
	for _, p := range m {
		if name, ok := p.Key.(string); ok && slices.Contains(names, name) {
			continue
		}
		if inner, ok := p.Value.(msgpack.Map); ok {
			p.Value = Exclude(inner, names)
		}
		out = append(out, p)
	}
	return out
}
