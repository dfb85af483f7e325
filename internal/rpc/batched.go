package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// BatchedConfig describes a batched stream. Its zero value is Dask's of a worker.
type BatchedConfig struct {
	// Interval is the least time between two messages on the wire (default 2 ms; Dask's
	// clients use 10 ms, its scheduler 2 ms to clients and 5 ms to workers; negative:
	// none). What is sent meanwhile goes together. The first message after a pause goes at
	// once.
	Interval time.Duration
	// Queue is how many messages may wait (default 1 Mi; Dask has no bound).
	Queue int
	// QueueBytes is how many encoded bytes may wait (default 1 GiB). One message may
	// always wait.
	QueueBytes int64
	// Fail makes Send return ErrFull when the queue is full; otherwise it waits.
	Fail bool
	// Batch is the largest number of messages that go together (default 10,000).
	Batch int
}

// Batched sends messages over a comm in lists, as Dask's BatchedSend does. Any number of
// goroutines may send; each one's messages keep their order.
type Batched struct {
	c   comm.Comm
	cfg BatchedConfig

	mu      sync.Mutex // owns all below
	queue   []queued
	bytes   int64
	taken   []queued // by the write that is under way, or has failed
	closing bool
	err     error
	stats   BatchedStats
	space   chan struct{} // closed and replaced when the queue has shrunk

	wake    chan struct{} // holds one token: there is something to do
	ctx     context.Context
	cancel  context.CancelCauseFunc
	stopped chan struct{} // the sender has ended
}

// queued is one message: encoded if it has no frames but its body, else as it was given.
type queued struct {
	raw   msgpack.Raw
	value any
	size  int64
}

func (q queued) any() any {
	if q.value != nil {
		return q.value
	}
	return q.raw
}

// BatchedStats are counts since the beginning.
type BatchedStats struct {
	// Messages were taken by Send, Sent of them written, in Batches of Bytes together.
	Messages, Sent, Batches, Bytes int64
	// Waiting are in the queue now.
	Waiting int
}

// UnsentError is what Close and Err return when messages could not be sent.
type UnsentError struct {
	// InDoubt were in the write that failed: the peer has got all of them or none.
	InDoubt []any
	// Unsent were never written.
	Unsent []any
	// Err says why.
	Err error
}

func (e *UnsentError) Error() string {
	return fmt.Sprintf("rpc: batched stream: %v: %d messages in doubt, %d not sent", e.Err, len(e.InDoubt), len(e.Unsent))
}

func (e *UnsentError) Unwrap() error { return e.Err }

// NewBatched begins to send on a comm, which Close and Abort end. Somebody else may read
// from the comm meanwhile: if the peer ends it, the stream fails, and what the peer has
// sent before can still be read.
func NewBatched(c comm.Comm, cfg BatchedConfig) *Batched {
	if cfg.Interval == 0 {
		cfg.Interval = 2 * time.Millisecond
	}
	if cfg.Queue <= 0 {
		cfg.Queue = 1 << 20
	}
	if cfg.QueueBytes <= 0 {
		cfg.QueueBytes = 1 << 30
	}
	if cfg.Batch <= 0 {
		cfg.Batch = 10000
	}
	b := &Batched{c: c, cfg: cfg, space: make(chan struct{}), wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	go b.run()
	return b
}

// Comm is the comm that it sends on.
func (b *Batched) Comm() comm.Comm { return b.c }

// Send queues messages, all or none. A message is whatever wire.Encode takes, usually a
// map, or a msgpack.Raw that is encoded already; it must not change afterwards. Send waits
// only while the queue is full; its error is ErrFull, ctx's, or that of the stream, and
// then nothing was queued.
func (b *Batched) Send(ctx context.Context, messages ...any) error {
	if len(messages) == 0 {
		return ctx.Err()
	}
	items := make([]queued, len(messages))
	var size int64
	for i, m := range messages {
		q, err := b.prepare(m)
		if err != nil {
			return err
		}
		items[i] = q
		size += q.size
	}
	b.mu.Lock()
	for {
		if err := b.refusal(); err != nil {
			b.mu.Unlock()
			return err
		}
		room := len(b.queue) == 0 || len(b.queue)+len(items) <= b.cfg.Queue && b.bytes+size <= b.cfg.QueueBytes
		if room {
			break
		}
		if b.cfg.Fail {
			n := len(b.queue)
			b.mu.Unlock()
			return fmt.Errorf("rpc: batched stream to %s: %w: %d messages wait (BatchedConfig.Queue, QueueBytes)", b.c.PeerAddr(), ErrFull, n)
		}
		space := b.space
		b.mu.Unlock()
		select {
		case <-space:
		case <-b.stopped:
		case <-ctx.Done():
			return ctx.Err()
		}
		b.mu.Lock()
	}
	b.queue = append(b.queue, items...)
	b.bytes += size
	b.stats.Messages += int64(len(items))
	b.mu.Unlock()
	b.poke()
	return nil
}

// refusal is why nothing more can be queued. The caller holds mu.
func (b *Batched) refusal() error {
	if b.err != nil {
		return b.err
	}
	if b.closing {
		return fmt.Errorf("rpc: batched stream to %s: %w", b.c.PeerAddr(), ErrClosed)
	}
	if err := b.c.Err(); err != nil {
		return err
	}
	return nil
}

func (b *Batched) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// prepare encodes a message now, so that one that has no form on the wire fails its own
// Send and not the batch of others.
func (b *Batched) prepare(v any) (queued, error) {
	if raw, ok := v.(msgpack.Raw); ok {
		r := msgpack.NewReader(raw)
		if err := r.Skip(); err != nil {
			return queued{}, err
		}
		return queued{raw: raw, size: int64(len(raw))}, r.End()
	}
	m, err := encode(v, b.c.Info())
	if err != nil {
		return queued{}, err
	}
	defer m.Release()
	if len(m.Frames) == 1 {
		return queued{raw: m.Body(), size: m.Size()}, nil
	}
	return queued{value: v, size: m.Size()}, nil
}

// run is the sender.
func (b *Batched) run() {
	defer close(b.stopped)
	var last time.Time
	for {
		select {
		case <-b.wake:
		case <-b.c.Done():
			b.fail(b.c.Err())
			return
		case <-b.ctx.Done():
			b.fail(context.Cause(b.ctx))
			return
		}
		for {
			b.mu.Lock()
			empty, closing := len(b.queue) == 0, b.closing
			b.mu.Unlock()
			if empty && closing {
				return
			}
			if empty {
				break
			}
			if !closing && !b.pause(last) {
				continue // look again: Close does not wait, a failure ends
			}
			last = time.Now()
			if err := b.flush(); err != nil {
				b.fail(err)
				return
			}
		}
	}
}

// pause waits until the interval since the last write is over. It reports false if it was
// disturbed by Close, an end of the comm or an abort, which the caller finds out.
func (b *Batched) pause(last time.Time) bool {
	if b.cfg.Interval < 0 || last.IsZero() {
		return true
	}
	left := b.cfg.Interval - time.Since(last)
	if left <= 0 {
		return true
	}
	t := time.NewTimer(left)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return true
		case <-b.wake:
			b.mu.Lock()
			closing := b.closing
			b.mu.Unlock()
			if closing {
				return false
			}
		case <-b.c.Done():
			return true // the write fails with the reason
		case <-b.ctx.Done():
			return true
		}
	}
}

