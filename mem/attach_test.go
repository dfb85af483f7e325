package mem_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"go.millstream.dev/mem"
)

type key struct{ name string }

func TestAttachMakesOnce(t *testing.T) {
	k := &key{"ctx"}
	var r *mem.Region
	for range 2000 { // often enough that two come at the same moment
		r = deviceRegion(nil)
		b := r.Buffer()
		defer b.Release()
		var made atomic.Int32
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				<-start
				v, err := r.Attach(k, func() (any, error) { made.Add(1); return "memh", nil })
				if v != "memh" || err != nil {
					t.Errorf("%v %v", v, err)
				}
			})
		}
		close(start)
		wg.Wait()
		if made.Load() != 1 {
			t.Fatalf("made %d times", made.Load())
		}
	}
	if v, ok := r.Attached(k); !ok || v != "memh" {
		t.Errorf("Attached: %v %v", v, ok)
	}
	if _, ok := r.Attached(&key{"ctx"}); ok {
		t.Error("another key with equal content is found: pointers are the identity")
	}
	r.Detach(k)
	r.Detach(k)
	if _, ok := r.Attached(k); ok {
		t.Error("found after Detach")
	}
	if v, _ := r.Attach(k, func() (any, error) { return "new", nil }); v != "new" {
		t.Errorf("after Detach: %v", v)
	}
}

func TestAttachDoesNotCacheErrors(t *testing.T) {
	r := deviceRegion(nil)
	b := r.Buffer()
	defer b.Release()
	boom := errors.New("boom")
	if _, err := r.Attach("k", func() (any, error) { return nil, boom }); !errors.Is(err, boom) {
		t.Error(err)
	}
	if _, ok := r.Attached("k"); ok {
		t.Error("a failed attachment is found")
	}
	if v, err := r.Attach("k", func() (any, error) { return 7, nil }); v != 7 || err != nil {
		t.Errorf("%v %v", v, err)
	}
}

// TestAttachKeysAreIndependent: making one value may make another, and a reader of a finished
// one is not held up by one in the making.
func TestAttachKeysAreIndependent(t *testing.T) {
	r := deviceRegion(nil)
	b := r.Buffer()
	defer b.Release()
	v, err := r.Attach("outer", func() (any, error) {
		if _, ok := r.Attached("outer"); ok {
			t.Error("Attached gives an unfinished value")
		}
		return r.Attach("inner", func() (any, error) { return 1, nil })
	})
	if v != 1 || err != nil {
		t.Errorf("%v %v", v, err)
	}
}

func TestAttachPanicFreesWaiters(t *testing.T) {
	r := deviceRegion(nil)
	b := r.Buffer()
	defer b.Release()
	entered, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		defer func() { _ = recover() }()
		_, _ = r.Attach("k", func() (any, error) { close(entered); <-leave; panic("boom") })
	}()
	<-entered
	go func() {
		_, err := r.Attach("k", func() (any, error) { return nil, errors.New("made a second time") })
		done <- err
	}()
	close(leave)
	if err := <-done; err == nil {
		t.Error("a waiter got no error although making the value panicked")
	}
	if v, err := r.Attach("k", func() (any, error) { return 1, nil }); v != 1 || err != nil {
		t.Errorf("after the panic: %v %v", v, err)
	}
}

func TestAttachAfterFree(t *testing.T) {
	r := deviceRegion(nil)
	b := r.Buffer()
	if _, err := r.Attach("k", func() (any, error) { return 1, nil }); err != nil {
		t.Fatal(err)
	}
	b.Release()
	if _, ok := r.Attached("k"); ok {
		t.Error("a freed region still has its attachment")
	}
	if _, err := r.Attach("k", func() (any, error) { return 1, nil }); !errors.Is(err, mem.ErrReleased) {
		t.Error(err)
	}
}

func TestAttachReadAllocatesNothing(t *testing.T) {
	r := deviceRegion(nil)
	b := r.Buffer()
	defer b.Release()
	k := &key{}
	mk := func() (any, error) { return k, nil }
	if n := testing.AllocsPerRun(100, func() { _, _ = r.Attach(k, mk) }); n != 0 {
		t.Errorf("%v allocations per read", n)
	}
}

func BenchmarkAttachRead(b *testing.B) {
	r := deviceRegion(nil)
	v := r.Buffer()
	defer v.Release()
	k := &key{}
	mk := func() (any, error) { return k, nil }
	for b.Loop() {
		_, _ = r.Attach(k, mk)
	}
}
