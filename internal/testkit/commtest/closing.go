package commtest

import (
	"errors"
	"sync"

	"go.millstream.dev/comm"
)

// doneByPeer checks that an end without reads detects the end of the other.
func doneByPeer(r *rig) {
	r.bothEnds(func(r *rig, a, b comm.Comm) {
		if a.Err() != nil || b.Err() != nil {
			r.Fatalf("errors of a new comm: %v, %v", a.Err(), b.Err())
		}
		a.Close()
		r.ended(a)
		r.ended(b)
		r.endedRead(b)
	})
}

// closeDelivers checks that messages written before Close arrive, also if the closing end has not read all of its
// messages.
func closeDelivers(r *rig) {
	r.bothEnds(func(r *rig, a, b comm.Comm) {
		for i := range 5 {
			r.write(b, message(i, 100)) // not read
		}
		done := async(func() error {
			for i := range 5 {
				if err := a.Write(r.ctx, message(i, 10, 100_000)); err != nil {
					return err
				}
			}
			return a.Close()
		})
		for i := range 5 {
			r.read(b, i, 10, 100_000)
		}
		if err := <-done; err != nil {
			r.Error(err)
		}
		r.endedRead(b)
	})
}

func closeWhileReading(r *rig) {
	for _, abort := range []bool{false, true} {
		r.bothEnds(func(r *rig, a, b comm.Comm) {
			readers := []<-chan error{}
			for _, c := range []comm.Comm{a, a, b} { // one reader of a waits for its turn
				readers = append(readers, async(func() error { _, err := c.Read(r.ctx); return err }))
			}
			if abort {
				a.Abort()
			} else if err := a.Close(); err != nil {
				r.Error(err)
			}
			for _, d := range readers {
				if err := <-d; !errors.Is(err, comm.ErrClosed) {
					r.Errorf("read while closing: got %v, want ErrClosed", err)
				}
			}
			r.ended(a)
			r.ended(b)
		})
	}
}

// stall writes until a Write waits for the peer, which does not read, and returns the result of that Write.
func stall(r *rig, c comm.Comm) <-chan error {
	return async(func() error {
		m := message(1, 100, 4<<20)
		for {
			if err := c.Write(r.ctx, m); err != nil {
				return err
			}
		}
	})
}

func closeWhileWriting(r *rig) {
	for _, who := range []string{"own close", "own abort", "peer's close", "peer's abort"} {
		r.bothEnds(func(r *rig, a, b comm.Comm) {
			done := stall(r, a)
			// Read a few messages, so that the writer has started.
			for range 3 {
				r.read(b, 1, 100, 4<<20)
			}
			switch who {
			case "own close":
				a.Close()
			case "own abort":
				a.Abort()
			case "peer's close":
				b.Close()
			case "peer's abort":
				b.Abort()
			}
			if err := <-done; !errors.Is(err, comm.ErrClosed) {
				r.Errorf("%s: write: got %v, want ErrClosed", who, err)
			}
			r.ended(a)
		})
	}
}

// abruptClose aborts in every state of the other end.
func abruptClose(r *rig) {
	states := map[string]func(r *rig, a, b comm.Comm){
		"idle":   func(*rig, comm.Comm, comm.Comm) {},
		"unread": func(r *rig, a, b comm.Comm) { r.write(a, message(1, 1000)) },
		"unread by the one that aborts": func(r *rig, a, b comm.Comm) {
			r.write(b, message(1, 1000))
		},
		"used": func(r *rig, a, b comm.Comm) { r.alive(a, b) },
	}
	for name, state := range states {
		r.bothEnds(func(r *rig, a, b comm.Comm) {
			state(r, a, b)
			a.Abort()
			r.ended(a)
			// Messages that have arrived may be read before the end.
			for {
				m, err := b.Read(r.ctx)
				if err != nil {
					if !errors.Is(err, comm.ErrClosed) {
						r.Errorf("%s: %v", name, err)
					}
					break
				}
				m.Release()
			}
			r.ended(b)
		})
	}
}

func idempotent(r *rig) {
	a, b := r.pair()
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			c := []comm.Comm{a, b}[i%2]
			if i%4 < 2 {
				c.Abort()
			} else if err := c.Close(); err != nil {
				r.Error(err)
			}
		})
	}
	group.Wait()
	for range 2 {
		if err := a.Close(); err != nil {
			r.Error(err)
		}
		b.Abort()
		if err := b.Close(); err != nil {
			r.Error(err)
		}
	}
	r.endedRead(a)
	r.endedRead(b)
}
