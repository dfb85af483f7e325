package rpc

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Unsent is implemented by errors of Comm.Write that know whether any part of the message was sent. Transports with
// such errors let the pool retry on a fresh comm.
type Unsent interface {
	error
	// Unsent reports whether nothing was sent.
	Unsent() bool
}

// Call calls an op at an address and decodes its answer into reply, a pointer.
//
// args is nil, a msgpack.Map, a map with string keys or a struct (see Handle for its tags; zero optional fields are
// left out). reply may be nil if the answer is ignored; *any and *msgpack.Map accept any answer, a struct the keys that
// it has fields for. The caller owns decoded values.
//
// An error of the handler is a *RemoteError, an error of the connection a *CallError. A comm of an earlier call that
// has ended before anything was sent is replaced by a fresh one, once; a request that may have been sent is never
// repeated.
func (p *Pool) Call(ctx context.Context, address, op string, args, reply any) error {
	request, err := request(op, args, true)
	if err != nil {
		return err
	}
	m, err := p.do(ctx, address, op, request, true)
	if err != nil {
		return err
	}
	defer m.Release()
	return decodeReply(op, address, m, reply)
}

// Notify calls an op without waiting for an answer, which the server does not send.
func (p *Pool) Notify(ctx context.Context, address, op string, args any) error {
	request, err := request(op, args, false)
	if err != nil {
		return err
	}
	_, err = p.do(ctx, address, op, request, false)
	return err
}

// Do sends an encoded request, a map with op and reply or a *wire.Message, and returns the answer, which the caller
// releases and checks for errors (ReplyError). op is for error messages.
func (p *Pool) Do(ctx context.Context, address, op string, request any) (*wire.Message, error) {
	return p.do(ctx, address, op, request, true)
}

func (p *Pool) do(ctx context.Context, address, op string, request any, reply bool) (*wire.Message, error) {
	fail := func(sent bool, err error) error { return &CallError{Op: op, Peer: address, Sent: sent, Err: err} }
	for fresh := false; ; fresh = true {
		t, err := p.acquire(ctx, address, fresh)
		if err != nil {
			return nil, fail(false, err)
		}
		m, sent, err := roundTrip(ctx, t.c, request, reply)
		if err != nil {
			t.c.Abort() // it may be in the middle of an exchange
		}
		p.Release(address, t.c)
		if err == nil {
			return m, nil
		}
		if t.reuse && !fresh && !sent && ctx.Err() == nil {
			continue
		}
		return nil, fail(sent, err)
	}
}

// roundTrip performs one call on a comm. sent reports whether the peer may have received the request.
func roundTrip(ctx context.Context, c comm.Comm, request any, reply bool) (m *wire.Message, sent bool, err error) {
	out, err := encode(request, c.Info())
	if err != nil {
		return nil, true, err // another comm would not help
	}
	if _, given := request.(*wire.Message); !given {
		defer out.Release()
	}
	if err := c.Err(); err != nil {
		return nil, false, err
	}
	if err := c.Write(ctx, out); err != nil {
		var unsent Unsent
		return nil, !(errors.As(err, &unsent) && unsent.Unsent()), err
	}
	if !reply {
		return nil, true, nil
	}
	m, err = c.Read(ctx)
	return m, true, err
}

// Call performs one call on a comm of the caller: see Pool.Call. If it fails with anything but a *RemoteError the comm
// cannot be used afterwards, and is aborted.
func Call(ctx context.Context, c comm.Comm, op string, args, reply any) error {
	request, err := request(op, args, true)
	if err != nil {
		return err
	}
	m, sent, err := roundTrip(ctx, c, request, true)
	if err != nil {
		c.Abort()
		return &CallError{Op: op, Peer: c.PeerAddr(), Sent: sent, Err: err}
	}
	defer m.Release()
	return decodeReply(op, c.PeerAddr(), m, reply)
}

// Notify sends one request on a comm without a reply, such as connection_stream or register-client, with which
// streams begin. If it fails the comm is aborted.
func Notify(ctx context.Context, c comm.Comm, op string, args any) error {
	request, err := request(op, args, false)
	if err != nil {
		return err
	}
	if _, sent, err := roundTrip(ctx, c, request, false); err != nil {
		c.Abort()
		return &CallError{Op: op, Peer: c.PeerAddr(), Sent: sent, Err: err}
	}
	return nil
}

// request returns the map of a request, in Dask's order: op, arguments, reply.
func request(op string, args any, reply bool) (msgpack.Map, error) {
	m := msgpack.Map{{Key: "op", Value: op}}
	add := func(k string, v any) error {
		if k == "op" || k == "reply" {
			return fmt.Errorf("rpc: %s: an argument cannot have the name %q", op, k)
		}
		m = append(m, msgpack.Pair{Key: k, Value: v})
		return nil
	}
	if args == nil {
		return append(m, msgpack.Pair{Key: "reply", Value: reply}), nil
	}
	if given, ok := args.(msgpack.Map); ok {
		for _, p := range given {
			k, ok := p.Key.(string)
			if !ok {
				return nil, fmt.Errorf("rpc: %s: keywords must be strings, got %s", op, kindOf(p.Key))
			}
			if err := add(k, p.Value); err != nil {
				return nil, err
			}
		}
		return append(m, msgpack.Pair{Key: "reply", Value: reply}), nil
	}
	v := reflect.ValueOf(args)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Struct:
		for _, p := range structMap(v) {
			if err := add(p.Key.(string), p.Value); err != nil {
				return nil, err
			}
		}
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		for _, k := range sortedKeys(v) {
			if err := add(k.String(), v.MapIndex(k).Interface()); err != nil {
				return nil, err
			}
		}
	default:
		return nil, fmt.Errorf("rpc: %s: arguments of type %T: use a struct, a map with string keys or a msgpack.Map",
			op, args)
	}
	return append(m, msgpack.Pair{Key: "reply", Value: reply}), nil
}

// decodeReply decodes an answer into the caller's variable.
func decodeReply(op, peer string, m *wire.Message, reply any) error {
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		return &CallError{Op: op, Peer: peer, Sent: true, Err: fmt.Errorf("invalid answer: %w", err)}
	}
	if err := ReplyError(op, peer, v); err != nil {
		return err
	}
	if reply == nil {
		return nil
	}
	target := reflect.ValueOf(reply)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("rpc: %s: the reply must be a pointer, not a %T", op, reply)
	}
	target = target.Elem()
	if v == nil {
		switch target.Kind() {
		case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice:
			target.SetZero()
			return nil
		}
		return &CallError{Op: op, Peer: peer, Sent: true, Err: fmt.Errorf("%w, as Dask's servers do for an op that "+
			"they do not know; wanted %v", ErrNilReply, target.Type())}
	}
	if counted(m) {
		v = wire.Clone(v) // the memory is reused with the message
	}
	if err := assign(v, target); err != nil {
		return &CallError{Op: op, Peer: peer, Sent: true, Err: fmt.Errorf("unexpected answer: %w", err)}
	}
	return nil
}

// counted reports whether a message has memory that is reused when it is released.
func counted(m *wire.Message) bool {
	return slices.ContainsFunc(m.Frames, func(f wire.Frame) bool { return f.Buffer() != nil })
}
