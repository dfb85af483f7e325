package tcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"

	"go.millstream.dev/comm"
)

// A comm between two processes with GPUs may have further connections, its stripes: a large frame on a GPU is spread
// over them, as one connection is slower than the copy engine and often than the network. The listening side sends a
// token in its hello; the dialing side dials the same address again, sends the token, the number of the stripe and the
// total, and gets a byte when it is admitted. From then on a stripe carries no messages, only chunks of frames whose
// lengths are flagged as spread, in the order of the comm's messages.

// tokenSize is the length of the token in bytes.
const tokenSize = 16

// stripes are the stripes of a comm, in order. They end with it.
type stripes struct {
	mu    sync.Mutex
	list  []*conn // nil until all have arrived; guarded by mu
	ended bool    // guarded by mu
	entry *stripeEntry
}

// get returns the stripes, nil for none.
func (l *stripes) get() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list
}

// set assigns the stripes of a comm, or ends them if it has ended.
func (l *stripes) set(list []*conn) {
	l.mu.Lock()
	ended := l.ended
	if !ended {
		l.list = list
	}
	l.mu.Unlock()
	if ended {
		abortAll(list)
	}
}

// end is called when the comm is freed.
func (l *stripes) end() {
	l.mu.Lock()
	l.ended = true
	list, entry := l.list, l.entry
	l.mu.Unlock()
	abortAll(list)
	entry.withdraw()
}

func abortAll(list []*conn) {
	for _, c := range list {
		if c != nil {
			c.Abort()
		}
	}
}

// addStripes dials the stripes of a new comm. A peer that does not accept them is not an error: the comm then has none.
func (c *conn) addStripes(ctx context.Context, connect func(context.Context) (net.Conn, error), limits comm.Limits,
	token []byte) error {
	total := c.staged.StripeCount()
	if total < 2 || len(token) != tokenSize {
		return nil
	}
	list := make([]*conn, total-1)
	errs := make([]error, total-1)
	var dialed sync.WaitGroup
	for i := range list {
		dialed.Go(func() {
			join := append(bytes.Clone(token), byte(i+1), byte(total))
			list[i], errs[i] = dialStripe(ctx, connect, limits, join)
		})
	}
	dialed.Wait()
	if errors.Join(errs...) != nil {
		abortAll(list)
		return context.Cause(ctx)
	}
	c.stripes.set(list)
	return nil
}

// dialStripe dials one stripe.
func dialStripe(ctx context.Context, connect func(context.Context) (net.Conn, error), limits comm.Limits,
	join []byte) (*conn, error) {
	nc, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	c, _, err := shakeHands(ctx, nc, greeting{limits: limits, join: join})
	if err != nil {
		return nil, err
	}
	if err := c.rguard.arm(ctx); err != nil {
		c.Abort()
		return nil, err
	}
	var admitted [1]byte
	err = c.full(admitted[:])
	c.disarm()
	if err != nil {
		c.Abort()
		return nil, err
	}
	return c, nil
}

// stripeTable assigns the stripes of a listener to their comms.
type stripeTable struct {
	mu      sync.Mutex
	entries map[[tokenSize]byte]*stripeEntry // guarded by mu
}

// stripeEntry is a comm that expects stripes. A nil one has none.
type stripeEntry struct {
	table *stripeTable
	token [tokenSize]byte

	// Guarded by the lock of the table.
	comm *conn   // nil until its handshake is complete
	list []*conn // nil until the first stripe has arrived, then with gaps
	have int
}

// open adds an entry before the handshake of its comm, as the hello carries the token.
func (d *stripeTable) open() *stripeEntry {
	e := &stripeEntry{table: d}
	_, _ = rand.Read(e.token[:])
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries == nil {
		d.entries = map[[tokenSize]byte]*stripeEntry{}
	}
	d.entries[e.token] = e
	return e
}

// admit sets the comm, whose handshake is complete. Its stripes may have arrived already.
func (e *stripeEntry) admit(c *conn) {
	if e == nil {
		return
	}
	c.stripes.mu.Lock()
	c.stripes.entry = e
	ended := c.stripes.ended
	c.stripes.mu.Unlock()
	if ended {
		e.withdraw()
		return
	}
	e.table.mu.Lock()
	e.comm = c
	list := e.whole()
	e.table.mu.Unlock()
	if list != nil {
		c.stripes.set(list)
	}
}

// whole returns the stripes once all have arrived. The caller holds the lock of the table.
func (e *stripeEntry) whole() []*conn {
	if e.comm == nil || e.list == nil || e.have < len(e.list) {
		return nil
	}
	return e.list
}

// withdraw removes an entry: no more stripes are admitted, and an incomplete set is closed.
func (e *stripeEntry) withdraw() {
	if e == nil {
		return
	}
	e.table.mu.Lock()
	delete(e.table.entries, e.token)
	list := e.list
	if e.whole() != nil {
		list = nil // owned by the comm
	}
	e.table.mu.Unlock()
	abortAll(list)
}

// join makes a connection a stripe of the comm whose token it sent.
func (d *stripeTable) join(ctx context.Context, c *conn, join []byte) error {
	if len(join) != tokenSize+2 {
		return fmt.Errorf("comm: stripe with a token of %d bytes", len(join))
	}
	number, total := int(join[tokenSize]), int(join[tokenSize+1])
	if number < 1 || number >= total || total > comm.MaxStripes {
		return fmt.Errorf("comm: invalid stripe %d of %d", number, total)
	}
	// The comm may use or close the stripe as soon as it is in the list, and the holder of a turn owns its guard.
	c.rturn <- struct{}{}
	defer c.rturn.give()
	c.wturn <- struct{}{}
	defer c.wturn.give()
	d.mu.Lock()
	e := d.entries[[tokenSize]byte(join)]
	ok := e != nil && (e.list == nil || len(e.list) == total-1 && e.list[number-1] == nil)
	var list []*conn
	var of *conn
	if ok {
		if e.list == nil {
			e.list = make([]*conn, total-1)
		}
		e.list[number-1] = c
		e.have++
		list, of = e.whole(), e.comm
	}
	d.mu.Unlock()
	if !ok {
		return errors.New("comm: stripe of an unknown comm")
	}
	if list != nil {
		of.stripes.set(list)
	}
	// The peer uses it from now on. If this fails, the stripe has ended and ends its comm when it is used.
	if err := c.wguard.arm(ctx); err != nil {
		return err
	}
	_, err := c.nc.Write([]byte{1})
	c.disarm()
	return err
}

// disarm releases the context of a stripe's handshake. From now on the comm ends it.
func (c *conn) disarm() {
	c.rguard.disarm()
	c.wguard.disarm()
}
