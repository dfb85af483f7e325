// Package outbox sends the messages of a scheduler to one peer, in batches.
package outbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// listHead is the length in bytes of a msgpack list's head of the longest form, which
// every batch begins with: how many messages follow is known only at its end.
const listHead = 5

// Batch is one message on the wire: a list of maps, and the frames that they refer to.
type Batch struct {
	Body   []byte
	n      int
	Frames []wire.Frame
	marks  []int  // where body holds the index of a frame
	after  uint64 // the journal's position that must be on disk before it leaves
}

// Mark appends the index of the next frame to body, which goes on from b's: in a form of
// fixed length, since it changes when batches are merged.
func (b *Batch) Mark(body []byte) []byte {
	b.marks = append(b.marks, len(body))
	return binary.BigEndian.AppendUint32(append(body, 0xce), uint32(1+len(b.Frames)))
}

// merge appends the messages of next, which is of no use afterwards.
func (b *Batch) merge(next *Batch) {
	at := len(b.Body) - listHead
	b.Body = append(b.Body, next.Body[listHead:]...)
	for _, m := range next.marks {
		index := b.Body[at+m+1 : at+m+5]
		binary.BigEndian.PutUint32(index, binary.BigEndian.Uint32(index)+uint32(len(b.Frames)))
		b.marks = append(b.marks, at+m)
	}
	b.Frames = append(b.Frames, next.Frames...)
	b.n += next.n
	b.after = max(b.after, next.after)
	next.Frames = nil
	next.recycle()
}

// marker appends a reference to a group of frames, which the batch takes over.
func (b *Batch) Serialized(s *wire.Serialized) {
	if s == nil {
		b.Body = msgpack.AppendNil(b.Body)
		return
	}
	b.Body = msgpack.AppendMapHeader(b.Body, 1)
	b.Body = msgpack.AppendString(b.Body, "__Serialized__")
	b.Body = b.Mark(b.Body)
	b.Frames = append(b.Frames, wire.HeapFrame(s.Header))
	for _, f := range s.Frames {
		b.Frames = append(b.Frames, f.Retain())
	}
}

// size is what it takes in memory, in bytes.
func (b *Batch) size() int64 {
	n := int64(len(b.Body))
	for _, f := range b.Frames {
		n += int64(f.Len())
	}
	return n
}

// Outbox sends what the loop says to one peer. The loop appends to the open batch, which
// is its own, and hands it over at the end of a turn; the sender, a goroutine, merges what
// has gathered meanwhile and writes it.
type Outbox struct {
	comm  comm.Comm
	limit int64
	Total *Backlog // of all outboxes; nil for none
	// commit, when set, waits until the journal is on disk up to a position.
	commit func(ctx context.Context, position uint64) error
	Reuse  bool // the transport has copied what it wrote when Write returns
	// Interval is the least time from one message to the next; 0 sends at once. What is said
	// after a pause always leaves at once.
	Interval time.Duration

	// The loop's:
	open   *Batch
	sealed []*Batch // large enough to go, before open

	mu      sync.Mutex // owns all below
	queue   []*Batch
	bytes   int64
	closing bool
	sent    int64
	batches int64

	last time.Time // of the sender: when it last wrote

	wake   chan struct{}
	ctx    context.Context
	cancel context.CancelCauseFunc
	Done   chan struct{}
}

func New(c comm.Comm, limit int64, commit func(context.Context, uint64) error) *Outbox {
	scheme, _ := comm.ParseAddress(c.LocalAddr())
	o := &Outbox{
		comm: c, limit: limit, commit: commit, Reuse: scheme == "tcp" || scheme == "tls",
		wake: make(chan struct{}, 1), Done: make(chan struct{}),
	}
	o.ctx, o.cancel = context.WithCancelCause(context.Background())
	return o
}

// Start starts the sender. What was said before waits for it: a stream begins with an
// answer that somebody else sends.
func (o *Outbox) Start() {
	o.Total.join(1)
	go o.run()
}

// Backlog is what waits for all peers of a scheduler.
type Backlog struct {
	Limit        int64
	Bytes, peers atomic.Int64
}

func (b *Backlog) add(n int64) {
	if b != nil {
		b.Bytes.Add(n)
	}
}

func (b *Backlog) join(n int64) {
	if b != nil {
		b.peers.Add(n)
	}
}

// over reports whether too much waits for all peers, and for this one no less than for others.
func (b *Backlog) over(own int64) bool {
	if b == nil {
		return false
	}
	all := b.Bytes.Load()
	return b.Limit > 0 && all > b.Limit && own >= all/max(b.peers.Load(), 1)
}

// batchBytes is from where on a batch is left as it is and another one begun. Long messages
// save nothing any more, and memory of one length is easily used again.
const batchBytes = 48 << 10

// Begin returns the open batch with one more message in it, whose map the caller appends.
// Only the loop calls it.
func (o *Outbox) Begin() *Batch {
	if o.open != nil && len(o.open.Body) >= batchBytes {
		o.sealed = append(o.sealed, o.open)
		o.open = nil
	}
	if o.open == nil {
		o.open = freshBatch()
	}
	o.open.n++
	return o.open
}

