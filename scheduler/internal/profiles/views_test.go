package profiles

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/internal/proc/profile"
)

// Many viewers of a tree cost one request; a failure is not kept.
func TestViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c views
		made := 0
		produce := func(context.Context) (*profile.View, error) {
			made++
			time.Sleep(time.Second)
			return &profile.View{Count: int64(made)}, nil
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if v, err := c.get(t.Context(), "a", produce); err != nil || v.Count != 1 {
					t.Errorf("got %v, %v, want the first tree", v, err)
				}
			})
		}
		all.Wait()
		time.Sleep(viewTime - time.Millisecond)
		if v, _ := c.get(t.Context(), "a", produce); v.Count != 1 {
			t.Errorf("before its time is over: got tree %d, want 1", v.Count)
		}
		time.Sleep(time.Millisecond)
		if v, _ := c.get(t.Context(), "a", produce); v.Count != 2 {
			t.Errorf("after its time is over: got tree %d, want 2", v.Count)
		}
		broken := errors.New("broken")
		for range 2 {
			if _, err := c.get(t.Context(), "b", func(context.Context) (*profile.View, error) {
				made++
				return nil, broken
			}); !errors.Is(err, broken) {
				t.Errorf("got error %v, want %v", err, broken)
			}
		}
		if made != 4 {
			t.Errorf("got %d requests, want 4", made)
		}
	})
}

// The number of trees is bounded, and a viewer that leaves does not end the request of others.
func TestViewsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c views
		for i := range 3 * maxViews {
			v, err := c.get(t.Context(), fmt.Sprint(i), func(context.Context) (*profile.View, error) {
				return &profile.View{Count: int64(i)}, nil
			})
			if err != nil || v.Count != int64(i) {
				t.Errorf("%d: got %v, %v", i, v, err)
			}
		}
		if len(c.list) > maxViews {
			t.Errorf("got %d trees, want at most %d", len(c.list), maxViews)
		}
		time.Sleep(viewTime)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = c.get(ctx, "slow", func(ctx context.Context) (*profile.View, error) {
				time.Sleep(time.Second)
				return &profile.View{Count: 7}, ctx.Err()
			})
		}()
		synctest.Wait()
		if _, err := c.get(expired(t), "slow", nil); err == nil {
			t.Error("a viewer that has left: got no error")
		}
		cancel()
		if v, err := c.get(t.Context(), "slow", nil); err != nil || v.Count != 7 {
			t.Errorf("got %v, %v, want the tree of the first request", v, err)
		}
	})
}

// expired returns a context that has ended.
func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
