package tracker

import (
	"strconv"
	"strings"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
)

// Cancellations are numbered, and the scheduler repeats reason and number, because the key may have been submitted
// again when its reply arrives.
const (
	cancelReason = "cancelled by "
	cancelNumber = "request "
)

// isStale reports whether a reply belongs to a cancellation that was requested before the key was submitted. The caller
// holds the tracker's mutex.
func (s *State) isStale(client, reason, text string) bool {
	if reason != cancelReason+client {
		return false
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(text, cancelNumber), 10, 64)
	return err == nil && n <= s.born
}

// Cancel cancels keys, with force also those that other clients need.
func (t *Tracker) Cancel(states []*State, force bool) error {
	keys := make([]task.Key, len(states))
	for i, s := range states {
		keys[i] = s.key
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return t.closed
	}
	t.cancels++
	t.queue(&message.CancelKeys{Keys: keys, Client: t.cfg.ID, Force: force, Reason: cancelReason + t.cfg.ID,
		Msg: cancelNumber + strconv.FormatInt(t.cancels, 10)})
	for _, s := range states {
		s.cancel("", "")
	}
	return nil
}

// cancel ends a key that the scheduler will not compute. The caller holds the tracker's mutex.
func (s *State) cancel(reason, text string) {
	if s.status == Canceled {
		return
	}
	cause := ErrCanceled
	if s.status == Lost {
		cause = ErrLostData
	}
	s.end(Canceled, &canceledError{key: s.key, reason: reason, text: text, cause: cause})
}

// Retries returns how often each key has been run again, for RetryRequested.
func (t *Tracker) Retries(states []*State) []int {
	out := make([]int, len(states))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, s := range states {
		out[i] = s.retried
	}
	return out
}

// RetryRequested makes failed keys pending, after the scheduler has accepted to run them again; before is the result of
// Retries before the request. The stream reports the retry too, perhaps later: until then no caller must see the old
// error. If it has already been reported, the state of the keys is newer than the request.
func (t *Tracker) RetryRequested(states []*State, before []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, s := range states {
		if s.retried == before[i] && s.status == Failed {
			s.status, s.err, s.where = Pending, nil, -1
		}
	}
}
