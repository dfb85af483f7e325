package execution

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestLazyContext(t *testing.T) {
	why := errors.New("why")
	t.Run("canceled after first use", func(t *testing.T) {
		c := &lazyContext{parent: context.Background()}
		child, stop := context.WithTimeout(c, time.Hour)
		defer stop()
		if c.Err() != nil || child.Err() != nil {
			t.Fatal("context ended before it was canceled")
		}
		c.cancel(why)
		<-child.Done()
		if !errors.Is(context.Cause(child), why) || !errors.Is(context.Cause(c), why) ||
			!errors.Is(c.Err(), context.Canceled) {
			t.Errorf("causes %v and %v", context.Cause(child), context.Cause(c))
		}
	})
	t.Run("canceled before first use", func(t *testing.T) {
		c := &lazyContext{parent: context.Background()}
		c.cancel(why)
		c.cancel(errors.New("too late"))
		if !errors.Is(c.Err(), context.Canceled) {
			t.Error("context not ended")
		}
		<-c.Done()
		if !errors.Is(context.Cause(c), why) {
			t.Errorf("cause %v", context.Cause(c))
		}
	})
	t.Run("with its parent", func(t *testing.T) {
		parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), keyOfTest{}, 7))
		c := &lazyContext{parent: parent}
		if c.Value(keyOfTest{}) != 7 {
			t.Error("got no value of the parent")
		}
		if _, ok := c.Deadline(); ok {
			t.Error("got a deadline, want none")
		}
		cancel(why)
		<-c.Done()
		other := &lazyContext{parent: parent}
		if !errors.Is(context.Cause(c), why) || other.Err() == nil {
			t.Errorf("cause %v, %v", context.Cause(c), other.Err())
		}
	})
}

type keyOfTest struct{}
