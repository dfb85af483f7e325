package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/journal"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// Kinds of records. What tasks have become is not recorded: workers say so themselves when
// they come back.
const (
	recordClient     journal.Kind = 1 // a client that has registered: its name
	recordClientGone journal.Kind = 2
	recordDesire     journal.Kind = 3 // name and keys
	recordRelease    journal.Kind = 4
	recordGraph      journal.Kind = 5 // see recordGraph
	recordWorker     journal.Kind = 6 // the address of one that is there
	recordWorkerGone journal.Kind = 7
	recordOp         journal.Kind = 8 // a change of a primitive, as the request that makes it
	recordData       journal.Kind = 9 // a client and keys of data from outside that workers hold for it

	recordPart    journal.Kind = 10 // a part of a record that is larger than the journal's limit
	recordPartEnd journal.Kind = 11 // the kind of the record that the parts before it are, one byte
)

// recording tells whether what happens is to be remembered: not what is being remembered,
// nor what happens because the scheduler itself ends.
func (s *Scheduler) recording() bool {
	return s.journal != nil && !s.recovery.replaying && !s.ending
}

// record appends a record of a name and keys. It runs in the loop.
func (s *Scheduler) record(kind journal.Kind, name string, keys []task.Key) {
	if !s.recording() {
		return
	}
	s.scratch.record = appendNameRecord(s.scratch.record[:0], name, keys)
	s.append(kind, s.scratch.record)
}

func appendNameRecord(b []byte, name string, keys []task.Key) []byte {
	b = msgpack.AppendArrayHeader(b, 2)
	b = msgpack.AppendString(b, name)
	return appendKeys(b, keys)
}

func (s *Scheduler) recordWorker(address string, there bool) {
	kind := recordWorkerGone
	if there {
		kind = recordWorker
	}
	s.record(kind, address, nil)
}

// append adds a record; what is said to clients from now on waits for it.
func (s *Scheduler) append(kind journal.Kind, parts ...[]byte) {
	err := splitRecord(s.journal.MaxRecord(), kind, parts, func(kind journal.Kind, parts ...[]byte) error {
		t, err := s.journal.Append(kind, parts...)
		if err == nil {
			s.position = uint64(t)
		}
		return err
	})
	if err != nil {
		s.journalFailed(err)
	}
}

// journalFailed ends the scheduler: it can keep no promise any more.
func (s *Scheduler) journalFailed(err error) {
	err = fmt.Errorf("scheduler %s: the journal in %s cannot be written (is the disk full?): %w", s.id, s.cfg.Journal, err)
	s.log.Error("the journal has failed; the scheduler ends", "error", err)
	s.setErr(err)
	go func() { _ = s.Close(context.Background()) }()
}

// commit waits until the journal is on disk up to a position. Any goroutine calls it.
func (s *Scheduler) commit(ctx context.Context, position uint64) error {
	err := s.journal.Wait(ctx, journal.Ticket(position))
	if err != nil && !errors.Is(err, journal.ErrClosed) && ctx.Err() == nil {
		s.journalFailed(err)
	}
	return err
}

// journalPending is how many bytes may wait for the disk before clients are not read any
// more: who submits faster than the disk writes waits for it.
const journalPending = 64 << 20

// journalRoom waits until the journal can take what a client has sent.
func (s *Scheduler) journalRoom(ctx context.Context, st *stream) error {
	for st.client != nil && s.journal != nil && s.journal.Pending() > journalPending {
		if err := s.commit(ctx, uint64(s.journal.Committed()+1)); err != nil {
			return err
		}
	}
	return nil
}

// epoch counts the lives of a scheduler with a journal, from 1; 0 without one.
func (s *Scheduler) epoch() int64 {
	if s.journal == nil {
		return 0
	}
	return int64(s.journal.Epoch())
}

// recordGraph appends a graph as it came:
//
//	[name of the client, length of the message, length of the header, [lengths of frames]]
//
// in msgpack, and then these parts.
func (s *Scheduler) recordGraph(client string, g *graph) {
	if !s.recording() {
		return
	}
	s.append(recordGraph, graphParts(client, g.raw, g.expr)...)
}

func graphParts(client string, raw []byte, expr *wire.Serialized) [][]byte {
	b := msgpack.AppendArrayHeader(nil, 4)
	b = msgpack.AppendString(b, client)
	b = msgpack.AppendInt(b, int64(len(raw)))
	b = msgpack.AppendInt(b, int64(len(expr.Header)))
	b = msgpack.AppendArrayHeader(b, len(expr.Frames))
	parts := [][]byte{nil, raw, expr.Header}
	for _, f := range expr.Frames {
		b = msgpack.AppendInt(b, int64(f.Len()))
		parts = append(parts, f.Bytes())
	}
	parts[0] = b
	return parts
}

var errRecord = errors.New("a record of the journal is not one of ours")

