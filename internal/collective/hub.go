package collective

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/collective/transport"
)

// hub is what a group shares with its sub-groups: the transport, and the first failure of any rank, which is the end
// of all of them.
type hub struct {
	t     transport.Transport
	names []string
	done  chan struct{} // closed with the first failure
	ended chan struct{} // closed when watch has ended

	failed atomic.Pointer[RankError]

	mu     sync.Mutex
	refs   int           // groups that are open
	left   map[int]bool  // ranks that have left in peace
	news   chan struct{} // closed, and made anew, when left changes
	nextID uint32

	maps mappings // other ranks' device memory
}

func newHub(t transport.Transport, names []string) *hub {
	h := &hub{t: t, names: names, done: make(chan struct{}), ended: make(chan struct{}), left: map[int]bool{},
		news: make(chan struct{}), refs: 1}
	go h.watch()
	return h
}

// watch turns the transport's failures into the group's. It ends when the transport is closed.
func (h *hub) watch() {
	defer close(h.ended)
	for e := range h.t.Failures() {
		if !transport.Left(e) {
			h.fail(e)
			continue
		}
		h.mu.Lock()
		h.left[e.Rank] = true
		close(h.news)
		h.news = make(chan struct{})
		h.mu.Unlock()
	}
}

// fail ends everything, once.
func (h *hub) fail(e *RankError) {
	named := h.named(e)
	if !h.failed.CompareAndSwap(nil, named) {
		return
	}
	close(h.done)
	h.t.Abort(named)
}

// named returns a copy of e with the name of its rank.
func (h *hub) named(e *RankError) *RankError {
	named := *e
	if named.Name == "" && named.Rank < len(h.names) {
		named.Name = h.names[named.Rank]
	}
	return &named
}

// receiveError returns the group's failure for what a receive failed with. The end of a rank is that failure: a receive
// may know of it before watch does. A rank that has left ends nothing but the receives from it.
func (h *hub) receiveError(err error) error {
	var gone *RankError
	isRank := errors.As(err, &gone)
	if isRank && !transport.Left(gone) {
		h.fail(gone)
	}
	if known := h.err(); known != nil {
		return known
	}
	if isRank {
		return h.named(gone)
	}
	return err
}

func (h *hub) err() error {
	if e := h.failed.Load(); e != nil {
		return e
	}
	return nil
}

func (h *hub) hasLeft(rank int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.left[rank]
}

// opError is an operation with one rank that went wrong.
type opError struct {
	rank int
	err  error
}

func (e *opError) Error() string { return e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

// explain turns what an operation failed with into the group's failure, and makes it so.
func (h *hub) explain(ctx context.Context, err error) error {
	if known := h.err(); known != nil {
		return known
	}
	me := h.t.Rank()
	if ctx.Err() != nil {
		h.fail(&RankError{Rank: me, Reason: "gave up: " + context.Cause(ctx).Error(), Err: context.Cause(ctx)})
		return h.err()
	}
	var gone *RankError
	var op *opError
	switch {
	case errors.As(err, &gone) && !transport.Left(gone):
		h.fail(gone)
	case errors.As(err, &gone): // in peace: was there a notice before its farewell?
		h.settle(func() bool { return h.hasLeft(gone.Rank) })
		h.fail(gone)
	case errors.As(err, &op): // the transport knows only that it failed: the reason may be on its way
		h.settle(func() bool { return false })
		h.fail(&RankError{Rank: op.rank, Reason: op.err.Error(), Err: op.err})
	default:
		h.fail(&RankError{Rank: me, Reason: err.Error(), Err: err})
	}
	return h.err()
}

// settle waits a moment for a better reason, or until ok.
func (h *hub) settle(ok func() bool) {
	timer := time.NewTimer(transport.Grace)
	defer timer.Stop()
	for {
		h.mu.Lock()
		news := h.news
		h.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-news:
		case <-h.done:
			return
		case <-timer.C:
			return
		}
	}
}

func (h *hub) retain() {
	h.mu.Lock()
	h.refs++
	h.mu.Unlock()
}

// release closes the transport with the last group.
func (h *hub) release() error {
	h.mu.Lock()
	h.refs--
	last := h.refs == 0
	h.mu.Unlock()
	if !last {
		return nil
	}
	h.maps.close()
	err := h.t.Close()
	<-h.ended
	return err
}

// propose returns a number for a sub-group that this rank has never proposed before.
func (h *hub) propose() uint32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nextID++
	return h.nextID
}

// atLeast keeps later proposals above what others have proposed.
func (h *hub) atLeast(n uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nextID = max(h.nextID, n)
}
