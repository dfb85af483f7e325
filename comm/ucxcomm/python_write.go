package ucxcomm

import (
	"context"
	"errors"
	"time"

	"go.millstream.dev/ucx"
	"go.millstream.dev/wire"
)

func (l *pythonLink) write(ctx context.Context, m *wire.Message) error {
	if len(m.Frames) == 0 {
		return &idleError{errNoFrames}
	}
	if err := ready(ctx, m); err != nil {
		return &idleError{err}
	}
	if l.multi {
		return l.writeMulti(ctx, m)
	}
	if err := l.room(ctx, unmatchedMessages-1); err != nil {
		return err
	}
	parts := make([]part, len(m.Frames))
	for i, f := range m.Frames {
		parts[i] = part{size: int64(f.Len()), device: f.OnDevice()}
	}
	var first [leadSize]byte
	lead{frames: uint64(len(parts))}.put(&first)
	table := appendTable(nil, parts)
	// The lead completes when the peer has begun to receive the message, the others when the caller owns their memory
	// again.
	matched := l.ep.raw().StartSendSync(ucx.Bytes(first[:]), l.ep.send)
	open := []*ucx.Request{l.ep.startSend(ucx.Bytes(table))}
	for _, f := range m.Frames {
		if f.Len() == 0 {
			continue
		}
		if len(open) >= receiveWindow {
			if err := open[0].Wait(ctx); err != nil {
				return l.cut(err, append(open, matched))
			}
			open = open[1:]
		}
		open = append(open, l.ep.startSend(view(f)))
	}
	for i, r := range open {
		if err := r.Wait(ctx); err != nil {
			return l.cut(err, append(open[i:], matched))
		}
	}
	l.unmatched = append(l.unmatched, matched)
	return nil
}

func (l *pythonLink) writeMulti(ctx context.Context, m *wire.Message) error {
	views := make([]ucx.View, 0, 1+len(m.Frames))
	views = append(views, ucx.Bytes([]byte{0}))
	for _, f := range m.Frames {
		views = append(views, view(f))
	}
	return l.ep.SendMulti(ctx, ucx.ForceTag(l.ep.send), views...)
}

// room waits until at most n messages are ahead of the peer.
func (l *pythonLink) room(ctx context.Context, n int) error {
	for len(l.unmatched) > n {
		if err := l.unmatched[0].Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return &idleError{err} // no part of the next message has been sent
			}
			return err
		}
		l.unmatched = l.unmatched[1:]
	}
	return nil
}

// matchTime is how long a close waits for a peer that has not begun to read the written messages. UCX does not report
// when a message has arrived, only when it was matched by a receive, and a peer that detects the end first may drop it.
const matchTime = 250 * time.Millisecond

// shutdown notifies the peer that no more messages follow.
func (l *pythonLink) shutdown(ctx context.Context) error {
	if l.multi {
		if err := l.ep.SendMulti(ctx, ucx.ForceTag(l.ep.send), ucx.Bytes([]byte{1})); err != nil {
			return err
		}
		return l.flush(ctx)
	}
	matched, cancel := context.WithTimeout(ctx, matchTime)
	defer cancel()
	err := l.room(matched, 0)
	if matched.Err() != nil {
		err = nil // the peer reads later, or never
	}
	var b [leadSize]byte
	lead{shutdown: true}.put(&b)
	if serr := l.ep.Send(ctx, ucx.Bytes(b[:]), ucx.ForceTag(l.ep.send)); err == nil {
		err = serr
	}
	if ferr := l.flush(ctx); err == nil {
		err = ferr
	}
	return err
}

// flush waits until the peer has the shutdown message. A peer that has it may close its endpoint before UCX has
// confirmed the flush: a reset then means success.
func (l *pythonLink) flush(ctx context.Context) error {
	err := l.ep.raw().Flush(ctx)
	if errors.Is(err, ucx.ErrConnectionReset) {
		return nil
	}
	return err
}
