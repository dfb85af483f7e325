package link

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

// stream is the comm on which client and scheduler send each other messages.
type stream struct {
	comm     comm.Comm
	identity tracker.Identity
}

// register dials the scheduler and opens the stream.
func (l *Link) register(ctx context.Context) (*stream, error) {
	conn, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	s, err := l.openStream(ctx, conn)
	if err != nil {
		conn.Abort()
		return nil, err
	}
	return s, nil
}

func (l *Link) openStream(ctx context.Context, conn comm.Comm) (*stream, error) {
	hello := wire.NewDict("client", l.cfg.ID, "versions", wire.NewDict("packages", wire.Dict{}))
	if conn.Info().Millstream != nil { // Dask's scheduler rejects other arguments
		hello.Set("millstream", wire.NewDict("registry", l.cfg.Registry(), "functions", task.Names(), "signatures",
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
	ops := message.OpsOf(m)
	if !ops.Next() || string(ops.Op()) != "stream-start" {
		v, err := wire.Decode(m, wire.DecodeOptions{})
		if err != nil {
			return nil, err
		}
		if err := rpc.ReplyError("register-client", l.cfg.Address, v); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("not a Dask scheduler: reply to register-client is %.100v", v)
	}
	var start message.StreamStart
	if err := start.Read(&ops); err != nil {
		return nil, err
	}
	if text := start.Error; text != "" {
		return nil, fmt.Errorf("scheduler rejected the client: %s", text)
	}
	s := &stream{comm: conn}
	s.identity.ID, s.identity.Epoch = strings.Clone(start.Millstream.ID), start.Millstream.Epoch
	if text := strings.Clone(start.Warning); text != "" {
		level := slog.LevelWarn
		if s.identity.IsDask() {
			level = slog.LevelDebug // a Go client has none of the Python packages
		}
		l.cfg.Log.Log(ctx, level, "scheduler", "warning", text)
	}
	return s, nil
}

// beat sends heartbeats.
func (l *Link) beat(ctx context.Context) {
	t := time.NewTicker(l.cfg.Heartbeat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			_ = l.cfg.Tracker.Queue(&message.HeartbeatClient{}) // fails only when ctx ends as well
		case <-ctx.Done():
			return
		}
	}
}

// read applies the messages of the scheduler until the comm ends.
func (l *Link) read(ctx context.Context, s *stream) error {
	in := rpc.NewReader(s.comm, rpc.ReaderConfig{})
	return in.Run(ctx, func(m *wire.Message) error {
		defer in.Release(m)
		return l.cfg.Tracker.Receive(m)
	})
}

// write sends the queue until ctx or the comm ends. It returns the items that it took and could not send.
func (l *Link) write(ctx context.Context, s *stream) ([]tracker.Item, error) {
	for {
		items, m := l.cfg.Tracker.Take()
		if m == nil {
			if err := l.cfg.Tracker.Err(); err != nil { // everything has been sent
				return nil, err
			}
			select {
			case <-l.cfg.Tracker.Wake():
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		err := s.comm.Write(ctx, m)
		m.Release()
		if err != nil {
			return items, err
		}
	}
}

// reconnect connects to the scheduler and registers under the same ID. It returns nil if the link has ended.
func (l *Link) reconnect(unsent []tracker.Item, why error) *stream {
	unsent = l.cfg.Tracker.Disconnected(unsent)
	limit := l.cfg.Reconnect
	if limit < 0 || l.stay.Load() {
		l.cfg.Tracker.Fail(fmt.Errorf("%w: scheduler at %s lost: %w", tracker.ErrClosed, l.cfg.Address, why))
		return nil
	}
	ctx, cancel := context.WithTimeout(l.ctx, limit)
	defer cancel()
	l.pool.Remove(l.cfg.Address)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		s, err := l.register(ctx)
		if err == nil {
			l.cfg.Tracker.Resume(s.identity, unsent)
			l.cfg.Resumed()
			l.cfg.Log.Info("scheduler reconnected", "scheduler", l.cfg.Address)
			return s
		}
		if ctx.Err() != nil {
			if l.ctx.Err() == nil {
				l.cfg.Tracker.Fail(fmt.Errorf("%w: scheduler at %s lost for %v: %w", tracker.ErrClosed,
					l.cfg.Address, limit, err))
			}
			return nil
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
		}
	}
}
