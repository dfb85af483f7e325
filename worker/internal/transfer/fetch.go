package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/internal/comm/peermem"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/record"
)

// Fetch is one transfer of results from a peer. It is owned by its goroutine until it is delivered.
type Fetch struct {
	Peer   string
	Keys   []task.Key
	Stored []state.Stored // the received results, in the order of Values
	Values []*task.Value
	Busy   bool // the peer rejected the request for now
	Device bool // most of it is in memory of this worker's GPU
	Err    error
	Took   record.Period
}

// ErrUnreadable is returned for replies that cannot be decoded: a retry would not help.
var ErrUnreadable = errors.New("unreadable reply")

// Start starts a transfer. Deliver receives the result.
func (m *Manager) Start(peer string, keys []task.Key) {
	f := &Fetch{Peer: peer, Keys: keys}
	m.w.Go(func() {
		f.Took.Start = time.Now().UnixNano()
		f.Err = m.fetch(m.w.Context, f)
		f.Took.Stop = time.Now().UnixNano()
		m.w.Room(f)
		m.w.Deliver(f)
	})
}

// busyPause is the delay before a busy peer is tried again, as in Dask.
const busyPause = 150 * time.Millisecond

// FetchOne fetches a result from the first of its holders that has it, and reports whether there is one.
func (m *Manager) FetchOne(ctx context.Context, key task.Key, holders []string) (*Fetch, bool) {
	for _, peer := range holders {
		for peer != m.address {
			f := &Fetch{Peer: peer, Keys: []task.Key{key}}
			err := m.fetch(ctx, f)
			if f.Busy {
				select {
				case <-time.After(busyPause):
					continue
				case <-ctx.Done():
					return nil, false
				}
			}
			if err == nil && len(f.Values) == 1 {
				return f, true
			}
			break
		}
	}
	return nil, false
}

// fetch requests results from a peer, over a data connection if there is one, and sets the fields of f to those of the
// keys that the peer has. Large results of a peer on this machine are read from its memory if possible.
func (m *Manager) fetch(ctx context.Context, f *Fetch) (err error) {
	r := Record{Peer: f.Peer, Incoming: true, Start: time.Now()}
	if found, err := m.readPublished(ctx, f, &r); found || err != nil {
		return err
	}
	// An idle connection may have ended unnoticed, and a data connection may fail: requests can be repeated safely. The
	// last attempt uses the control connection.
	for attempt := range 3 {
		var l link
		if l, err = m.connect(ctx, f.Peer, attempt < 2); err != nil {
			break
		}
		r.Scheme = l.scheme()
		memory := m.memory.Request(f.Peer, l.comm)
		var reply *wire.Message
		var lent peermem.Lent
		if reply, err = l.exchange(ctx, getDataRequest(f.Keys, m.address, memory)); err == nil {
			if lent, err = memory.Resolve(ctx, reply); errors.Is(err, peermem.ErrRead) {
				m.memory.Deny(f.Peer, err)
				m.log.Debug("cannot read the memory of a peer; using its connection", "peer", f.Peer, "error", err)
				reply.Release()
				l.release(l.comm.Write(ctx, okMessage))
				continue
			}
		}
		if err != nil {
			if reply != nil {
				reply.Release()
			}
			l.failed(err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		r.markArrived() // no task waits for the acknowledgement that follows
		f.Values, f.Stored, f.Busy, err = readData(reply, f.Keys)
		r.count(l.comm, reply)
		r.countLent(lent)
		f.Device = r.DeviceBytes > r.Bytes/2
		reply.Release()
		if err == nil && !f.Busy {
			err = l.comm.Write(ctx, okMessage)
		}
		l.release(err)
		break
	}
	if err != nil && f.Values != nil && !errors.Is(err, ErrUnreadable) {
		err = nil // only the acknowledgement failed
	}
	r.finish(f.Busy, err)
	r.Keys = len(f.Values)
	m.record(&r, err)
	return err
}

// readPublished copies results in GPU memory that the peer has published, and reports whether it did: the peer takes no
// part in it, and its processes need not wake up.
func (m *Manager) readPublished(ctx context.Context, f *Fetch, r *Record) (bool, error) {
	keys := make([][]byte, len(f.Keys))
	for i, k := range f.Keys {
		keys[i] = []byte(k)
	}
	got, err := m.memory.Read(ctx, f.Peer, keys)
	if got == nil {
		return false, err
	}
	r.markArrived()
	for i, s := range got.Values {
		v := task.NewEncoded(s)
		f.Values = append(f.Values, v)
		f.Stored = append(f.Stored, state.Stored{Key: f.Keys[i], NBytes: v.Size(), TypeName: v.Type()})
		r.Bytes += v.Size()
	}
	f.Device, r.DeviceBytes = true, got.Bytes
	r.Keys, r.Scheme, r.Transports = len(keys), got.Scheme, []string{peermem.DeviceTransport}
	r.finish(false, nil)
	m.record(r, nil)
	return true, nil
}

// okMessage is the acknowledgement of data: the string "OK".
var okMessage = &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte{0xa2, 'O', 'K'})}}

func getDataRequest(keys []task.Key, who string, memory *peermem.Request) *wire.Message {
	size := 192 + len(who)
	for _, k := range keys {
		size += len(k)
	}
	b := msgpack.AppendMapHeader(make([]byte, 0, size), 4+memory.Fields())
	b = msgpack.AppendString(msgpack.AppendString(b, "op"), "get_data")
	b = msgpack.AppendArrayHeader(msgpack.AppendString(b, "keys"), len(keys))
	for _, k := range keys {
		b = append(b, k...)
	}
	b = msgpack.AppendString(msgpack.AppendString(b, "who"), who)
	b = msgpack.AppendBool(msgpack.AppendString(b, "reply"), true)
	b = memory.Append(b)
	return &wire.Message{Frames: []wire.Frame{wire.HeapFrame(b)}}
}

// readData reads the reply to get_data. It skips keys that were not requested.
func readData(m *wire.Message, keys []task.Key) (values []*task.Value, stored []state.Stored, busy bool, err error) {
	values, stored, status, err := decodeData(m, keys)
	if err != nil {
		return nil, nil, false, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	switch status {
	case "OK":
		return values, stored, false, nil
	case "busy":
		return nil, nil, true, nil
	}
	// The handler of the peer has failed.
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err == nil {
		if err = rpc.ReplyError("get_data", "the peer", v); err == nil {
			err = fmt.Errorf("unexpected reply %.200q", fmt.Sprint(v))
		}
	}
	return nil, nil, false, fmt.Errorf("%w: %w", ErrUnreadable, err)
}

func decodeData(m *wire.Message, keys []task.Key) (values []*task.Value, stored []state.Stored, status string,
	err error) {
	if len(m.Frames) == 0 || m.Frames[0].OnDevice() {
		return nil, nil, "", errors.New("no body")
	}
	r := msgpack.NewReader(m.Body())
	if r.Kind() != msgpack.MapKind {
		return nil, nil, "", fmt.Errorf("expected a map, got %v", r.Kind())
	}
	fields, err := r.ReadMapLen()
	if err != nil {
		return nil, nil, "", err
	}
	for range fields {
		k, err := r.ReadName()
		if err != nil {
			return nil, nil, "", err
		}
		switch string(k) {
		case "status":
			status, err = r.ReadString()
		case "data":
			values, stored, err = ReadValues(m, &r, keys)
		default:
			err = r.Skip()
		}
		if err != nil {
			return nil, nil, "", fmt.Errorf("field %q: %w", k, err)
		}
	}
	return values, stored, status, nil
}
