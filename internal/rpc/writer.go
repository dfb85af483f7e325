package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/rpc/internal/hooks"
	"go.millstream.dev/wire"
)

// WriterConfig configures a Writer. The zero value sends everything immediately and never drops a peer.
type WriterConfig struct {
	// Limit is how many bytes may be queued for the peer before it is dropped, 0 without a limit.
	Limit int64
	// Backlog counts the bytes queued for all peers, nil for none.
	Backlog *Backlog
	// Commit, if not nil, waits until a position is on disk: see Flush.
	Commit func(ctx context.Context, position uint64) error
	// Interval is the minimum time between messages. A message after a pause is always sent immediately.
	Interval time.Duration
	// Linger is how long non-urgent data is held back to be merged with more: see FlushLater.
	Linger time.Duration
}

// Writer writes a stream of messages to one peer in batches, like Dask's BatchedSend. Its owner, one goroutine at a
// time, appends to the open batch and submits it with Flush; a goroutine of the Writer merges queued batches and writes
// them, unless FlushNow does. A Reader is its counterpart.
type Writer struct {
	cfg   WriterConfig
	comm  comm.Comm
	reuse bool            // the transport has copied the data when Write returns
	try   hooks.TryWriter // nil if the transport has none

	// Owned by the owner:
	open   *Batch
	sealed []*Batch // full batches, before open

	mu      sync.Mutex // owns all below
	queue   []*Batch
	bytes   int64
	closing bool
	urgent  bool // the queue must be sent without lingering
	idle    bool // the goroutine has nothing to send: the owner may

	last time.Time // time of the last write; owner: the goroutine

	wake   chan struct{} // holds a token if the queue is not empty or became urgent
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// NewWriter returns a Writer on a comm, which sends nothing before Start.
func NewWriter(c comm.Comm, cfg WriterConfig) *Writer {
	scheme, _ := commaddr.Parse(c.LocalAddr())
	// With other transports a receiver may still hold written memory: in this process, or UCX.
	w := &Writer{cfg: cfg, comm: c, reuse: scheme == "tcp" || scheme == "tls", wake: make(chan struct{}, 1),
		done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	if w.reuse && cfg.Interval == 0 {
		w.try, _ = c.(hooks.TryWriter)
	}
	return w
}

// Start starts sending. Batches flushed before are kept until then: a stream begins with a reply that is sent
// otherwise.
func (w *Writer) Start() {
	w.cfg.Backlog.join(1)
	go w.run()
}

// Done returns a channel that is closed when sending has ended.
func (w *Writer) Done() <-chan struct{} { return w.done }

// Copies reports whether the transport has copied a message when it is written, so that its memory may be reused.
func (w *Writer) Copies() bool { return w.reuse }

// Backlog counts the bytes queued for all peers of a process. Set Limit before its first use.
type Backlog struct {
	// Limit is how many bytes may be queued for all peers, 0 without a limit.
	Limit int64

	bytes, peers atomic.Int64
}

// Bytes returns the number of queued bytes.
func (b *Backlog) Bytes() int64 { return b.bytes.Load() }

func (b *Backlog) add(n int64) {
	if b != nil {
		b.bytes.Add(n)
	}
}

func (b *Backlog) join(n int64) {
	if b != nil {
		b.peers.Add(n)
	}
}

// over reports whether too much is queued for all peers, and for this one at least the average.
func (b *Backlog) over(own int64) bool {
	if b == nil {
		return false
	}
	all := b.bytes.Load()
	return b.Limit > 0 && all > b.Limit && own >= all/max(b.peers.Load(), 1)
}

// batchBytes is the size from which a batch is closed and another one started. Longer messages are not cheaper, and
// memory of equal size is easily reused.
const batchBytes = 48 << 10

// Begin returns the open batch with one more message, whose map the caller appends to its Body. Only the owner may call
// it.
func (w *Writer) Begin() *Batch {
	if w.open != nil && (len(w.open.Body) >= batchBytes || w.open.own) {
		w.seal()
	}
	if w.open == nil {
		w.open = freshBatch()
	}
	w.open.n++
	return w.open
}

// Add adds an encoded message: its body, a map, and the frames that its markers count from 1, which the Writer
// releases. Only the owner may call it.
func (w *Writer) Add(body []byte, frames []wire.Frame) {
	if len(frames) > 0 {
		w.seal() // the markers are only valid if these are the first frames of a batch
	}
	b := w.Begin()
	b.Body = append(b.Body, body...)
	b.Frames = append(b.Frames, frames...)
	b.own = len(frames) > 0
}

// SendValue adds a message, a map or any value that wire.Encode accepts, and flushes it. An error means that it cannot
// be encoded, or is ErrSlowPeer. Only the owner may call it.
func (w *Writer) SendValue(v any) error {
	m, err := encode(v, w.comm.Info())
	if err != nil {
		return err
	}
	w.Add(m.Body(), m.Frames[1:])
	return w.Flush(0)
}

// seal closes the open batch.
func (w *Writer) seal() {
	if w.open != nil {
		w.sealed = append(w.sealed, w.open)
		w.open = nil
	}
}

// ErrSlowPeer is returned by Flush when the peer was dropped because too much is queued for it.
var ErrSlowPeer = errors.New("rpc: peer does not read its messages")

// Flush submits the open batch, to be sent when Commit has returned for a position; 0 does not wait. Only the owner may
// call it.
func (w *Writer) Flush(after uint64) error { return w.flush(after, true) }

// FlushNow is Flush that sends a short batch in the goroutine of the owner if that does not wait for the peer, which
// saves a wakeup. It is for an owner that has nothing else to do. Only the owner may call it.
func (w *Writer) FlushNow(after uint64) error {
	if w.try == nil || w.open == nil || len(w.sealed) > 0 || after > 0 && w.cfg.Commit != nil || !w.isIdle() {
		return w.Flush(after)
	}
	b := w.open
	sent, err := w.try.TryWrite(w.ctx, b.Message())
	if !sent {
		return w.Flush(after)
	}
	w.open = nil
	b.release()
	if err == nil {
		b.recycle()
	} else if w.comm.Err() == nil {
		w.comm.Abort() // the goroutine ends
	}
	return nil
}

// isIdle reports whether everything before the open batch has been sent. Only the owner adds to the queue, so that this
// remains true until it does.
func (w *Writer) isIdle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.idle && len(w.queue) == 0 && !w.closing
}

// FlushLater submits the open batch, to be sent together with what follows within WriterConfig.Linger. Only the owner
// may call it.
func (w *Writer) FlushLater() error { return w.flush(0, false) }

func (w *Writer) flush(after uint64, urgent bool) error {
	w.seal()
	if len(w.sealed) == 0 {
		return nil
	}
	var size int64
	for _, b := range w.sealed {
		b.after = after
		size += b.size()
	}
	defer func() {
		clear(w.sealed)
		w.sealed = w.sealed[:0]
	}()
	w.mu.Lock()
	w.bytes += size
	w.cfg.Backlog.add(size)
	full := len(w.queue) > 0 && (w.cfg.Limit > 0 && w.bytes > w.cfg.Limit || w.cfg.Backlog.over(w.bytes))
	if w.closing || full {
		w.bytes -= size
		w.cfg.Backlog.add(-size)
		w.mu.Unlock()
		for _, b := range w.sealed {
			b.release()
		}
		if full {
			w.Abort(ErrSlowPeer)
			return fmt.Errorf("%w: more than %d bytes queued for %s, or too many for all peers", ErrSlowPeer,
				w.cfg.Limit,
				w.comm.PeerAddr())
		}
		return nil
	}
	wake := len(w.queue) == 0 || urgent && !w.urgent
	w.urgent = w.urgent || urgent
	for _, b := range w.sealed {
		w.enqueue(b)
	}
	w.mu.Unlock()
	if wake {
		w.poke()
	}
	return nil
}

const (
	// smallBatch is the size up to which the owner copies a batch into the previous one. A longer one is left to the
	// goroutine.
	smallBatch = 2 << 10
	// gatherBytes is the capacity of a batch that small ones are copied into.
	gatherBytes = 16 << 10
)

// enqueue adds a batch to the queue. A small one is copied into the last of the queue while it is in the cache: an
// owner that flushes every message would otherwise leave thousands for take, which holds the lock that the owner needs.
// The caller holds mu.
func (w *Writer) enqueue(b *Batch) {
	if n := len(w.queue); n > 0 && len(b.Body) <= smallBatch && len(b.Frames) == 0 {
		last := w.queue[n-1]
		if len(last.Body)+len(b.Body) <= batchBytes {
			if cap(last.Body) < gatherBytes {
				last.Body = slices.Grow(last.Body, gatherBytes)
			}
			last.merge(b)
			w.bytes -= listHead // b has no header any more
			w.cfg.Backlog.add(-listHead)
			return
		}
	}
	w.queue = append(w.queue, b)
}

func (w *Writer) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run sends until the stream ends.
func (w *Writer) run() {
	defer close(w.done)
	defer w.cfg.Backlog.join(-1)
	lingered := false
	for {
		w.pace()
		b, linger, closing := w.take(lingered)
		lingered = false
		switch {
		case b != nil:
			if err := w.write(b); err != nil {
				if w.comm.Err() == nil {
					w.comm.Abort()
				}
				w.drop()
				return
			}
		case closing:
			return
		case linger:
			if lingered = w.wait(w.cfg.Linger); !lingered && w.over() {
				w.drop()
				return
			}
		default:
			if w.wait(0); w.over() {
				w.drop()
				return
			}
		}
	}
}

// over reports whether the stream has ended: nothing more can be sent.
func (w *Writer) over() bool { return w.ctx.Err() != nil || w.comm.Err() != nil }

// wait waits for work, at most for d if it is positive. It reports whether that time has passed.
func (w *Writer) wait(d time.Duration) bool {
	var late <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-late:
		return true
	case <-w.wake:
	case <-w.comm.Done():
	case <-w.ctx.Done():
	}
	return false
}

