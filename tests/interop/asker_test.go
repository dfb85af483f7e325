package interop

import (
	"context"
	"testing"

	"go.millstream.dev/tests/interop/pypeer"
)

// asker is what every rig has: a test, its time, and one Python process that must do what
// it is asked.
type asker struct {
	*testing.T
	ctx  context.Context
	peer *pypeer.Peer
}

func (r asker) do(op string, c pypeer.Command) pypeer.Answer {
	r.Helper()
	a, err := r.peer.Do(r.ctx, op, c)
	if err != nil {
		r.Fatal(err)
	}
	return a
}

func (r asker) post(op string, c pypeer.Command) *pypeer.Pending {
	r.Helper()
	w, err := r.peer.Post(op, c)
	if err != nil {
		r.Fatal(err)
	}
	return w
}

func (r asker) wait(w *pypeer.Pending) pypeer.Answer {
	r.Helper()
	a, err := w.Wait(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	return a
}
