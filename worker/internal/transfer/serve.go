package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/peermem"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// GetData handles get_data: it replies {status, data}, which the peer acknowledges with "OK". Missing results are left
// out. If too many transfers are in progress, the reply is that the worker is busy, and the peer retries.
func (m *Manager) GetData(ctx context.Context, r *rpc.Request) (any, error) {
	limit := int64(m.cfg.Outgoing)
	if r.Comm.Info().SameHost {
		limit *= 2
	}
	if m.w.Paused() {
		limit = 1
	}
	if m.outgoing.Add(1) > limit {
		m.outgoing.Add(-1)
		return msgpack.MapOf("status", "busy"), nil
	}
	defer m.outgoing.Add(-1)
	m.outgoingTotal.Add(1)

	raw, ok := r.Field("keys")
	if !ok {
		return nil, &rpc.ArgumentError{Op: r.Op, Name: "keys", Reason: "missing"}
	}
	note := Record{Start: time.Now()}
	note.Scheme, _ = commaddr.Parse(r.Comm.PeerAddr())
	var who string
	if _, err := r.Arg("who", &who); err != nil || who == "" {
		who = r.Comm.PeerAddr()
	}
	note.Peer = who
	var held []*store.Entry
	defer func() { m.data.ReleaseAll(held) }()
	if err := message.EachKey(raw, func(k []byte) error {
		if e := m.data.Hold(task.Key(k)); e != nil {
			held = append(held, e)
		}
		return nil
	}); err != nil {
		return nil, &rpc.ArgumentError{Op: r.Op, Name: "keys", Reason: err.Error()}
	}
	held = m.w.Encode(m.openAll(held))
	reply, nbytes, err := m.dataMessage(held)
	if err != nil {
		return nil, err
	}
	defer reply.Release()
	loan, err := m.lend(ctx, r, reply)
	if err != nil {
		return nil, err
	}
	defer loan.Return() // before the results are released
	m.outgoingBytes.Add(nbytes)
	m.outgoingBytesTotal.Add(nbytes)
	defer m.outgoingBytes.Add(-nbytes)
	sending, cancel := context.WithTimeoutCause(ctx, m.ackTime(nbytes), errNoAck)
	err = sendAndAwaitAck(sending, r.Comm, reply)
	cancel()
	loan.Return()
	dropCopies(held)
	note.Keys = len(held)
	note.count(r.Comm, reply)
	note.Bytes += loan.Bytes().Total()
	note.DeviceBytes += loan.Bytes().Device
	note.countLent(loan.Bytes())
	note.finish(false, err)
	m.record(&note, err)
	return rpc.NoReply, m.finishServing(r, who, len(held), nbytes, err)
}

// lend lends large frames and frames in GPU memory of a reply to a peer that requests it. It returns nil if all frames
// are sent.
func (m *Manager) lend(ctx context.Context, r *rpc.Request, reply *wire.Message) (*peermem.Loan, error) {
	raw, ok := r.Field(peermem.Field)
	if !ok || m.cfg.Listen == "" {
		return nil, nil
	}
	var device msgpack.Raw
	if !m.cfg.NoCUDAIPC {
		device, _ = r.Field(peermem.DeviceField)
	}
	loan, err := peermem.Lend(ctx, m.cfg.Table, raw, device, reply)
	if err != nil {
		return nil, &rpc.ArgumentError{Op: r.Op, Name: peermem.Field, Reason: err.Error()}
	}
	return loan, nil
}

// finishServing handles the result of a transfer to a peer.
func (m *Manager) finishServing(r *rpc.Request, who string, keys int, nbytes int64, err error) error {
	switch {
	case err == nil:
	case errors.Is(err, errNoAck):
		// The peer occupies one of the slots of Outgoing, which others need.
		r.Comm.Abort()
		m.log.Warn("peer did not acknowledge data; connection closed", "peer", who, "address", r.Comm.PeerAddr(),
			"keys", keys,
			"bytes", nbytes, "after", m.ackTime(nbytes))
	case errors.Is(err, comm.ErrClosed):
		// The peer disconnected, with the data or without; it retries if it still needs data.
		m.log.Debug("peer closed the connection before it acknowledged data", "peer", who, "error", err)
	default:
		r.Comm.Abort() // the peer may have read a part of the reply
		return fmt.Errorf("worker: data for %s: %w", who, err)
	}
	return nil
}

