package collective

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/collective/transport"
)

// hub is shared by a group and its sub-groups: the transport, and the first failure of a rank, which ends all of them.
type hub struct {
	t     transport.Transport
	names []string
	done  chan struct{} // closed with the first failure
	ended chan struct{} // closed when watch has ended

	failed atomic.Pointer[RankError]

	mu     sync.Mutex
	refs   int           // number of open groups
	left   map[int]bool  // ranks that have closed their group
	news   chan struct{} // closed and replaced when left changes
	nextID uint32

	maps mappings // device memory of other ranks
}

func newHub(t transport.Transport, names []string) *hub {
	h := &hub{t: t, names: names, done: make(chan struct{}), ended: make(chan struct{}), left: map[int]bool{},
		news: make(chan struct{}), refs: 1}
	go h.watch()
	return h
}

// watch forwards failures of the transport to the groups until the transport is closed.
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

// fail ends all groups with the first failure.
func (h *hub) fail(e *RankError) {
	named := h.withName(e)
	if !h.failed.CompareAndSwap(nil, named) {
		return
	}
	close(h.done)
	h.t.Abort(named)
}

// withName returns a copy of e with the name of its rank.
func (h *hub) withName(e *RankError) *RankError {
	named := *e
	if named.Name == "" && named.Rank < len(h.names) {
		named.Name = h.names[named.Rank]
	}
	return &named
}

// receiveError returns the failure of the group after a receive failed. The loss of a rank is that failure, and a
// receive may report it before watch does. A rank that has closed its group only ends the receives from it.
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
		return h.withName(gone)
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

// opError is the error of an operation with one rank.
type opError struct {
	rank int
	err  error
}

func (e *opError) Error() string { return e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

// explain fails the group with the error of an operation, and returns the failure of the group.
func (h *hub) explain(ctx context.Context, err error) error {
	if known := h.err(); known != nil {
		return known
	}
	me := h.t.Rank()
	if ctx.Err() != nil {
		h.fail(&RankError{Rank: me, Reason: "canceled: " + context.Cause(ctx).Error(), Err: context.Cause(ctx)})
		return h.err()
	}
	var gone *RankError
	var op *opError
	switch {
	case errors.As(err, &gone) && !transport.Left(gone):
		h.fail(gone)
	case errors.As(err, &gone): // closed; an abort notice may have been sent before
		h.awaitReason(func() bool { return h.hasLeft(gone.Rank) })
		h.fail(gone)
	case errors.As(err, &op): // the reason may arrive later
		h.awaitReason(func() bool { return false })
		h.fail(&RankError{Rank: op.rank, Reason: op.err.Error(), Err: op.err})
	default:
		h.fail(&RankError{Rank: me, Reason: err.Error(), Err: err})
	}
	return h.err()
}

// awaitReason waits for a more precise reason, at most transport.Grace, or until ok.
func (h *hub) awaitReason(ok func() bool) {
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

// release closes the transport when the last group is closed.
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

// propose returns a new number for a sub-group.
func (h *hub) propose() uint32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nextID++
	return h.nextID
}

// skipTo makes later proposals larger than n, which another rank has proposed.
func (h *hub) skipTo(n uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nextID = max(h.nextID, n)
}
