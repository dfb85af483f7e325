package dashboard

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Many requests for a page make it once in half a second.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cache
		made := 0
		produce := func(context.Context) ([]byte, error) {
			time.Sleep(100 * time.Millisecond)
			made++
			return []byte{byte(made)}, nil
		}
		for round := 1; round <= 3; round++ {
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					b, err := c.get(t.Context(), "page", cacheTime, produce)
					if err != nil || len(b) != 1 || b[0] != byte(round) {
						t.Errorf("round %d: got %v, error %v, want [%d]", round, b, err, round)
					}
				})
			}
			all.Wait()
			time.Sleep(cacheTime)
		}
		if made != 3 {
			t.Errorf("calls: got %d, want 3", made)
		}
	})
}

// An error and a panic are not kept, and a request that ends does not end the page of others.
func TestCacheErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cache
		broken := errors.New("broken")
		fail := func(context.Context) ([]byte, error) { return nil, broken }
		good := func(ctx context.Context) ([]byte, error) {
			time.Sleep(time.Second)
			return []byte("x"), ctx.Err()
		}
		if _, err := c.get(t.Context(), "page", cacheTime, fail); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = c.get(t.Context(), "page", cacheTime, func(context.Context) ([]byte, error) { panic("oh") })
		}()
		ctx, cancel := context.WithCancel(t.Context())
		var first sync.WaitGroup
		first.Go(func() { _, _ = c.get(ctx, "page", cacheTime, good) })
		time.Sleep(time.Millisecond)
		cancel()
		if _, err := c.get(ctx, "page", cacheTime, fail); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled request: got %v, want %v", err, context.Canceled)
		}
		if b, err := c.get(t.Context(), "page", cacheTime, fail); err != nil || string(b) != "x" {
			t.Errorf("page of a canceled request: got %q, error %v, want x", b, err)
		}
		first.Wait()
	})
}