// openAll reads spilled results, and leaves out those that cannot be read: they are lost.
func (m *Manager) openAll(held []*store.Entry) []*store.Entry {
	return slices.DeleteFunc(held, func(e *store.Entry) bool {
		_, err := e.Open()
		if err != nil {
			m.data.Release(e)
			m.w.Lost(e.Key(), err)
		}
		return err != nil
	})
}

// dropCopies drops the frames that were made for a peer from values that are held outside of the process.
func dropCopies(held []*store.Entry) {
	for _, e := range held {
		if v, err := e.Open(); err == nil && v.Remote() != nil {
			v.DropEncoded()
		}
	}
}

var errNoAck = errors.New("worker: peer did not acknowledge data in time")

// slowestPeer is the minimum rate at which a peer must receive data, in bytes per second.
const slowestPeer = 1 << 20

// ackTime returns how long sending nbytes and the acknowledgement may take.
func (m *Manager) ackTime(nbytes int64) time.Duration {
	return m.cfg.AckTimeout + time.Duration(float64(nbytes)/slowestPeer*float64(time.Second))
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
	return fmt.Errorf("peer replied %.40q instead of OK", reply.Body())
}

// dataMessage returns the reply to get_data: small values in the body, others in frames.
func (m *Manager) dataMessage(held []*store.Entry) (reply *wire.Message, nbytes int64, err error) {
	b := msgpack.AppendMapHeader(make([]byte, 0, 64+32*len(held)), 2)
	b = msgpack.AppendString(msgpack.AppendString(b, "status"), "OK")
	b = msgpack.AppendMapHeader(msgpack.AppendString(b, "data"), len(held))
	reply = &wire.Message{Frames: make([]wire.Frame, 1, 1+2*len(held))}
	defer func() {
		if err != nil {
			reply.Release()
		}
	}()
	for _, e := range held {
		nbytes += e.NBytes()
		b = append(b, e.Key()...)
		if m.w.IsActor(e.Key()) {
			s, err := errorValue(e.Key(), errActor)
			if err != nil {
				return nil, 0, err
			}
			b = appendSerialized(b, reply, s)
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
			// Only a task that opens this value shall fail, not all that are in the same request.
			if s, err = errorValue(e.Key(), err); err != nil {
				return nil, 0, err
			}
		}
		b = appendSerialized(b, reply, s)
		s.Release()
	}
	reply.Frames[0] = wire.HeapFrame(b)
	return reply, nbytes, nil
}

var errActor = errors.New("result is an actor, which cannot be moved; call its methods")

// appendSerialized adds the frames of a value to a message and appends its marker.
func appendSerialized(b []byte, m *wire.Message, s *wire.Serialized) []byte {
	b = msgpack.AppendMarker(b, msgpack.Serialized)
	b = msgpack.AppendInt(b, int64(len(m.Frames)))
	m.Frames = append(m.Frames, wire.HeapFrame(s.Header))
	for _, f := range s.Frames {
		m.Frames = append(m.Frames, f.Retain())
	}
	return b
}

// errorValue returns the replacement of a value that cannot be encoded: Dask's family "error", which raises an error
// when it is opened.
func errorValue(key task.Key, cause error) (*wire.Serialized, error) {
	header, err := msgpack.Append(nil, msgpack.MapOf("serializer", "error", "compression", []any{nil, nil},
		"num-sub-frames", 2))
	if err != nil {
		return nil, err
	}
	return &wire.Serialized{Header: header, Frames: []wire.Frame{
		wire.HeapFrame(fmt.Appendf(nil, "the result of %v cannot leave its worker", key)),
		wire.HeapFrame([]byte(cause.Error())),
	}}, nil
}
