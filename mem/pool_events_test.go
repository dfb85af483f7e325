package mem_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.millstream.dev/mem"
)

// Released memory that a device is still writing must not be handed out.

func TestPoolQuarantine(t *testing.T) {
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096})
	e := new(manualEvent)
	b := alloc(t, p, 4096)
	s := b.Slice(0, 8)
	s.SetReady(e) // written through a slice that is released first
	s.Release()
	b.Release()
	if st := p.Stats(); st.InUse != 0 || st.Quarantined != 4096 || st.LargestFree != 0 {
		t.Errorf("%+v", st)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.Alloc(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("memory in flight was handed out, or the pool gave up on it: %v", err)
	}
	if err := p.Close(); !errors.Is(err, mem.ErrBusy) {
		t.Errorf("Close: %v", err)
	}
	go func() {
		time.Sleep(5 * time.Millisecond)
		e.done.Store(true)
	}()
	c := alloc(t, p, 4096) // waits although Wait is not set: the memory is on its way
	if st := p.Stats(); st.Quarantined != 0 || !e.done.Load() {
		t.Errorf("%+v", st)
	}
	if _, err := p.Alloc(t.Context(), 1); !errors.Is(err, mem.ErrOutOfMemory) {
		t.Errorf("%v", err)
	}
	c.Release()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestPoolFinishedEventIsFree(t *testing.T) {
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096})
	for _, set := range []func(*manualEvent){
		func(e *manualEvent) { e.done.Store(true) },
		// A broken context never completes anything: its memory must not be lost.
		func(e *manualEvent) { err := errors.New("context is destroyed"); e.err.Store(&err) },
	} {
		e := new(manualEvent)
		b := alloc(t, p, 4096)
		b.SetReady(e)
		set(e)
		b.Release()
		if st := p.Stats(); st.Quarantined != 0 || st.LargestFree != 4096 {
			t.Errorf("%+v", st)
		}
	}
}

// A waiter that began to wait for a reference must notice that the memory went to quarantine.
func TestPoolWaiterSeesQuarantine(t *testing.T) {
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096, Wait: true})
	e := new(manualEvent)
	b := alloc(t, p, 4096)
	got := make(chan error)
	go func() {
		c, err := p.Alloc(context.Background(), 10)
		if err == nil {
			c.Release()
		}
		got <- err
	}()
	for p.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	b.SetReady(e)
	b.Release()
	select {
	case err := <-got:
		t.Fatalf("served before the event: %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	e.done.Store(true)
	if err := <-got; err != nil {
		t.Error(err)
	}
	if n := p.Trim(); n != 4096 {
		t.Errorf("Trim gave back %d", n)
	}
}
