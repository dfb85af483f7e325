package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// stream is the comm on which client and scheduler tell each other what happens.
type stream struct {
	comm     comm.Comm
	identity schedulerID
}

// register makes the stream.
func (c *Client) register(ctx context.Context) (*stream, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	s, err := c.begin(ctx, conn)
	if err != nil {
		conn.Abort()
		return nil, err
	}
	return s, nil
}

func (c *Client) begin(ctx context.Context, conn comm.Comm) (*stream, error) {
	hello := wire.NewDict("client", c.id, "versions", wire.NewDict("packages", wire.Dict{}))
	if conn.Info().Millstream != nil { // Dask's scheduler takes no other arguments
		hello.Set("millstream", wire.NewDict("registry", c.registry(), "functions", task.Names(), "signatures",
			task.Signatures(), "build", task.BuildText()))
	}
	if err := rpc.Notify(ctx, conn, "register-client", hello); err != nil {
		return nil, err
	}
	m, err := conn.Read(ctx)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		return nil, err
	}
	start, ok := v.(wire.Dict)
	if l, is := v.([]any); is && len(l) > 0 {
		start, ok = l[0].(wire.Dict)
	}
	if !ok || start.GetString("op") != "stream-start" {
		if err := rpc.ReplyError("register-client", c.address, v); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("this is no Dask scheduler: it answered %.100v to register-client", v)
	}
	if text := start.GetString("error"); text != "" {
		return nil, fmt.Errorf("the scheduler refuses the client: %s", text)
	}
	s := &stream{comm: conn}
	if v, ok := start.Get("millstream"); ok {
		if d, ok := v.(wire.Dict); ok {
			s.identity.id = d.GetString("id")
			if e, ok := d.Get("epoch"); ok {
				s.identity.epoch, _ = e.(int64)
			}
		}
	}
	if text := start.GetString("warning"); text != "" {
		level := slog.LevelWarn
		if s.identity.dask() {
			level = slog.LevelDebug // it misses the Python packages of a client that has no Python
		}
		c.log.Log(ctx, level, "scheduler", "warning", text)
	}
	return s, nil
}

// run keeps the stream until the client ends.
func (c *Client) run(s *stream) {
	defer close(c.done)
	for s != nil {
		unsent, err := c.serve(s)
		if c.ctx.Err() != nil || c.Err() != nil {
			_ = s.comm.Close() // what was said before still goes out
			break
		}
		s.comm.Abort()
		c.log.Warn("scheduler lost", "scheduler", c.address, "error", err)
		s = c.reconnect(unsent, err)
	}
	c.cancel(ErrClosed)
	c.fail(ErrClosed)
}

// serve reads and writes until the comm ends.
func (c *Client) serve(s *stream) (unsent []outItem, err error) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	read := make(chan error, 1)
	go func() {
		err := c.read(ctx, s)
		cancel(err)
		read <- err
	}()
	beatDone := make(chan struct{})
	go func() {
		defer close(beatDone)
		c.beat(ctx)
	}()
	unsent, werr := c.write(ctx, s)
	cancel(werr)
	err = <-read
	<-beatDone
	if err == nil || errors.Is(err, context.Canceled) {
		err = werr
	}
	return unsent, err
}

