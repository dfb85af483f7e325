package commtest

import (
	"context"
	"errors"
	"os"
	"time"

	"go.millstream.dev/comm"
)

// readContext: a read that has got nothing leaves the comm as it was.
func readContext(r *rig) {
	a, b := r.pair()
	for i := range 3 {
		ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
		if _, err := b.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("read %d: %v", i, err)
		}
		cancel()
		if _, err := b.Read(ctx); err == nil {
			r.Error("a read with an ended context")
		}
		r.alive(a, b)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	done := async(func() error { _, err := b.Read(ctx); return err })
	// Another reader waits for its turn with a context of its own.
	second := async(func() error { _, err := b.Read(ctx); return err })
	cancel()
	for _, d := range []<-chan error{done, second} {
		if err := <-d; !errors.Is(err, context.Canceled) {
			r.Errorf("a cancelled read: %v", err)
		}
	}
	r.alive(a, b)
	// A message that is there wins over nothing, whatever context comes next.
	r.write(a, message(4, 50))
	ctx, cancel = context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	if m, err := b.Read(ctx); err != nil || check(m, 4, 50) != nil {
		r.Errorf("a message that was there: %v", err)
	}
	cancel()
	r.alive(a, b) // an old context's end means nothing
}

func writeContext(r *rig) {
	a, b := r.pair()
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if err := a.Write(ctx, message(1, 1)); !errors.Is(err, context.Canceled) {
		r.Errorf("a write with an ended context: %v", err)
	}
	r.alive(a, b)
	ctx, cancel = context.WithCancel(r.ctx)
	if err := a.Write(ctx, message(1, 1)); err != nil {
		r.Error(err)
	}
	cancel()
	r.read(b, 1, 1)
	r.alive(a, b)
}

// writeStalled: a write whose context ends either sent nothing, and the comm lives on, or
// ends the comm.
func writeStalled(r *rig) {
	r.bothEnds(func(r *rig, a, b comm.Comm) {
		ctx, cancel := context.WithCancel(r.ctx)
		sub := *r
		sub.ctx = ctx
		done := stall(&sub, a)
		for range 3 {
			r.read(b, 1, 100, 4<<20)
		}
		time.Sleep(20 * time.Millisecond) // let it fill what there is
		cancel()
		err := <-done
		if !errors.Is(err, context.Canceled) {
			r.Errorf("the write ended with %v", err)
		}
		if errors.Is(err, comm.ErrClosed) {
			r.ended(a)
			for {
				m, err := b.Read(r.ctx)
				if err != nil {
					break
				}
				if err := check(m, 1, 100, 4<<20); err != nil {
					r.Errorf("half a message was read: %v", err)
				}
				m.Release()
			}
			r.ended(b)
			return
		}
		end := async(func() error { return a.Write(r.ctx, message(2, 7)) })
		for {
			m, err := b.Read(r.ctx)
			if err != nil {
				r.Fatal(err)
			}
			last := len(m.Frames) == 1
			if last {
				err = check(m, 2, 7)
			} else {
				err = check(m, 1, 100, 4<<20)
			}
			if err != nil {
				r.Error(err)
			}
			m.Release()
			if last {
				break
			}
		}
		if err := <-end; err != nil {
			r.Error(err)
		}
	})
}

func listener(r *rig) {
	l := r.listen()
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := l.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("Accept with nobody there: %v", err)
	}
	a, b := r.connect(l)
	waiting := async(func() error { _, err := l.Accept(r.ctx); return err })
	for range 2 {
		if err := l.Close(); err != nil {
			r.Error(err)
		}
	}
	if err := <-waiting; !errors.Is(err, comm.ErrClosed) {
		r.Errorf("Accept when the listener was closed: %v", err)
	}
	if _, err := l.Accept(r.ctx); !errors.Is(err, comm.ErrClosed) {
		r.Errorf("Accept on a closed listener: %v", err)
	}
	r.alive(a, b)
}

func nobodyListens(r *rig) {
	l := r.listen()
	address := l.ContactAddr()
	l.Close()
	cfg := r.Factory.Dial
	cfg.Timeout = 200 * time.Millisecond
	c, err := r.Network.Dial(r.ctx, address, cfg)
	if err == nil {
		c.Abort()
		r.Fatal("somebody listens")
	}
	var timeout *comm.ConnectError
	if !errors.As(err, &timeout) || !errors.Is(err, os.ErrDeadlineExceeded) || timeout.Address != address ||
		timeout.Last == nil {
		r.Errorf("the error is %v", err)
	}
}

func dialContext(r *rig) {
	l := r.listen()
	address := l.ContactAddr()
	l.Close()
	ctx, cancel := context.WithCancel(r.ctx)
	done := async(func() error {
		c, err := r.Network.Dial(ctx, address, r.Factory.Dial)
		if err == nil {
			c.Abort()
		}
		return err
	})
	time.Sleep(20 * time.Millisecond)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		r.Errorf("a cancelled dial: %v", err)
	}
}
