package tracker

import (
	"errors"
	"testing"

	"go.millstream.dev/internal/task"
)

func TestWaiters(t *testing.T) {
	c := offline(t)
	a, b := c.keys[task.NewKey("a")], c.keys[task.NewKey("b")]
	w := &waiter{failFast: true}
	w.register([]*State{a, b, a})
	a.end(Finished, nil)
	select {
	case <-w.ch:
		t.Fatal("b has not ended")
	default:
	}
	b.end(Failed, errors.New("x"))
	<-w.ch
	if w.failed != b {
		t.Error("the failure is not known")
	}
	b.status = Pending
	gone := &waiter{}
	gone.register([]*State{b})
	gone.unregister([]*State{b})
	if b.waiters != nil {
		t.Error("a wait that was given up stays")
	}
}
