package client

import (
	"context"
	"fmt"
	"runtime"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// waitAll waits until all keys have ended. With failFast the first error ends it.
func (c *Client) waitAll(ctx context.Context, keys []*keyState, failFast bool) error {
	w := &waiter{failFast: failFast}
	c.mu.Lock()
	c.wait(w, keys)
	c.mu.Unlock()
	select {
	case <-w.ch:
		c.mu.Lock()
		defer c.mu.Unlock()
		if w.failed != nil {
			return w.failed.err
		}
		return nil
	case <-ctx.Done():
		c.mu.Lock()
		c.unwait(w, keys)
		c.mu.Unlock()
		return ctx.Err()
	}
}

// Wait waits until all futures have ended, whatever their fate, or ctx has.
func Wait[T any](ctx context.Context, futures []*Future[T]) error {
	_, keys, err := statesOf(futures)
	if err != nil || len(keys) == 0 {
		return err
	}
	err = futures[0].c.waitAll(ctx, keys, false)
	runtime.KeepAlive(futures)
	return err
}

// statesOf are the states of futures, all of one client. The first that was never submitted
// is an error.
func statesOf[T any](futures []*Future[T]) (*Client, []*keyState, error) {
	if len(futures) == 0 {
		return nil, nil, nil
	}
	c := futures[0].c
	keys := make([]*keyState, len(futures))
	for i, f := range futures {
		if f.err != nil {
			return c, nil, f.err
		}
		if f.c != c {
			return c, nil, fmt.Errorf("client: futures of two clients together: %s is another client's", f.Key())
		}
		keys[i] = f.h.ks
	}
	return c, keys, nil
}

// Gather waits for all futures and returns their results in order. They come straight from
// the workers, in large batches, and through the scheduler where a worker cannot be reached.
// The first error ends it.
func Gather[T any](ctx context.Context, futures []*Future[T]) ([]T, error) {
	c, keys, err := statesOf(futures)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	out := make([]T, len(futures))
	err = c.fetch(ctx, keys, func(i int, v value) (err error) {
		out[i], err = valueAs[T](v)
		return err
	})
	runtime.KeepAlive(futures)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Outcome is a result or an error.
type Outcome[T any] struct {
	Value T
	Err   error
}

// GatherAll is Gather that returns what each future came to instead of the first error
// (Dask's errors="skip"). Its own error is that of ctx or of the client.
func GatherAll[T any](ctx context.Context, futures []*Future[T]) ([]Outcome[T], error) {
	out := make([]Outcome[T], len(futures))
	var at []int
	var keys []*keyState
	for i, f := range futures {
		if f.err != nil {
			out[i].Err = f.err
			continue
		}
		at, keys = append(at, i), append(keys, f.h.ks)
	}
	if len(keys) == 0 {
		return out, ctx.Err()
	}
	c := futures[at[0]].c
	for len(keys) > 0 {
		if err := c.waitAll(ctx, keys, false); err != nil {
			return nil, err
		}
		var good []*keyState
		var goodAt []int
		c.mu.Lock()
		for i, ks := range keys {
			switch ks.status {
			case Failed, Canceled:
				out[at[i]].Err = ks.err
			default:
				good, goodAt = append(good, ks), append(goodAt, at[i])
			}
		}
		c.mu.Unlock()
		got := make([]bool, len(good))
		err := c.fetch(ctx, good, func(i int, v value) error {
			got[i] = true
			out[goodAt[i]].Value, out[goodAt[i]].Err = valueAs[T](v)
			return nil
		})
		if err == nil {
			break
		}
		if ctx.Err() != nil || c.Err() != nil {
			return nil, err
		}
		keys, at = keys[:0], at[:0] // one of them failed meanwhile: look again
		for i, ks := range good {
			if !got[i] {
				keys, at = append(keys, ks), append(at, goodAt[i])
			}
		}
	}
	runtime.KeepAlive(futures)
	return out, nil
}

// value is a result in a message: in its body, or in frames.
type value struct {
	raw []byte
	ser *wire.Serialized
}

// valueAs decodes a result; what it returns shares no memory with the message.
func valueAs[T any](v value) (T, error) {
	if v.ser == nil {
		return task.ReadBody[T](v.raw)
	}
	var out T
	err := task.DecodeInto(v.ser, &out)
	return out, err
}

// readValue reads a value of a reply's data: a marker, or the value itself.
func readValue(m *wire.Message, raw []byte) (value, error) {
	r := msgpack.NewReader(raw)
	if r.Kind() != msgpack.MapKind {
		return value{raw: raw}, nil
	}
	n, err := r.ReadMapLen()
	if err != nil {
		return value{}, err
	}
	if n != 1 || r.Kind() != msgpack.Str {
		return value{raw: raw}, nil
	}
	name, err := r.ReadName()
	if err != nil {
		return value{}, err
	}
	if string(name) != "__Serialized__" {
		return value{raw: raw}, nil
	}
	at, err := r.ReadUint()
	if err != nil {
		return value{}, err
	}
	if at == 0 || at >= uint64(len(m.Frames)) || m.Frames[at].OnDevice() {
		return value{}, fmt.Errorf("client: a result refers to frame %d of %d", at, len(m.Frames))
	}
	header := m.Frames[at].Bytes()
	count, err := subFrames(header)
	if err != nil {
		return value{}, err
	}
	if count > uint64(len(m.Frames))-at-1 {
		return value{}, fmt.Errorf("client: a result of %d frames, and %d are there", count, uint64(len(m.Frames))-at-1)
	}
	return value{ser: &wire.Serialized{Header: header, Frames: m.Frames[at+1 : at+1+count]}}, nil
}

// subFrames is the number of frames that a header announces.
func subFrames(header []byte) (uint64, error) {
	r := msgpack.NewReader(header)
	n, err := r.ReadMapLen()
	if err != nil {
		return 0, err
	}
	for range n {
		name, err := r.ReadName()
		if err != nil {
			return 0, err
		}
		if string(name) == "num-sub-frames" {
			return r.ReadUint()
		}
		if err := r.Skip(); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("client: a result's header without num-sub-frames")
}
