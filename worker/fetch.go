package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/record"
)

// fetch is one transfer of results from a peer. It belongs to its goroutine until it is
// posted.
type fetch struct {
	peer   string
	keys   []task.Key
	stored []state.Stored
	values []*task.Value
	busy   bool
	device bool // most of it came into memory of this worker's GPU
	err    error
	took   record.Period
}

// errUnreadable is found in the errors of answers that arrived but are no data: asking
// again would not help.
var errUnreadable = errors.New("the answer cannot be read")

// gather starts the transfer that an action asks for. The caller holds the turn.
func (w *Worker) gather(a *state.Action) {
	f := &fetch{peer: a.Peer.Address(), keys: make([]task.Key, len(a.Tasks))}
	for i, t := range a.Tasks {
		f.keys[i] = t.Key()
	}
	w.net.incoming.Add(1)
	w.net.incomingTotal.Add(1)
	w.net.incomingBytes.Add(a.NBytes)
	bytes := a.NBytes
	w.tasks.Go(func() {
		f.took.Start = time.Now().UnixNano()
		f.err = w.fetchFrom(w.ctx, f)
		f.took.Stop = time.Now().UnixNano()
		for i, v := range f.values {
			_ = w.data.MakeRoomFor(w.ctx, v, f.stored[i].NBytes) // it ends only with the worker
		}
		if err := w.makeRoom(w.ctx, f.values, f.stored); err != nil && w.ctx.Err() == nil {
			// It is here and tasks wait for it: better too much memory than none of them.
			w.log.Warn("no room for data of a peer", "peer", f.peer, "error", err)
		}
		w.net.incoming.Add(-1)
		w.net.incomingBytes.Add(-bytes)
		w.post(item{fetch: f})
	})
}

// makeRoom waits until values fit into the host's memory, as far as that is where they are.
func (w *Worker) makeRoom(ctx context.Context, values []*task.Value, stored []state.Stored) error {
	if w.cfg.MemoryLimit <= 0 {
		return nil
	}
	var sum int64
	for i, v := range values {
		if !w.onDevice(v) {
			sum += stored[i].NBytes
		}
	}
	return w.data.MakeRoom(ctx, sum)
}

// onDevice tells whether a value is in the memory of the worker's GPU, which has a limit of its own.
func (w *Worker) onDevice(v *task.Value) bool {
	return w.cfg.Device != nil && w.cfg.Device.Tier.OnDevice(v) > 0
}

// fetchEnded tells the state how a transfer ended. The caller holds the turn.
func (w *Worker) fetchEnded(f *fetch) {
	switch {
	case f.err == nil && f.busy:
		w.apply(&state.GatherBusy{Stimulus: w.stimulus, Peer: f.peer})
	case f.err == nil:
		for i, v := range f.values {
			w.data.Put(f.stored[i].Key, v, f.stored[i].NBytes)
		}
		w.arrived.Add(f.stored, f.took)
		w.apply(&state.GatherSuccess{Stimulus: w.stimulus, Peer: f.peer, Data: f.stored, Device: f.device})
	case errors.Is(f.err, errUnreadable):
		w.apply(&state.GatherFailure{Stimulus: w.stimulus, Peer: f.peer, Failure: failure(f.err)})
	default:
		w.log.Info("a peer does not answer", "peer", f.peer, "error", f.err)
		w.apply(&state.GatherNetworkFailure{Stimulus: w.stimulus, Peer: f.peer})
	}
}

// fetchFrom asks a peer for results, over a lane if there is one, and fills f with those that the
// peer has of the keys.
func (w *Worker) fetchFrom(ctx context.Context, f *fetch) (err error) {
	request := getDataRequest(f.keys, w.address)
	record := Transfer{Peer: f.peer, Incoming: true, Start: time.Now()}
	// A connection that was kept may have ended unnoticed, and a lane may fail: asking again
	// does no harm. The last attempt is on the control connection.
	for attempt := range 3 {
		var l link
		if l, err = w.connectPeer(ctx, f.peer, attempt < 2); err != nil {
			break
		}
		record.Lane = l.lane()
		var m *wire.Message
		if m, err = l.ask(ctx, request); err != nil {
			l.failed(err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		record.arrived() // what follows is the thanks, and takes nobody's time
		f.values, f.stored, f.busy, err = readData(m, f.keys)
		record.count(l.comm, m)
		f.device = record.DeviceBytes > record.Bytes/2
		m.Release()
		if err == nil && !f.busy {
			err = l.comm.Write(ctx, okMessage)
		}
		l.release(err)
		break
	}
	if err != nil && f.values != nil && !errors.Is(err, errUnreadable) {
		err = nil // all has arrived; only the thanks got lost
	}
	record.end(f.busy, err)
	record.Keys = len(f.values)
	w.transferred(&record)
	return err
}

// arrived notes that the data is here.
func (t *Transfer) arrived() { t.Took = time.Since(t.Start) }

func (t *Transfer) end(busy bool, err error) {
	if t.Took == 0 {
		t.arrived()
	}
	t.Duration = t.Took.Seconds()
	if busy {
		t.Error = "busy"
	}
	if err != nil {
		t.Error = err.Error()
	}
}

// okMessage is the thanks for data: the bare string "OK".
var okMessage = &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte{0xa2, 'O', 'K'})}}