// flush writes what is queued, up to a batch.
func (b *Batched) flush() error {
	// What has ended before the write leaves no doubt about what it carried.
	if err := b.c.Err(); err != nil {
		return err
	}
	if b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	b.mu.Lock()
	n := min(len(b.queue), b.cfg.Batch)
	batch := b.queue[:n:n]
	b.taken = batch
	b.queue = b.queue[n:]
	if len(b.queue) == 0 {
		b.queue = nil
	}
	for _, q := range batch {
		b.bytes -= q.size
	}
	close(b.space)
	b.space = make(chan struct{})
	b.mu.Unlock()

	m, err := b.list(batch)
	if err != nil {
		return err
	}
	defer m.Release()
	size := m.Size()
	if err := b.c.Write(b.ctx, m); err != nil {
		if b.ctx.Err() != nil {
			err = context.Cause(b.ctx)
		}
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = nil
	b.stats.Batches++
	b.stats.Sent += int64(n)
	b.stats.Bytes += size
	return nil
}

// list makes the message of a batch.
func (b *Batched) list(batch []queued) (*wire.Message, error) {
	var size int64
	plain := true
	for _, q := range batch {
		plain = plain && q.value == nil
		size += q.size
	}
	if !plain {
		values := make([]any, len(batch))
		for i, q := range batch {
			values[i] = q.any()
		}
		return encode(values, b.c.Info())
	}
	body := msgpack.AppendArrayHeader(make([]byte, 0, size+5), len(batch))
	for _, q := range batch {
		body = append(body, q.raw...)
	}
	return &wire.Message{Frames: []wire.Frame{wire.HeapFrame(body)}}, nil
}

// fail ends the stream with the messages that it leaves. A comm that the peer has ended is
// left to Close: whoever reads from it may not be through with it.
func (b *Batched) fail(err error) {
	if b.leave(err) && b.c.Err() == nil {
		b.c.Abort()
	}
}

// leave reports false if nothing is lost by the failure.
func (b *Batched) leave(err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing && len(b.queue) == 0 && len(b.taken) == 0 {
		return false
	}
	e := &UnsentError{Err: err}
	for _, q := range b.taken {
		e.InDoubt = append(e.InDoubt, q.any())
	}
	for _, q := range b.queue {
		e.Unsent = append(e.Unsent, q.any())
	}
	b.err = e
	b.queue, b.taken, b.bytes = nil, nil, 0
	return true
}

// Close sends what is queued, without waiting for the interval, and closes the comm. If it
// cannot all be sent before ctx ends, or the comm has failed, it returns an *UnsentError
// with the messages. It is idempotent. What was written can still be lost with the
// connection, as on every network: only an answer of the peer tells.
func (b *Batched) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	b.poke()
	select {
	case <-b.stopped:
	case <-ctx.Done():
		b.cancel(context.Cause(ctx))
		<-b.stopped // Write heeds its context
	}
	b.mu.Lock()
	err := b.err
	b.mu.Unlock()
	b.cancel(ErrClosed)
	if err == nil {
		return b.c.Close()
	}
	b.c.Abort()
	var left *UnsentError
	if errors.As(err, &left) && len(left.InDoubt)+len(left.Unsent) == 0 {
		return nil
	}
	return err
}

// Abort ends the stream at once and returns what was not sent, nil if all was.
func (b *Batched) Abort() *UnsentError {
	b.cancel(fmt.Errorf("aborted: %w", ErrClosed))
	<-b.stopped
	b.c.Abort()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closing = true
	var e *UnsentError
	if errors.As(b.err, &e) && len(e.InDoubt)+len(e.Unsent) > 0 {
		return e
	}
	return nil
}

// Done is closed when the stream has ended and nothing more is sent.
func (b *Batched) Done() <-chan struct{} { return b.stopped }

// Err is why the stream has failed, an *UnsentError; nil while it lives and after a Close
// that lost nothing.
func (b *Batched) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Stats returns the counts.
func (b *Batched) Stats() BatchedStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Waiting = len(b.queue)
	return s
}