// pace waits until the interval since the last message has passed, or the stream is to end.
func (w *Writer) pace() {
	rest := w.cfg.Interval - time.Since(w.last)
	if w.cfg.Interval == 0 || rest <= 0 {
		return
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	for !w.isClosing() {
		select {
		case <-timer.C:
			return
		case <-w.comm.Done():
			return
		case <-w.ctx.Done():
			return
		case <-w.wake: // take finds new data
		}
	}
}

func (w *Writer) isClosing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closing
}

// take returns the next batch, merged with other queued ones; none if it is to linger.
func (w *Writer) take(lingered bool) (b *Batch, linger, closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = len(w.queue) == 0
	if w.idle {
		w.urgent = false
		return nil, false, w.closing
	}
	if w.cfg.Linger > 0 && !lingered && !w.urgent && !w.closing {
		return nil, true, false
	}
	b = w.queue[0]
	size := b.size()
	n := 1
	for ; n < len(w.queue); n++ {
		next := w.queue[n]
		more := next.size()
		if !b.joins(size, next, more) {
			break
		}
		size += more
		b.merge(next)
	}
	size = min(size, w.bytes)
	w.bytes -= size
	w.cfg.Backlog.add(-size)
	w.queue = append(w.queue[:0], w.queue[n:]...)
	if len(w.queue) == 0 {
		w.urgent = false
	}
	return b, false, w.closing
}

