package rpc

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// StreamHandler handles one message of a stream. Messages are handled sequentially in the order in which they were
// sent. The body, and values decoded from it, are valid until the handler returns. An error ends the stream, as an
// exception does in Dask.
type StreamHandler func(ctx context.Context, b *Body) error

// StreamConfig configures the reading side of a stream.
type StreamConfig struct {
	// Handlers are the handlers by op.
	Handlers map[string]StreamHandler
	// Default handles ops without a handler. Without it such an op ends the stream with ErrUnknownOp, since messages
	// would be lost otherwise.
	Default StreamHandler
	// Decode specifies how values are decoded: a scheduler keeps them encoded (Keep).
	Decode wire.DecodeOptions
	// Batch, if not nil, is called after the messages that arrived together were handled.
	Batch func()
}

// ServeStream reads a stream and passes its messages to their handlers, until the comm or ctx ends or the peer sends
// close-stream. It then closes the comm. It returns nil if the peer ended the stream, cleanly or not: see Comm.Err.
//
// A message on the wire is a list of maps, or one map. As in Dask, the string "OK" in a list ends the list.
func ServeStream(ctx context.Context, c comm.Comm, cfg StreamConfig) error {
	err := serveStream(ctx, c, &cfg)
	if err != nil {
		c.Abort()
		return fmt.Errorf("rpc: stream with %s: %w", c.PeerAddr(), err)
	}
	return c.Close()
}

var errCloseStream = errors.New("close-stream")

func serveStream(ctx context.Context, c comm.Comm, cfg *StreamConfig) error {
	names := make(map[string]string, len(cfg.Handlers))
	for op := range cfg.Handlers {
		names[op] = op
	}
	known := func(op []byte) (string, bool) {
		name, ok := names[string(op)]
		return name, ok
	}
	in := NewReader(c, ReaderConfig{})
	err := in.Run(ctx, func(m *wire.Message) error {
		defer in.Release(m)
		err := eachMessage(m, known, func(b *Body) error {
			b.opts = cfg.Decode
			return cfg.handle(ctx, b)
		})
		if err != nil || cfg.Batch == nil {
			return err
		}
		return protect(func() error { cfg.Batch(); return nil })
	})
	if in.PeerClosed() || errors.Is(err, errCloseStream) {
		return nil
	}
	return err
}

func (cfg *StreamConfig) handle(ctx context.Context, b *Body) error {
	if b.Op == "close-stream" {
		return errCloseStream
	}
	h := cfg.Handlers[b.Op]
	if h == nil {
		h = cfg.Default
	}
	if h == nil {
		return fmt.Errorf("%w %q", ErrUnknownOp, b.Op)
	}
	if err := protect(func() error { return h(ctx, b) }); err != nil {
		return fmt.Errorf("%s: %w", b.Op, err)
	}
	return nil
}

// eachMessage iterates over the maps of one message of a stream. It uses one Body for all.
func eachMessage(m *wire.Message, known func([]byte) (string, bool), f func(*Body) error) error {
	body, err := message.Body(m)
	if err != nil {
		return err
	}
	r := msgpack.NewReader(body)
	n := 1
	if r.Kind() == msgpack.Array {
		if n, err = r.ReadArrayLen(); err != nil {
			return err
		}
	}
	for range n {
		raw, err := r.ReadRaw()
		if err != nil {
			return err
		}
		item := msgpack.NewReader(raw)
		if item.Kind() == msgpack.Str {
			if s, err := item.ReadStringBytes(); err != nil || string(s) != "OK" {
				return &ProtocolError{"a stream carries maps, not strings"}
			}
			return nil
		}
		b, err := parseBody(raw, m, known)
		if err != nil {
			return err
		}
		if err := f(&b); err != nil {
			return err
		}
	}
	return r.End()
}
