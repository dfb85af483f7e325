package ucx

import (
	"net"
	"time"

	"go.millstream.dev/ucx/internal/ucp"
)

// connWaiter is a place to wait for something that an arriving frame, a deadline or
// a failure brings. Waiting drives progress as for any other operation. Its request
// is reused: whoever wakes it does so once, under the connection's mu.
type connWaiter struct {
	req Request
	on  bool // someone waits; guarded by Conn.mu
}

// arm prepares a wait. Conn.mu is held.
func (x *connWaiter) arm(w *Worker) {
	r := &x.req
	r.mu.Lock() // the last waker may not have left it yet
	r.w, r.op, r.done = w, ucp.OpAMRecv, nil
	r.state.Store(reqPending)
	r.mu.Unlock()
	x.on = true
}

// wake ends a wait. Conn.mu is held.
func (x *connWaiter) wake() {
	if x.on {
		x.on = false
		x.req.finish()
	}
}

// park waits until woken. Conn.mu is held on entry and on return, and not between.
func (c *Conn) park(x *connWaiter) {
	x.arm(c.w)
	c.mu.Unlock()
	_ = c.w.drv.await(background, &x.req, 1)
	c.mu.Lock()
}

// connDeadline is a deadline that can be moved while someone waits. Guarded by Conn.mu.
type connDeadline struct {
	timer   *time.Timer
	serial  uint64 // tells a timer that lost the race with a change from the present one
	expired bool
}

func (d *connDeadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.serial++
}

// set moves a deadline. Conn.mu is held.
func (c *Conn) setDeadline(d *connDeadline, x *connWaiter, t time.Time) {
	d.stop()
	d.expired = false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.expired = true
		x.wake()
		return
	}
	serial := d.serial
	d.timer = time.AfterFunc(left, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if d.serial == serial {
			d.expired = true
			x.wake()
		}
	})
}

// SetDeadline sets both deadlines, see [net.Conn]. A deadline that has passed ends
// waiting calls with [os.ErrDeadlineExceeded]; the connection stays usable.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, true, true) }

// SetReadDeadline sets the deadline of Read; the zero time means none.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, true, false) }

// SetWriteDeadline sets the deadline of Write; the zero time means none. A Write that
// timed out may have sent a part, as its count says.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, false, true) }

func (c *Conn) setDeadlines(t time.Time, read, write bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	if read {
		c.setDeadline(&c.in.deadline, &c.in.wait, t)
	}
	if write {
		c.setDeadline(&c.out.deadline, &c.out.wait, t)
	}
	return nil
}
