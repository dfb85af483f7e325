package fetch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.millstream.dev/client/internal/link"
	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/comm/peermem"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// getData requests results from one worker. It returns the indices of those that the worker does not have: all of them
// if it cannot be reached.
func (f *Fetcher) getData(ctx context.Context, address string, keys []*tracker.State, which []int,
	sink func(int, Value) error) (missing []int, err error) {
	ctx, stop := f.cfg.Link.Within(ctx)
	defer stop()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		conn, overData, release, err := f.acquire(ctx, address)
		if err != nil {
			return f.missingAll(ctx, address, keys, which, err)
		}
		// A comm within the process passes memory of the worker, which users must not change.
		owned := !strings.HasPrefix(conn.PeerAddr(), "inproc:")
		memory := f.memory.Request(address, conn)
		m, lent, busy, err := exchange(ctx, conn, keysRequest("get_data", keys, which, memory), memory)
		if errors.Is(err, peermem.ErrRead) {
			release(nil)
			f.memory.Deny(address, err)
			f.cfg.Log.Debug("cannot read the memory of a worker; using its connection", "worker", address, "error", err)
			continue
		}
		release(err)
		if err != nil && overData && ctx.Err() == nil {
			continue // over the worker's own address
		}
		if err != nil {
			return f.missingAll(ctx, address, keys, which, err)
		}
		if !busy {
			if !overData {
				f.dataConns.count(address, m.Size()-lent.Total())
			}
			defer m.Release()
			return takeData(m, keys, which, func(i int, v Value) error {
				v.owned = owned && !v.repeated
				return sink(i, v)
			})
		}
		m.Release()
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// missingAll returns the results of a worker that did not reply as missing, or an error if ctx has ended.
func (f *Fetcher) missingAll(ctx context.Context, address string, keys []*tracker.State, which []int, err error) ([]int,
	error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f.cfg.Tracker.ForgetPlaces(keys, which)
	f.cfg.Log.Debug("worker did not return results", "worker", address, "error", err)
	return which, nil
}

// exchange sends a get_data request, reads what the worker has lent, and acknowledges the reply. lent is the length of
// that in bytes. After an error that wraps peermem.ErrRead the connection can be used again.
func exchange(ctx context.Context, conn interface {
	Write(context.Context, *wire.Message) error
	Read(context.Context) (*wire.Message, error)
	Abort()
}, request *wire.Message, memory *peermem.Request) (m *wire.Message, lent peermem.Lent, busy bool, err error) {
	defer func() {
		if err != nil && m != nil {
			m.Release()
			m = nil
		}
		if err != nil && !errors.Is(err, peermem.ErrRead) {
			conn.Abort() // the exchange is not complete
		}
	}()
	if err := conn.Write(ctx, request); err != nil {
		return nil, lent, false, err
	}
	if m, err = conn.Read(ctx); err != nil {
		return nil, lent, false, err
	}
	if err := link.ReplyError("get_data", "worker", m); err != nil {
		return m, lent, false, err
	}
	status, err := fieldOf(m, "status")
	if err != nil {
		return m, lent, false, err
	}
	lent, unread := memory.Resolve(ctx, m)
	if unread != nil && !errors.Is(unread, peermem.ErrRead) {
		return m, lent, false, unread
	}
	if r := msgpack.NewReader(status); r.Kind() == msgpack.Str {
		text, _ := r.ReadStringBytes()
		busy = string(text) == "busy"
	}
	if err := conn.Write(ctx, okMessage); err != nil {
		return m, lent, false, err
	}
	return m, lent, busy, unread
}

var okMessage = &wire.Message{Frames: []wire.Frame{wire.HeapFrame(msgpack.AppendString(nil, "OK"))}}

// fieldOf returns a field of a message that is a map, or nil if there is none.
func fieldOf(m *wire.Message, field string) ([]byte, error) {
	r := msgpack.NewReader(m.Body())
	n, err := r.ReadMapLen()
	if err != nil {
		return nil, err
	}
	for range n {
		name, err := r.ReadName()
		if err != nil {
			return nil, err
		}
		if string(name) == field {
			return r.ReadRaw()
		}
		if err := r.Skip(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// takeData passes the results of a reply to sink. They are usually in the order of the request.
func takeData(m *wire.Message, keys []*tracker.State, which []int, sink func(int, Value) error) (missing []int,
	err error) {
	data, err := fieldOf(m, "data")
	if err != nil {
		return nil, err
	}
	r := msgpack.NewReader(data)
	n := 0
	if r.Kind() == msgpack.MapKind {
		if n, err = r.ReadMapLen(); err != nil {
			return nil, err
		}
	}
	var index map[task.Key][]int // built if the order differs
	var got []bool
	next := 0
	for range n {
		k, err := r.ReadKey(nil)
		if err != nil {
			return nil, err
		}
		raw, err := r.ReadRaw()
		if err != nil {
			return nil, err
		}
		v, err := readValue(m, raw)
		if err != nil {
			return nil, err
		}
		if index == nil && next < len(which) && string(keys[which[next]].Key()) == string(k) {
			if err := sink(which[next], v); err != nil {
				return nil, fmt.Errorf("result of %s: %w", keys[which[next]].Key(), err)
			}
			next++
			continue
		}
		if index == nil {
			index, got = make(map[task.Key][]int), make([]bool, len(which))
			for j := next; j < len(which); j++ {
				key := keys[which[j]].Key()
				index[key] = append(index[key], j)
			}
			for j := range next {
				got[j] = true
				key := keys[which[j]].Key()
				index[key] = append(index[key], j)
			}
		}
		v.repeated = len(index[task.Key(k)]) > 1
		for _, j := range index[task.Key(k)] {
			if got[j] {
				continue
			}
			got[j] = true
			if err := sink(which[j], v); err != nil {
				return nil, fmt.Errorf("result of %s: %w", keys[which[j]].Key(), err)
			}
		}
	}
	if index == nil {
		return which[next:], nil
	}
	for j, ok := range got {
		if !ok {
			missing = append(missing, which[j])
		}
	}
	return missing, nil
}
