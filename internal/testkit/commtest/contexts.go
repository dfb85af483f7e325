package commtest

import (
	"context"
	"errors"
	"os"
	"time"

	"go.millstream.dev/comm"
)

// readContext checks that a read without a message does not change the comm.
func readContext(r *rig) {
	a, b := r.pair()
	for i := range 3 {
		ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
		if _, err := b.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("read %d: got %v, want DeadlineExceeded", i, err)
		}
		cancel()
		if _, err := b.Read(ctx); err == nil {
			r.Error("read with an ended context succeeded")
		}
		r.alive(a, b)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	done := async(func() error { _, err := b.Read(ctx); return err })
	// A second reader waits for its turn.
	second := async(func() error { _, err := b.Read(ctx); return err })
	cancel()
	for _, d := range []<-chan error{done, second} {
		if err := <-d; !errors.Is(err, context.Canceled) {
			r.Errorf("canceled read: got %v, want Canceled", err)
		}
	}
	r.alive(a, b)
	// A message that has arrived is returned with any context.
	r.write(a, message(4, 50))
	ctx, cancel = context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	if m, err := b.Read(ctx); err != nil || check(m, 4, 50) != nil {
		r.Errorf("read of a message that has arrived: %v", err)
	}
	cancel()
	r.alive(a, b) // the end of a previous context has no effect
}

func writeContext(r *rig) {
	a, b := r.pair()
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if err := a.Write(ctx, message(1, 1)); !errors.Is(err, context.Canceled) {
		r.Errorf("write with an ended context: got %v, want Canceled", err)
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

// writeStalled checks that a Write whose context ends either sent nothing, and the comm remains usable, or ends the
// comm.
func writeStalled(r *rig) {
	r.bothEnds(func(r *rig, a, b comm.Comm) {
		ctx, cancel := context.WithCancel(r.ctx)
		sub := *r
		sub.ctx = ctx
		done := stall(&sub, a)
		for range 3 {
			r.read(b, 1, 100, 4<<20)
		}
		time.Sleep(20 * time.Millisecond) // let it fill all buffers
		cancel()
		err := <-done
		if !errors.Is(err, context.Canceled) {
			r.Errorf("write: got %v, want Canceled", err)
		}
		if errors.Is(err, comm.ErrClosed) {
			r.ended(a)
			for {
				m, err := b.Read(r.ctx)
				if err != nil {
					break
				}
				if err := check(m, 1, 100, 4<<20); err != nil {
					r.Errorf("partial message read: %v", err)
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
		r.Errorf("Accept without a dialer: got %v, want DeadlineExceeded", err)
	}
	a, b := r.connect(l)
	waiting := async(func() error { _, err := l.Accept(r.ctx); return err })
	for range 2 {
		if err := l.Close(); err != nil {
			r.Error(err)
		}
	}
	if err := <-waiting; !errors.Is(err, comm.ErrClosed) {
		r.Errorf("Accept while the listener is closed: got %v, want ErrClosed", err)
	}
	if _, err := l.Accept(r.ctx); !errors.Is(err, comm.ErrClosed) {
		r.Errorf("Accept on a closed listener: got %v, want ErrClosed", err)
	}
	r.alive(a, b)
}

func noListener(r *rig) {
	l := r.listen()
	address := l.ContactAddr()
	l.Close()
	cfg := r.Factory.Dial
	cfg.Timeout = 200 * time.Millisecond
	c, err := r.Network.Dial(r.ctx, address, cfg)
	if err == nil {
		c.Abort()
		r.Fatal("Dial without a listener succeeded")
	}
	var timeout *comm.ConnectError
	if !errors.As(err, &timeout) || !errors.Is(err, os.ErrDeadlineExceeded) || timeout.Address != address ||
		timeout.Last == nil {
		r.Errorf("got %v, want a ConnectError with address and last error", err)
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
		r.Errorf("canceled dial: got %v, want Canceled", err)
	}
}