// beat says that the client lives.
func (c *Client) beat(ctx context.Context) {
	t := time.NewTicker(c.cfg.Heartbeat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			c.mu.Lock()
			c.say(opMessage("heartbeat-client"))
			c.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// opMessage is an op without arguments.
func opMessage(op string) msgpack.Raw {
	return appendField(msgpack.AppendMapHeader(nil, 1), "op", op)
}

// read takes what the scheduler says until the comm ends.
func (c *Client) read(ctx context.Context, s *stream) error {
	for {
		m, err := s.comm.Read(ctx)
		if err != nil {
			return err
		}
		err = c.heard(m)
		m.Release()
		if err != nil {
			return err
		}
	}
}

var errStreamClosed = errors.New("the scheduler closed the stream")

// heard applies a message: a list of maps.
func (c *Client) heard(m *wire.Message) error {
	if len(m.Frames) == 0 || m.Frames[0].OnDevice() {
		return fmt.Errorf("client: a message without a body")
	}
	var later []func()
	defer func() {
		for _, f := range later {
			f()
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	ops := wire.ReadOps(m.Body())
	for ops.Next() {
		raw, err := ops.Raw()
		if err != nil {
			return err
		}
		switch string(ops.Op()) {
		case "key-in-memory":
			err = c.inMemory(raw)
		case "task-erred":
			err = c.taskErred(m, raw)
		case "lost-data":
			err = c.eachKey(raw, "key", func(ks *keyState) {
				if ks.status == Finished {
					ks.status, ks.where = Lost, -1
				}
			})
		case "task-retried":
			err = c.eachKey(raw, "key", func(ks *keyState) {
				ks.status, ks.err, ks.where = Pending, nil, -1
				ks.retried++
			})
		case "cancelled-keys":
			err = c.keysCancelled(m, raw)
		case "restart":
			for _, ks := range c.keys {
				c.cancelKey(ks, "", "the cluster was restarted")
			}
		case "millstream-unrunnable":
			var f func()
			if f, err = c.unrunnable(m, raw); f != nil {
				later = append(later, f)
			}
		case "event":
			var f func()
			if f, err = c.event(m, raw); f != nil {
				later = append(later, f)
			}
		case "error", "stream-closed", "close":
			return errStreamClosed
		}
		if err != nil {
			return err
		}
	}
	return ops.Err()
}

// inMemory reads key-in-memory, of which there is one for each task.
func (c *Client) inMemory(raw []byte) error {
	r := msgpack.NewReader(raw)
	n, err := r.ReadMapLen()
	if err != nil {
		return err
	}
	var ks *keyState
	where := int32(-1)
	for range n {
		name, err := r.ReadName()
		if err != nil {
			return err
		}
		switch string(name) {
		case "key":
			var k []byte
			if k, err = r.ReadKey(nil); err == nil {
				ks = c.keys[task.Key(k)]
			}
		case "workers":
			where, err = c.firstAddress(&r)
		default:
			err = r.Skip()
		}
		if err != nil {
			return err
		}
	}
	if ks == nil {
		return nil
	}
	ks.where = where
	if ks.status != Finished {
		c.settle(ks, Finished, nil)
	}
	return nil
}

// firstAddress reads a list of addresses and numbers the first.
func (c *Client) firstAddress(r *msgpack.Reader) (int32, error) {
	if r.Kind() != msgpack.Array {
		return -1, r.Skip()
	}
	n, err := r.ReadArrayLen()
	if err != nil {
		return -1, err
	}
	at := int32(-1)
	for i := range n {
		b, err := r.ReadStringBytes()
		if err != nil {
			return -1, err
		}
		if i == 0 {
			at = c.addressIndex(b)
		}
	}
	return at, nil
}

// addressIndex numbers an address. The caller holds mu.
func (c *Client) addressIndex(b []byte) int32 {
	if i, ok := c.addressAt[string(b)]; ok {
		return i
	}
	i := int32(len(c.addresses))
	c.addresses = append(c.addresses, string(b))
	c.addressAt[string(b)] = i
	return i
}

// eachKey calls f for a key of a message, or for each of a list of keys.
func (c *Client) eachKey(raw []byte, field string, f func(*keyState)) error {
	r := msgpack.NewReader(raw)
	n, err := r.ReadMapLen()
	if err != nil {
		return err
	}
	for range n {
		name, err := r.ReadName()
		if err != nil {
			return err
		}
		if string(name) != field {
			if err := r.Skip(); err != nil {
				return err
			}
			continue
		}
		if field == "keys" {
			list, err := r.ReadRaw()
			if err != nil {
				return err
			}
			return wire.EachKey(list, func(k []byte) error {
				if ks := c.keys[task.Key(k)]; ks != nil {
					f(ks)
				}
				return nil
			})
		}
		k, err := r.ReadKey(nil)
		if err != nil {
			return err
		}
		if ks := c.keys[task.Key(k)]; ks != nil {
			f(ks)
		}
	}
	return nil
}

// message decodes one map of a message with the frames that it refers to.
func message(m *wire.Message, raw []byte) (wire.Dict, error) {
	frames := make([]wire.Frame, len(m.Frames))
	copy(frames, m.Frames)
	frames[0] = wire.HeapFrame(raw)
	v, err := wire.Decode(&wire.Message{Frames: frames}, wire.DecodeOptions{})
	if err != nil {
		return nil, err
	}
	d, ok := v.(wire.Dict)
	if !ok {
		return nil, fmt.Errorf("client: a message is no map")
	}
	return d, nil
}

func (c *Client) taskErred(m *wire.Message, raw []byte) error {
	var held *keyState
	if err := c.eachKey(raw, "key", func(ks *keyState) { held = ks }); err != nil || held == nil {
		return err
	}
	d, err := message(m, raw)
	if err != nil {
		return err
	}
	exc, _ := d.Get("exception")
	trace, _ := d.Get("traceback")
	if text := d.GetString("traceback_text"); text != "" {
		trace = text
	}
	c.settle(held, Failed, newTaskError(held.key, wire.Clone(exc), wire.Clone(trace)))
	return nil
}

func (c *Client) keysCancelled(m *wire.Message, raw []byte) error {
	d, err := message(m, raw)
	if err != nil {
		return err
	}
	reason, text := d.GetString("reason"), d.GetString("msg")
	return c.eachKey(raw, "keys", func(ks *keyState) {
		if !c.stale(ks, reason, text) {
			c.cancelKey(ks, reason, text)
		}
	})
}

// cancelKey ends a key that the scheduler will not compute. The caller holds mu.
func (c *Client) cancelKey(ks *keyState, reason, text string) {
	if ks.status == Canceled {
		return
	}
	cause := ErrCanceled
	if ks.status == Lost {
		cause = ErrLostData
	}
	c.settle(ks, Canceled, &cancelledError{key: ks.key, reason: reason, text: text, cause: cause})
}