func (w *Writer) write(b *Batch) error {
	if w.cfg.Commit != nil && b.after > 0 {
		if err := w.cfg.Commit(w.ctx, b.after); err != nil {
			return err
		}
	}
	if w.cfg.Interval > 0 {
		w.last = time.Now()
	}
	err := w.comm.Write(w.ctx, b.Message())
	b.release()
	if w.reuse && err == nil {
		b.recycle()
	}
	return err
}

// drop discards queued data that will not be sent.
func (w *Writer) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
	for _, b := range w.queue {
		b.release()
	}
	w.cfg.Backlog.add(-w.bytes)
	w.queue, w.bytes = nil, 0
}

// Finish ends the stream when everything is sent. It does not wait: see Done.
func (w *Writer) Finish() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.poke()
}

// Shutdown sends flushed data and closes the comm. When ctx ends before, it aborts the comm and returns the reason.
func (w *Writer) Shutdown(ctx context.Context) error {
	w.Finish()
	select {
	case <-w.done:
		return w.comm.Close()
	case <-ctx.Done():
		w.Abort(context.Cause(ctx))
		<-w.done
		return context.Cause(ctx)
	}
}

// Abort ends the stream and the comm immediately.
func (w *Writer) Abort(why error) {
	w.cancel(why)
	w.comm.Abort()
}
