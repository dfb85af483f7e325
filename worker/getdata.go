package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// getData serves results: {status, data}, after which the peer thanks with a bare "OK". What
// is not here is left out. A peer that comes when too many are served already is told that
// the worker is busy, and comes again.
func (w *Worker) getData(ctx context.Context, r *rpc.Request) (any, error) {
	limit := int64(w.cfg.Outgoing)
	if r.Comm.Info().SameHost {
		limit *= 2
	}
	if w.Status() == statusPaused {
		limit = 1
	}
	if w.net.outgoing.Add(1) > limit {
		w.net.outgoing.Add(-1)
		return msgpack.MapOf("status", "busy"), nil
	}
	defer w.net.outgoing.Add(-1)
	w.net.outgoingTotal.Add(1)

	raw, ok := r.Field("keys")
	if !ok {
		return nil, &rpc.ArgumentError{Op: r.Op, Name: "keys", Reason: "missing"}
	}
	record := Transfer{Start: time.Now()}
	record.Lane, _ = comm.ParseAddress(r.Comm.PeerAddr())
	var who string
	if _, err := r.Arg("who", &who); err != nil || who == "" {
		who = r.Comm.PeerAddr()
	}
	record.Peer = who
	var held []*store.Entry
	defer func() { w.data.ReleaseAll(held) }()
	if err := wire.EachKey(raw, func(k []byte) error {
		if e := w.data.Hold(task.Key(k)); e != nil {
			held = append(held, e)
		}
		return nil
	}); err != nil {
		return nil, &rpc.ArgumentError{Op: r.Op, Name: "keys", Reason: err.Error()}
	}
	held = w.brought(w.opened(held))
	m, nbytes, err := w.dataMessage(held)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	w.net.outgoingBytes.Add(nbytes)
	w.net.outgoingBytesTotal.Add(nbytes)
	defer w.net.outgoingBytes.Add(-nbytes)
	sending, cancel := context.WithTimeoutCause(ctx, w.ackTime(nbytes), errNoAck)
	err = sendAndAwaitAck(sending, r.Comm, m)
	cancel()
	dropCopies(held)
	record.Keys = len(held)
	record.count(r.Comm, m)
	record.end(false, err)
	w.transferred(&record)
	switch {
	case err == nil:
	case errors.Is(err, errNoAck):
		// It holds one of the places of Outgoing, which others need.
		r.Comm.Abort()
		w.log.Warn("peer did not acknowledge data; connection closed", "peer", who, "address", r.Comm.PeerAddr(), "keys", len(held), "bytes", nbytes, "after", w.ackTime(nbytes))
		return rpc.NoReply, nil
	case errors.Is(err, comm.ErrClosed):
		// It went away, with the data or without; if it still wants any, it asks again.
		w.log.Debug("a peer went away before it thanked for data", "peer", who, "error", err)
	default:
		r.Comm.Abort() // the peer may be in the middle of the answer
		return rpc.NoReply, fmt.Errorf("worker: data for %s: %w", who, err)
	}
	return rpc.NoReply, nil
}

// opened reads what is on disk, and leaves out what cannot be read: it is lost.
func (w *Worker) opened(held []*store.Entry) []*store.Entry {
	return slices.DeleteFunc(held, func(e *store.Entry) bool {
		_, err := e.Open()
		if err != nil {
			w.data.Release(e)
			w.do(func() { w.dataLost(e.Key(), err) })
		}
		return err != nil
	})
}

var errNoAck = errors.New("worker: peer did not acknowledge data in time")

// slowestPeer is the least rate at which a peer may take data, in bytes per second.
const slowestPeer = 1 << 20

// ackTime is how long sending so many bytes and the acknowledgement may take.
func (w *Worker) ackTime(nbytes int64) time.Duration {
	return w.cfg.AckTimeout + time.Duration(float64(nbytes)/slowestPeer*float64(time.Second))
}

// sendAndAwaitAck sends the reply and waits for the acknowledgement.
func sendAndAwaitAck(ctx context.Context, c comm.Comm, m *wire.Message) error {
	late := func(err error) error {
		if cause := context.Cause(ctx); errors.Is(cause, errNoAck) {
			return cause
		}
		return err
	}
	if err := c.Write(ctx, m); err != nil {
		return late(err)
	}
	reply, err := c.Read(ctx)
	if err != nil {
		return late(err)
	}
	defer reply.Release()
	if r := msgpack.NewReader(reply.Body()); r.Kind() == msgpack.Str {
		if s, err := r.ReadStringBytes(); err == nil && string(s) == "OK" {
			return nil
		}
	}
	return fmt.Errorf("the peer answered %.40q instead of OK", reply.Body())
}

// dataMessage makes the answer to get_data: small values in the body, others in frames.
func (w *Worker) dataMessage(held []*store.Entry) (m *wire.Message, nbytes int64, err error) {
	b := msgpack.AppendMapHeader(make([]byte, 0, 64+32*len(held)), 2)
	b = msgpack.AppendString(msgpack.AppendString(b, "status"), "OK")
	b = msgpack.AppendMapHeader(msgpack.AppendString(b, "data"), len(held))
	m = &wire.Message{Frames: make([]wire.Frame, 1, 1+2*len(held))}
	defer func() {
		if err != nil {
			m.Release()
		}
	}()
	for _, e := range held {
		nbytes += e.NBytes()
		b = append(b, e.Key()...)
		if _, ok := w.actorKeys.Load(e.Key()); ok {
			s, err := errorValue(e.Key(), errActor)
			if err != nil {
				return nil, 0, err
			}
			b = appendSerialized(b, m, s)
			continue
		}
		v, err := e.Open()
		if err != nil {
			return nil, 0, err
		}
		var plain bool
		if b, plain = v.AppendBody(b); plain {
			continue
		}
		s, err := v.Retained()
		if err != nil {
			// Only who opens this value is to fail, not all who asked with it.
			if s, err = errorValue(e.Key(), err); err != nil {
				return nil, 0, err
			}
		}
		b = appendSerialized(b, m, s)
		s.Release()
	}
	m.Frames[0] = wire.HeapFrame(b)
	return m, nbytes, nil
}

var errActor = errors.New("it is an actor, which stays where it is: call its methods")

// appendSerialized adds the frames of a value to a message and appends its marker.
func appendSerialized(b []byte, m *wire.Message, s *wire.Serialized) []byte {
	b = msgpack.AppendMapHeader(b, 1)
	b = msgpack.AppendString(b, "__Serialized__")
	b = msgpack.AppendInt(b, int64(len(m.Frames)))
	m.Frames = append(m.Frames, wire.HeapFrame(s.Header))
	for _, f := range s.Frames {
		m.Frames = append(m.Frames, f.Retain())
	}
	return b
}

// errorValue stands for a value that has no form outside of its process: Dask's family
// "error", which whoever opens it gets as an error.
func errorValue(key task.Key, cause error) (*wire.Serialized, error) {
	header, err := msgpack.Append(nil, msgpack.MapOf("serializer", "error", "compression", []any{nil, nil}, "num-sub-frames", 2))
	if err != nil {
		return nil, err
	}
	return &wire.Serialized{Header: header, Frames: []wire.Frame{
		wire.HeapFrame(fmt.Appendf(nil, "the result of %v cannot leave its worker", key)),
		wire.HeapFrame([]byte(cause.Error())),
	}}, nil
}