// readGraphRecord is the reverse. All borrows from data.
func readGraphRecord(data []byte) (client string, raw []byte, expr *wire.Serialized, err error) {
	r := msgpack.NewReader(data)
	n, err := r.ReadArrayLen()
	if err != nil || n != 4 {
		return "", nil, nil, errors.Join(errRecord, err)
	}
	if client, err = r.ReadString(); err != nil {
		return "", nil, nil, err
	}
	var lengths []int64
	read := func() {
		if err == nil {
			var v int64
			v, err = r.ReadInt()
			lengths = append(lengths, v)
		}
	}
	read()
	read()
	frames := 0
	if err == nil {
		frames, err = r.ReadArrayLen()
	}
	for range frames {
		read()
	}
	if err != nil {
		return "", nil, nil, errors.Join(errRecord, err)
	}
	rest := data[r.Offset():]
	parts := make([][]byte, len(lengths))
	for i, l := range lengths {
		if l < 0 || l > int64(len(rest)) {
			return "", nil, nil, errRecord
		}
		parts[i], rest = rest[:l:l], rest[l:]
	}
	if len(rest) > 0 {
		return "", nil, nil, errRecord
	}
	expr = &wire.Serialized{Header: parts[1]}
	for _, p := range parts[2:] {
		expr.Frames = append(expr.Frames, wire.HeapFrame(p))
	}
	return client, parts[0], expr, nil
}

// recordChange appends a change of a primitive: the request that makes it, with the values
// that it carries. It is called before the change is made, which must not be made when it
// returns an error: the record could not be read back. It runs in the loop.
func (s *Scheduler) recordChange(op string, args msgpack.Map) error {
	if !s.recording() {
		return nil
	}
	parts, err := opParts(op, args)
	if err == nil {
		_, _, err = readOpRecord(slices.Concat(parts...))
	}
	if err != nil {
		s.log.Warn("change refused: the journal cannot keep it", "op", op, "error", err)
		return &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("%s: the journal cannot keep the value: %v", op, err)}
	}
	s.append(recordOp, parts...)
	return nil
}

// noteChange is recordChange for changes that carry nothing but names, which can always be kept.
func (s *Scheduler) noteChange(op string, args msgpack.Map) {
	if err := s.recordChange(op, args); err != nil {
		s.log.Error("change missing in the journal", "op", op, "error", err)
	}
}

// opParts are those of a change: [lengths of frames] in msgpack, and then the frames of the
// message {"op": …, "args": …}.
func opParts(op string, args msgpack.Map) ([][]byte, error) {
	m, err := wire.Encode(msgpack.MapOf("op", op, "args", args), wire.EncodeOptions{})
	if err != nil {
		return nil, err
	}
	defer m.Release()
	b := msgpack.AppendArrayHeader(nil, len(m.Frames))
	parts := [][]byte{nil}
	for _, f := range m.Frames {
		if f.OnDevice() {
			return nil, errors.New("it has memory of a GPU")
		}
		b = msgpack.AppendInt(b, int64(f.Len()))
		parts = append(parts, append([]byte(nil), f.Bytes()...))
	}
	parts[0] = b
	return parts, nil
}

// readOpRecord is the reverse. What it returns shares nothing with data.
func readOpRecord(data []byte) (op string, args msgpack.Map, err error) {
	r := msgpack.NewReader(data)
	n, err := r.ReadArrayLen()
	if err != nil || n == 0 {
		return "", nil, errors.Join(errRecord, err)
	}
	lengths := make([]int64, n)
	for i := range lengths {
		if lengths[i], err = r.ReadInt(); err != nil {
			return "", nil, errors.Join(errRecord, err)
		}
	}
	rest := data[r.Offset():]
	var m wire.Message
	for _, l := range lengths {
		if l < 0 || l > int64(len(rest)) {
			return "", nil, errRecord
		}
		m.Frames = append(m.Frames, wire.HeapFrame(append([]byte(nil), rest[:l]...)))
		rest = rest[l:]
	}
	v, err := wire.Decode(&m, keepClosed)
	if err != nil {
		return "", nil, errors.Join(errRecord, err)
	}
	d, _ := v.(msgpack.Map)
	a, _ := d.Get("args")
	args, ok := a.(msgpack.Map)
	if op = d.GetString("op"); op == "" || !ok || len(rest) > 0 {
		return "", nil, errRecord
	}
	return op, args, nil
}

// readNameRecord reads a record of a name and keys.
func readNameRecord(data []byte) (name string, keys []task.Key, err error) {
	r := msgpack.NewReader(data)
	n, err := r.ReadArrayLen()
	if err != nil || n != 2 {
		return "", nil, errors.Join(errRecord, err)
	}
	if name, err = r.ReadString(); err != nil {
		return "", nil, err
	}
	raw, err := r.ReadRaw()
	if err != nil {
		return "", nil, err
	}
	err = wire.EachKey(raw, func(k []byte) error {
		keys = append(keys, task.Key(k))
		return nil
	})
	if err == nil {
		err = r.End()
	}
	return name, keys, err
}
