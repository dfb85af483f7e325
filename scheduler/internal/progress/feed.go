package progress

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/wire"
)

// feed serves the op of progress bars: it sends the result of a function of the scheduler to the comm at intervals. The
// bars of Dask are followed here; other functions run in the Python helper.
func (s *Feeds) feed(ctx context.Context, r *rpc.Request) (any, error) {
	var in feedArgs
	if err := r.Args(&in); err != nil {
		return nil, err
	}
	every, err := in.every()
	if err != nil {
		return nil, err
	}
	frames := [][]byte{slices.Clone(in.Function), slices.Clone(in.Setup), slices.Clone(in.Teardown)}
	r.Takeover()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // wait for the end of the comm
		defer cancel()
		for {
			m, err := r.Comm.Read(ctx)
			if err != nil {
				return
			}
			m.Release()
		}
	}()
	if err := s.serveFeed(ctx, r.Comm, frames, every); err != nil && ctx.Err() == nil &&
		!errors.Is(err, comm.ErrClosed) {
		s.Log.Warn("feed failed", "peer", r.Comm.PeerAddr(), "error", err)
		// The reader of the feed expects a status of "error".
		m, e := rpc.ErrorMessage(err, "error")
		if e == nil {
			_ = peers.Send(ctx, r.Comm, append(m, msgpack.MapOf("all", 0, "remaining", 0)...))
		}
	}
	return rpc.NoReply, r.Comm.Close()
}

func (s *Feeds) serveFeed(ctx context.Context, c comm.Comm, frames [][]byte, every time.Duration) error {
	m, err := s.Helpers.Call(ctx, helpers.Service, "feed-open", nil, frames)
	if err != nil {
		return err
	}
	v, err := msgpack.Decode(m.Body)
	if err != nil {
		return err
	}
	var what bar
	if err := rpc.Assign(v, &what); err != nil {
		return err
	}
	id := what.ID
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_, _ = s.Helpers.Call(ctx, helpers.Service, "feed-close", msgpack.MapOf("id", id), nil)
	}()
	step := func() (*wire.Message, bool, error) {
		m, err := s.Helpers.Call(ctx, helpers.Service, "feed-step", msgpack.MapOf("id", id), nil)
		if err != nil {
			return nil, false, err
		}
		out, err := helpers.Message(m.Frames)
		return out, false, err
	}
	if what.Keys != nil {
		p, err := s.open(ctx, &what)
		if err != nil {
			return err
		}
		defer func() { _ = s.Loop.Do(context.WithoutCancel(ctx), func() { s.End(p) }) }()
		step = func() (*wire.Message, bool, error) {
			answer, err := loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) { return s.Answer(p), nil })
			if err != nil {
				return nil, false, err
			}
			status, _ := answer.Get("status")
			out, err := wire.Encode(answer, c.Info().EncodeOptions())
			return out, status != nil, err
		}
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		out, last, err := step()
		if err != nil {
			return err
		}
		err = c.Write(ctx, out)
		out.Release()
		if err != nil || last {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// bar is the helper's reply to feed-open. Keys are nil for a feed that is not a progress bar.
type bar struct {
	ID              any
	Keys            []any
	Complete, Multi bool
	Group           string
}

// open follows the tasks of a progress bar.
func (s *Feeds) open(ctx context.Context, what *bar) (*Bar, error) {
	keys := make([]task.Key, 0, len(what.Keys))
	for _, k := range what.Keys {
		key, err := task.KeyOf(wire.Clone(k))
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	p, err := s.Follow(ctx, keys, what.Complete, what.Multi)
	if err == nil && what.Multi {
		err = s.Group(ctx, p, what.Group, what.ID)
	}
	if err != nil {
		_ = s.Loop.Do(context.WithoutCancel(ctx), func() { s.End(p) })
		return nil, err
	}
	return p, nil
}
