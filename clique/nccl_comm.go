package clique

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/mem"
	"go.millstream.dev/nccl"
)

// ncclComm is an NCCL communicator with the stream that orders its operations.
type ncclComm struct {
	name   uint64 // the same on all its ranks
	c      *nccl.Comm
	stream *cuda.Stream

	mu      sync.Mutex // guards the fields below
	pending []*outcome // in order; the first ones may be done
	failed  error
}

// newNCCLComm creates a communicator of the ranks of a group. Rank 0 creates the ID and sends it over the connections
// of the group. All ranks call it.
func newNCCLComm(ctx context.Context, g *collective.Group, device int) (*ncclComm, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() { // a rank that fails must not block the others
		select {
		case <-g.Done():
			cancel(g.Err())
		case <-stop:
		}
	}()
	id, err := shareID(ctx, g)
	if err != nil {
		return nil, err
	}
	s, err := cuda.NewStream(device, cuda.StreamConfig{})
	if err != nil {
		return nil, err
	}
	c, err := nccl.Init(ctx, nccl.Config{Device: device}, id, g.Rank(), g.Size())
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write(id[:])
	return &ncclComm{name: h.Sum64(), c: c, stream: s}, nil
}

// shareID returns the ID that rank 0 has created, or the error of rank 0.
func shareID(ctx context.Context, g *collective.Group) (nccl.UniqueID, error) {
	var id nccl.UniqueID
	const textLen = 512
	message := make([]byte, 2+len(id)+textLen) // length of the error, ID, error
	if g.Rank() == 0 {
		created, err := nccl.NewUniqueID()
		copy(message[2:], created[:])
		if err != nil {
			n := copy(message[2+len(id):], err.Error())
			binary.LittleEndian.PutUint16(message, uint16(n))
		}
	}
	if err := g.Do(ctx, Broadcast(Of(message), 0).c); err != nil {
		return id, err
	}
	if n := int(binary.LittleEndian.Uint16(message)); n > 0 {
		return id, fmt.Errorf("rank 0: create NCCL id: %s", message[2+len(id):][:min(n, textLen)])
	}
	copy(id[:], message[2:])
	return id, nil
}

// outcome is the ready event of the result of a collective. When the communicator is aborted, the CUDA event completes
// although the data has not arrived; outcome returns the error then.
type outcome struct {
	*cuda.Event
	mu     sync.Mutex
	failed error
}

// fail records the error of an operation that is not done.
func (o *outcome) fail(err error) {
	if done, _ := o.Event.Query(); done {
		return
	}
	o.mu.Lock()
	o.failed = err
	o.mu.Unlock()
}

func (o *outcome) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// Query queries the event and returns the error of the clique if it failed.
func (o *outcome) Query() (bool, error) {
	done, err := o.Event.Query()
	if done && err == nil {
		err = o.err()
	}
	return done, err
}

// Wait waits for the event and returns the error of the clique if it failed.
func (o *outcome) Wait(ctx context.Context) error {
	if err := o.Event.Wait(ctx); err != nil {
		return err
	}
	return o.err()
}

// track keeps an operation until it is done, makes it the ready event of the buffers that it writes, and stores it in
// busy if that is not nil.
func (c *ncclComm) track(w *nccl.Work, busy *mem.Event, writes ...*mem.Buffer) error {
	o := &outcome{Event: w.Event()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return c.failed
	}
	c.prune()
	c.pending = append(c.pending, o)
	if busy != nil {
		*busy = o
	}
	for _, b := range writes {
		if b != nil {
			b.SetReady(o)
		}
	}
	return nil
}

// prune removes operations that are done. The caller holds mu.
func (c *ncclComm) prune() {
	n := 0
	for n < len(c.pending) {
		if done, err := c.pending[n].Event.Query(); !done && err == nil {
			break
		}
		n++
	}
	c.pending = append(c.pending[:0], c.pending[n:]...)
}

// flush waits for all operations in flight.
func (c *ncclComm) flush(ctx context.Context) error {
	c.mu.Lock()
	c.prune()
	var last *outcome
	if n := len(c.pending); n > 0 {
		last = c.pending[n-1] // the stream is in order
	}
	c.mu.Unlock()
	if last == nil {
		return nil
	}
	return last.Wait(ctx)
}

// busy reports whether operations are in flight.
func (c *ncclComm) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prune()
	return len(c.pending) > 0
}

// abort ends the communicator; operations in flight fail with why.
func (c *ncclComm) abort(why error) {
	c.mu.Lock()
	if c.failed == nil {
		c.failed = why
		for _, o := range c.pending {
			o.fail(why)
		}
	}
	c.mu.Unlock()
	_ = c.c.Close()
	_ = c.stream.Close()
}

// closeTime bounds how long close waits for the other ranks.
const closeTime = 3 * time.Second

// close shuts the communicator down together with all ranks.
func (c *ncclComm) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	c.mu.Lock()
	if c.failed == nil {
		c.failed = errors.New("communicator closed")
	}
	c.mu.Unlock()
	_ = c.c.Shutdown(ctx) // aborts on timeout
	_ = c.stream.Close()
}
