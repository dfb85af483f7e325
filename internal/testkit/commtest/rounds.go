package commtest

import (
	"sync"

	"go.millstream.dev/comm"
)

// rounds opens and closes many comms, one after the other; leak.Check detects leaks.
func rounds(r *rig) {
	l := r.listen()
	for i := range r.Factory.Rounds {
		a, b := r.connect1(l)
		switch i % 4 {
		case 0:
			r.alive(a, b)
			a.Close()
			b.Close()
		case 1:
			b.Close()
			a.Close()
		case 2:
			a.Abort()
			b.Abort()
		case 3:
			r.write(b, message(i, 100))
			b.Close()
			r.read(a, i, 100)
			a.Close()
		}
	}
}

// connect1 is connect without a Cleanup, because a thousand of them would keep all comms alive.
func (r *rig) connect1(l comm.Listener) (a, b comm.Comm) {
	r.Helper()
	var accepted error
	done := make(chan struct{})
	go func() {
		defer close(done)
		b, accepted = l.Accept(r.ctx)
	}()
	a, err := r.Network.Dial(r.ctx, l.ContactAddr(), r.Dial)
	if err != nil {
		r.Fatal(err)
	}
	<-done
	if accepted != nil {
		r.Fatal(accepted)
	}
	return a, b
}

// crowd uses many comms concurrently.
func crowd(r *rig) {
	l := r.listen()
	const n = 64
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			c, err := l.Accept(r.ctx)
			if err != nil {
				r.Error(err)
				return
			}
			defer c.Close()
			for {
				m, err := c.Read(r.ctx)
				if err != nil {
					return
				}
				if err := c.Write(r.ctx, m); err != nil {
					return
				}
				m.Release()
			}
		})
		group.Go(func() {
			c, err := r.Network.Dial(r.ctx, l.ContactAddr(), r.Dial)
			if err != nil {
				r.Error(err)
				return
			}
			defer c.Close()
			for i := range 20 {
				if err := c.Write(r.ctx, message(i, 10, 3000)); err != nil {
					r.Error(err)
					return
				}
				m, err := c.Read(r.ctx)
				if err != nil {
					r.Error(err)
					return
				}
				if err := check(m, i, 10, 3000); err != nil {
					r.Error(err)
				}
				m.Release()
			}
		})
	}
	group.Wait()
}