func getDataRequest(keys []task.Key, who string) *wire.Message {
	size := 64 + len(who)
	for _, k := range keys {
		size += len(k)
	}
	b := msgpack.AppendMapHeader(make([]byte, 0, size), 4)
	b = msgpack.AppendString(msgpack.AppendString(b, "op"), "get_data")
	b = msgpack.AppendArrayHeader(msgpack.AppendString(b, "keys"), len(keys))
	for _, k := range keys {
		b = append(b, k...)
	}
	b = msgpack.AppendString(msgpack.AppendString(b, "who"), who)
	b = msgpack.AppendBool(msgpack.AppendString(b, "reply"), true)
	return &wire.Message{Frames: []wire.Frame{wire.HeapFrame(b)}}
}

// readData reads the answer to get_data. Keys that nobody asked for are passed over.
func readData(m *wire.Message, keys []task.Key) (values []*task.Value, stored []state.Stored, busy bool, err error) {
	values, stored, status, err := walkData(m, keys)
	if err != nil {
		return nil, nil, false, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	switch status {
	case "OK":
		return values, stored, false, nil
	case "busy":
		return nil, nil, true, nil
	}
	// An error of the peer's handler.
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err == nil {
		err = replyError(v)
	}
	return nil, nil, false, fmt.Errorf("%w: %w", errUnreadable, err)
}

func walkData(m *wire.Message, keys []task.Key) (values []*task.Value, stored []state.Stored, status string, err error) {
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
			values, stored, err = readValues(m, &r, keys)
		default:
			err = r.Skip()
		}
		if err != nil {
			return nil, nil, "", fmt.Errorf("field %q: %w", k, err)
		}
	}
	return values, stored, status, nil
}

// readValues reads a map of keys to values: of those that are wanted, all if that is nil.
func readValues(m *wire.Message, r *msgpack.Reader, wanted []task.Key) ([]*task.Value, []state.Stored, error) {
	n, err := r.ReadMapLen()
	if err != nil {
		return nil, nil, err
	}
	var set map[string]bool
	if wanted != nil {
		set = make(map[string]bool, len(wanted))
		for _, k := range wanted {
			set[string(k)] = true
		}
	}
	values, stored := make([]*task.Value, 0, n), make([]state.Stored, 0, n)
	for range n {
		k, err := r.ReadKey(nil)
		if err != nil {
			return nil, nil, err
		}
		key := task.Key(k)
		raw, err := r.ReadRaw()
		if err != nil {
			return nil, nil, err
		}
		if wanted != nil && !set[string(key)] {
			continue
		}
		v, err := readValue(m, raw)
		if err != nil {
			return nil, nil, fmt.Errorf("the value of %v: %w", key, err)
		}
		if wanted != nil {
			delete(set, string(key)) // of two values for a key the first counts
		}
		values = append(values, v)
		stored = append(stored, state.Stored{Key: key, NBytes: v.Size(), TypeName: v.Type()})
	}
	return values, stored, nil
}

// readValue makes the value of one field of a message: closed if it came in frames.
func readValue(m *wire.Message, raw []byte) (*task.Value, error) {
	r := msgpack.NewReader(raw)
	if k := r.Kind(); k != msgpack.MapKind && k != msgpack.Array {
		x, err := msgpack.Decode(raw)
		return task.NewValue(x), err
	}
	x, err := wire.DecodeRef(m, wire.Ref{Raw: raw}, wire.DecodeOptions{Keep: true})
	if err != nil {
		return nil, err
	}
	if s, ok := x.(*wire.Serialized); ok {
		return task.NewEncoded(s.Retain()), nil
	}
	return task.NewValue(wire.Clone(x)), nil
}

// link is a connection to a peer for one question, out of one of the pools.
type link struct {
	comm    comm.Comm
	release func(err error) // gives the connection back, or ends it
	failed  func(err error) // tells that the connection was no good
}

func (l link) lane() string {
	scheme, _ := comm.ParseAddress(l.comm.PeerAddr())
	return scheme
}

func (l link) ask(ctx context.Context, request *wire.Message) (*wire.Message, error) {
	if err := l.comm.Write(ctx, request); err != nil {
		return nil, err
	}
	if c, ok := l.comm.(interface {
		ReadSoon(context.Context) (*wire.Message, error)
	}); ok {
		return c.ReadSoon(ctx) // waking up costs more than a peer needs to answer
	}
	return l.comm.Read(ctx)
}
