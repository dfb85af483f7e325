package handshake_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/handshake"
	"go.millstream.dev/internal/comm/limits"
)

type abortable struct {
	comm.Comm
	aborted atomic.Bool
}

func (a *abortable) Abort() { a.aborted.Store(true) }

func never(ctx context.Context) (comm.Comm, error) { <-ctx.Done(); return nil, ctx.Err() }

func TestGateAdmits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := handshake.NewGate(comm.Limits{})
		want := &abortable{}
		g.Admit(never, func() { t.Error("refused") })
		g.Admit(func(context.Context) (comm.Comm, error) {
			return nil, errors.New("bad")
		}, func() { t.Error("refused") })
		g.Admit(func(context.Context) (comm.Comm, error) { return want, nil }, func() { t.Error("refused") })
		if c, err := g.Accept(t.Context()); err != nil || c != want {
			t.Errorf("%v, %v", c, err)
		}
		if want.aborted.Load() {
			t.Error("the accepted comm was aborted")
		}
		synctest.Wait()
		if n := g.Pending(); n != 1 {
			t.Errorf("%d handshakes are pending", n)
		}
		time.Sleep(limits.Fill(comm.Limits{}).HandshakeTime + time.Millisecond)
		if n := g.Pending(); n != 0 {
			t.Errorf("%d handshakes are pending after their time", n)
		}
		g.Close()
	})
}

// One too many ends the oldest, so those who only wait push out each other.
func TestGateEvicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := handshake.NewGate(comm.Limits{Pending: 10})
		var ended atomic.Int32
		order := make(chan int, 1000)
		for i := range 1000 {
			g.Admit(func(ctx context.Context) (comm.Comm, error) {
				<-ctx.Done()
				ended.Add(1)
				order <- i
				return nil, ctx.Err()
			}, func() {})
			synctest.Wait()
			if g.Pending() > 10 {
				t.Fatalf("%d are pending", g.Pending())
			}
		}
		if n := ended.Load(); n != 990 {
			t.Errorf("%d were ended", n)
		}
		for i := range 990 {
			if got := <-order; got != i {
				t.Fatalf("%d was ended before %d", got, i)
			}
		}
		want := &abortable{}
		g.Admit(func(context.Context) (comm.Comm, error) { return want, nil }, func() {})
		if c, err := g.Accept(t.Context()); err != nil || c != want {
			t.Errorf("an honest one: %v, %v", c, err)
		}
		g.Close()
	})
}

func TestGateClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := handshake.NewGate(comm.Limits{})
		waiting := &abortable{}
		g.Admit(func(context.Context) (comm.Comm, error) { return waiting, nil }, func() {})
		late := &abortable{}
		g.Admit(func(ctx context.Context) (comm.Comm, error) { <-ctx.Done(); return late, nil }, func() {})
		synctest.Wait()
		g.Close()
		if !waiting.aborted.Load() || !late.aborted.Load() {
			t.Error("comms that nobody accepts stay open")
		}
		refused := false
		g.Admit(never, func() { refused = true })
		if !refused {
			t.Error("a closed gate admits")
		}
		if _, err := g.Accept(t.Context()); !errors.Is(err, comm.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		g.Close()
	})
}

// Comms that nobody accepts hold back new ones, without bound otherwise.
func TestGateHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := handshake.NewGate(comm.Limits{Pending: 5})
		var admitted atomic.Int32
		go func() {
			for range 100 {
				g.Admit(func(context.Context) (comm.Comm, error) { return &abortable{}, nil }, func() {})
				admitted.Add(1)
			}
		}()
		synctest.Wait()
		if n := admitted.Load(); n != 10 {
			t.Errorf("%d were admitted", n)
		}
		for range 100 {
			if _, err := g.Accept(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := admitted.Load(); n != 100 {
			t.Errorf("%d were admitted", n)
		}
		g.Close()
	})
}
