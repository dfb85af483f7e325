package ucxcomm

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.millstream.dev/internal/wire/framing"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
	"go.millstream.dev/wire"
)

func (l *pythonLink) read(ctx context.Context, b bounds) (*wire.Message, error) {
	if l.multi {
		return l.readMulti(ctx, b)
	}
	if l.leading == nil {
		l.leading = l.ep.startRecv(ucx.Bytes(l.lead[:]))
	}
	if err := l.leading.Wait(ctx); err != nil {
		select {
		case <-l.leading.Done():
			l.leading = nil
			if errors.Is(err, ucx.ErrTruncated) {
				err = fmt.Errorf("%w: %w", errForm, err)
			}
			return nil, l.cut(err, nil)
		default:
			return nil, &idleError{err}
		}
	}
	n := l.leading.Info().Len
	l.leading = nil
	first, err := decodeLead(l.lead[:n])
	switch {
	case err != nil:
		return nil, l.cut(err, nil)
	case first.shutdown:
		return nil, errShutdown
	case first.frames == 0 || first.frames > uint64(b.frames):
		return nil, l.cut(b.framesError(first.frames), nil)
	}
	table, err := l.readTable(ctx, int(first.frames))
	if err != nil {
		return nil, l.cut(err, nil)
	}
	parts, total, err := decodeTable(table, int(first.frames), b.bytes)
	if err == nil {
		err = framing.CheckCount(len(parts), total)
	}
	if err != nil {
		return nil, l.cut(err, nil)
	}
	return l.readFrames(ctx, parts, b.account)
}

// readTable receives the table of n frames.
func (l *pythonLink) readTable(ctx context.Context, n int) ([]byte, error) {
	table := make([]byte, tableSize(n))
	r := l.ep.startRecv(ucx.Bytes(table))
	if err := r.Wait(ctx); err != nil {
		return nil, l.cut(err, []*ucx.Request{r})
	}
	return table[:r.Info().Len], nil
}

// readFrames receives the frames of a table, with bounded allocation ahead of received data.
func (l *pythonLink) readFrames(ctx context.Context, parts []part, acct *account) (*wire.Message, error) {
	m := &wire.Message{Frames: make([]wire.Frame, len(parts))}
	type waiting struct {
		r    *ucx.Request
		size int64
		acct *account
	}
	var open []waiting
	var ahead int64
	fail := func(err error) (*wire.Message, error) {
		var rs []*ucx.Request
		for _, w := range open {
			rs = append(rs, w.r)
		}
		err = l.cut(err, rs)
		m.Release()
		return nil, err
	}
	finish := func() error {
		w := open[0]
		if err := w.r.Wait(ctx); err != nil {
			return err
		}
		if n := w.r.Info().Len; int64(n) != w.size {
			return fmt.Errorf("frame of %d bytes, table says %d", n, w.size)
		}
		open = open[1:]
		ahead -= w.size
		w.acct.deliver(w.size)
		return nil
	}
	for i, p := range parts {
		for len(open) > 0 && (len(open) >= receiveWindow || ahead+p.size > receiveAhead) {
			if err := finish(); err != nil {
				return fail(err)
			}
		}
		of := acct
		if p.device && l.device != nil {
			of = nil // only host memory is counted; GPU memory has its own bound
		}
		f, err := l.frame(ctx, p, of)
		if err != nil {
			return fail(err)
		}
		m.Frames[i] = f
		if p.size > 0 {
			open = append(open, waiting{l.ep.startRecv(view(f)), p.size, of})
			ahead += p.size
		}
	}
	for len(open) > 0 {
		if err := finish(); err != nil {
			return fail(err)
		}
	}
	return m, nil
}

// frame allocates a frame's memory.
func (l *pythonLink) frame(ctx context.Context, p part, acct *account) (wire.Frame, error) {
	res := l.host
	if p.device && l.device != nil {
		res = l.device
	}
	if err := acct.reserve(ctx, p.size); err != nil {
		return wire.Frame{}, err
	}
	if res == nil || res == l.host && p.size < pooledFrom {
		return wire.HeapFrame(make([]byte, p.size)), nil
	}
	b, err := res.Alloc(ctx, int(p.size))
	if err != nil {
		return wire.Frame{}, err
	}
	if err := b.WaitReady(ctx); err != nil { // the previous user of the memory may still use it
		b.Release()
		return wire.Frame{}, err
	}
	return wire.BufferFrame(b), nil
}

func (l *pythonLink) readMulti(ctx context.Context, b bounds) (*wire.Message, error) {
	frames, err := l.ep.RecvMulti(ctx, ucx.ForceTag(l.ep.recv), ucx.Allocators{
		Host: l.host, Device: l.device, MaxFrames: b.frames + 1, MaxBytes: b.bytes + 1, Reserve: b.reserve,
	})
	if err != nil {
		switch {
		case ctx.Err() != nil && l.ep.Err() == nil:
			err = &idleError{err}
		case b.handshake && !errors.Is(err, io.EOF):
			err = fmt.Errorf("%w: %w", errForm, err)
		}
		return nil, err
	}
	if frames[0].Len() != 1 || len(frames) == 1 && frames[0].Bytes()[0] == 0 {
		frames.Release()
		return nil, l.cut(errors.New("invalid multi-buffer message: want one byte that says whether the peer "+
			"closes, and further frames unless it does"), nil)
	}
	if frames[0].Bytes()[0] != 0 {
		frames.Release()
		return nil, errShutdown
	}
	frames[0].Release()
	return message(frames[1:]), nil
}

// message makes a message of received buffers and takes over their references.
func message(frames []*mem.Buffer) *wire.Message {
	m := &wire.Message{Frames: make([]wire.Frame, len(frames))}
	for i, b := range frames {
		if b.Region().GoHeap() {
			m.Frames[i] = wire.HeapFrame(b.Bytes())
			b.Release()
			continue
		}
		m.Frames[i] = wire.BufferFrame(b)
	}
	return m
}