// spareBatches are batches that have been sent, of all outboxes: what the collector does
// not see does not make it run.
var spareBatches sync.Pool

func freshBatch() *Batch {
	if b, ok := spareBatches.Get().(*Batch); ok {
		return b
	}
	return &Batch{Body: make([]byte, listHead, 512)}
}

// recycle keeps a batch's memory for another one.
func (b *Batch) recycle() {
	if cap(b.Body) <= 4*batchBytes {
		*b = Batch{Body: b.Body[:listHead], marks: b.marks[:0]}
		spareBatches.Put(b)
	}
}

var ErrFull = errors.New("the peer does not read what it is sent")

// Flush hands the open batch to the sender. It reports whether the peer has been dropped
// because too much waits for it. Only the loop calls it.
func (o *Outbox) Flush(after uint64) error {
	b := o.open
	if b == nil {
		return nil
	}
	o.open = nil
	o.sealed = append(o.sealed, b)
	var size int64
	for _, b := range o.sealed {
		b.after = after
		size += b.size()
	}
	defer func() {
		clear(o.sealed)
		o.sealed = o.sealed[:0]
	}()
	o.mu.Lock()
	o.bytes += size
	o.Total.add(size)
	full := len(o.queue) > 0 && (o.bytes > o.limit || o.Total.over(o.bytes))
	if o.closing || full {
		o.bytes -= size
		o.Total.add(-size)
		o.mu.Unlock()
		for _, b := range o.sealed {
			releaseFrames(b.Frames)
		}
		if full {
			o.Abort(ErrFull)
			return fmt.Errorf("%w: more than %d bytes wait for %s, or too many for all peers", ErrFull, o.limit,
				o.comm.PeerAddr())
		}
		return nil
	}
	o.queue = append(o.queue, o.sealed...)
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return nil
}

// run is the sender.
func (o *Outbox) run() {
	defer close(o.Done)
	defer o.Total.join(-1)
	for {
		o.pace()
		b, closing := o.take()
		if b == nil && closing {
			return
		}
		if b == nil {
			select {
			case <-o.wake:
				continue
			case <-o.comm.Done():
			case <-o.ctx.Done():
			}
			o.drop()
			return
		}
		if err := o.write(b); err != nil {
			if o.comm.Err() == nil {
				o.comm.Abort()
			}
			o.drop()
			return
		}
	}
}

// pace waits until the interval since the last message is over, or the peer is to be let go.
func (o *Outbox) pace() {
	rest := o.Interval - time.Since(o.last)
	if o.Interval == 0 || rest <= 0 {
		return
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-o.comm.Done():
			return
		case <-o.ctx.Done():
			return
		case <-o.wake: // what has come is found by take
			o.mu.Lock()
			closing := o.closing
			o.mu.Unlock()
			if closing {
				return
			}
		}
	}
}

const (
	// mergeBytes is up to where batches that wait are sent as one.
	mergeBytes = 2 * batchBytes
	// mergeFrames and mergeFrameBytes bound the frames of what is sent as one.
	mergeFrames, mergeFrameBytes = 2048, 4 << 20
)

// take returns the next batch, with what else waits merged into it.
func (o *Outbox) take() (b *Batch, closing bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return nil, o.closing
	}
	b = o.queue[0]
	size := b.size()
	n := 1
	for ; n < len(o.queue); n++ {
		next := o.queue[n]
		more := next.size()
		if len(b.Body)+len(next.Body) > mergeBytes || len(b.Frames)+len(next.Frames) > mergeFrames ||
			len(next.Frames) > 0 && size+more > mergeFrameBytes {
			break
		}
		size += more
		b.merge(next)
	}
	size = min(size, o.bytes)
	o.bytes -= size
	o.Total.add(-size)
	o.queue = append(o.queue[:0], o.queue[n:]...)
	return b, o.closing
}

func (o *Outbox) write(b *Batch) error {
	if o.commit != nil && b.after > 0 {
		if err := o.commit(o.ctx, b.after); err != nil {
			return err
		}
	}
	b.Body[0] = 0xdd // a list whose length has four bytes
	binary.BigEndian.PutUint32(b.Body[1:listHead], uint32(b.n))
	m := &wire.Message{Frames: append([]wire.Frame{wire.HeapFrame(b.Body)}, b.Frames...)}
	if o.Interval > 0 {
		o.last = time.Now()
	}
	err := o.comm.Write(o.ctx, m)
	releaseFrames(b.Frames)
	o.mu.Lock()
	o.sent += int64(b.n)
	o.batches++
	o.mu.Unlock()
	if o.Reuse && err == nil {
		b.recycle()
	}
	return err
}

// drop forgets what nobody will send.
func (o *Outbox) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing = true
	for _, b := range o.queue {
		releaseFrames(b.Frames)
	}
	o.Total.add(-o.bytes)
	o.queue, o.bytes = nil, 0
}

// Finish lets the sender end when all is sent. It does not wait: done tells.
func (o *Outbox) Finish() {
	o.mu.Lock()
	o.closing = true
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Abort ends the sender and the comm at once.
func (o *Outbox) Abort(why error) {
	o.cancel(why)
	o.comm.Abort()
}

func releaseFrames(frames []wire.Frame) {
	for _, f := range frames {
		f.Release()
	}
}
