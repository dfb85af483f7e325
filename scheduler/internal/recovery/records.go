package recovery

import (
	"errors"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/journal"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// Kinds of records. States of tasks are not recorded: workers report them when they reconnect.
const (
	recordClient     journal.Kind = 1 // name of a registered client
	recordClientGone journal.Kind = 2
	recordDesire     journal.Kind = 3 // name and keys
	recordRelease    journal.Kind = 4
	recordGraph      journal.Kind = 5 // see graphParts
	recordWorker     journal.Kind = 6 // address of an added worker
	recordWorkerGone journal.Kind = 7
	recordOp         journal.Kind = 8 // a change of a primitive: the request that makes it
	recordData       journal.Kind = 9 // a client and keys of its scattered data

	recordPart    journal.Kind = 10 // a part of a record that is larger than the journal's limit
	recordPartEnd journal.Kind = 11 // kind of the record of the parts before it, one byte
)

// appendNameRecord appends a record of a name and keys.
func appendNameRecord(b []byte, name string, keys []task.Key) []byte {
	b = msgpack.AppendArrayHeader(b, 2)
	b = msgpack.AppendString(b, name)
	return message.AppendKeys(b, keys)
}

// graphParts returns the parts of the record of a graph:
//
//	[name of the client, length of the message, length of the header, [lengths of frames]]
//
// in msgpack, followed by these parts.
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

// ErrRecord is returned for a record that this release cannot read.
var ErrRecord = errors.New("unknown record in the journal")

// readGraphRecord reads the record of a graph. All results borrow from data.
func readGraphRecord(data []byte) (client string, raw []byte, expr *wire.Serialized, err error) {
	r := msgpack.NewReader(data)
	n, err := r.ReadArrayLen()
	if err != nil || n != 4 {
		return "", nil, nil, errors.Join(ErrRecord, err)
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
		return "", nil, nil, errors.Join(ErrRecord, err)
	}
	rest := data[r.Offset():]
	parts := make([][]byte, len(lengths))
	for i, l := range lengths {
		if l < 0 || l > int64(len(rest)) {
			return "", nil, nil, ErrRecord
		}
		parts[i], rest = rest[:l:l], rest[l:]
	}
	if len(rest) > 0 {
		return "", nil, nil, ErrRecord
	}
	expr = &wire.Serialized{Header: parts[1]}
	for _, p := range parts[2:] {
		expr.Frames = append(expr.Frames, wire.HeapFrame(p))
	}
	return client, parts[0], expr, nil
}

// opParts returns the parts of the record of a change: [lengths of frames] in msgpack, followed by the frames of the
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
			return nil, errors.New("value is in GPU memory")
		}
		b = msgpack.AppendInt(b, int64(f.Len()))
		parts = append(parts, append([]byte(nil), f.Bytes()...))
	}
	parts[0] = b
	return parts, nil
}

// readOpRecord reads the record of a change. The results share no memory with data.
func readOpRecord(data []byte) (op string, args msgpack.Map, err error) {
	r := msgpack.NewReader(data)
	n, err := r.ReadArrayLen()
	if err != nil || n == 0 {
		return "", nil, errors.Join(ErrRecord, err)
	}
	lengths := make([]int64, n)
	for i := range lengths {
		if lengths[i], err = r.ReadInt(); err != nil {
			return "", nil, errors.Join(ErrRecord, err)
		}
	}
	rest := data[r.Offset():]
	var m wire.Message
	for _, l := range lengths {
		if l < 0 || l > int64(len(rest)) {
			return "", nil, ErrRecord
		}
		m.Frames = append(m.Frames, wire.HeapFrame(append([]byte(nil), rest[:l]...)))
		rest = rest[l:]
	}
	v, err := wire.Decode(&m, val.KeepClosed)
	if err != nil {
		return "", nil, errors.Join(ErrRecord, err)
	}
	d, _ := v.(msgpack.Map)
	a, _ := d.Get("args")
	args, ok := a.(msgpack.Map)
	if op = d.GetString("op"); op == "" || !ok || len(rest) > 0 {
		return "", nil, ErrRecord
	}
	return op, args, nil
}

// readNameRecord reads a record of a name and keys.
func readNameRecord(data []byte) (name string, keys []task.Key, err error) {
	r := msgpack.NewReader(data)
	n, err := r.ReadArrayLen()
	if err != nil || n != 2 {
		return "", nil, errors.Join(ErrRecord, err)
	}
	if name, err = r.ReadString(); err != nil {
		return "", nil, err
	}
	raw, err := r.ReadRaw()
	if err != nil {
		return "", nil, err
	}
	err = message.EachKey(raw, func(k []byte) error {
		keys = append(keys, task.Key(k))
		return nil
	})
	if err == nil {
		err = r.End()
	}
	return name, keys, err
}
